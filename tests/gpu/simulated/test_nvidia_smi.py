"""The simulated nvidia-smi: it lists what is visible where it runs, in every shell."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu.sandbox import Sandbox, busybox_root
from minirun.gpu.inventory import Inventory

DEVICES_CGROUP = Path("/sys/fs/cgroup/devices")


def line(index: int, number: int) -> str:
    uuid = f"GPU-aaaaaaaa-0000-4000-8000-{number:012}"
    return f"GPU {index}: NVIDIA A100-SXM4-40GB (SIMULATED) (UUID: {uuid})"


def test_it_lists_the_gpus_given(debian: Sandbox, store: str) -> None:
    debian.configure("--device=3,1", "--utility", store=store)
    done = debian.chroot("nvidia-smi", "-L")
    assert done.stdout.splitlines() == [line(0, 1), line(1, 3)]
    assert done.stderr == "" and done.returncode == 0
    assert debian.chroot("nvidia-smi", "--list-gpus").stdout == done.stdout


@pytest.mark.parametrize("shell", ("dash", "bash", "busybox"))
def test_every_shell_can_run_it(
    shell: str, tmp_path: Path, sandbox: Callable[[Path], Sandbox], store: str
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"this machine has no {shell}")
    root = busybox_root(tmp_path / "root")
    box = sandbox(root)
    assert box.configure("--device=0,2", "--utility", store=store)["error"] == ""
    for name in ("/bin", "/lib", "/lib64", "/usr/lib"):  # the host's, for shells that need them
        if not os.path.isdir(name):
            continue
        target = f"{root}/hostbin" if name == "/bin" else f"{root}{name}"
        os.makedirs(target, exist_ok=True)
        enter = ["nsenter", f"--mount=/proc/{box.pid}/ns/mnt", "mount"]
        subprocess.run([*enter, "--bind", "-o", "ro", name, target], check=True)
    words = [f"/hostbin/{shell}", *(["sh"] if shell == "busybox" else [])]
    done = box.chroot(*words, "/usr/bin/nvidia-smi", "-L")
    assert (done.stdout.splitlines(), done.stderr) == ([line(0, 0), line(1, 2)], "")
    table = box.chroot(*words, "/usr/bin/nvidia-smi")
    assert "Driver Version: 550.163.01" in table.stdout and table.stderr == ""
    assert "CUDA Version: 12.4" in table.stdout
    asked = box.chroot(*words, "/usr/bin/nvidia-smi", QUERY, "--format=csv,noheader,nounits")
    assert [row.split(", ")[0] for row in asked.stdout.splitlines()] == ["0", "1"]
    assert "Attached GPUs" in box.chroot(*words, "/usr/bin/nvidia-smi", "-q").stdout


def test_the_table_invents_nothing(debian: Sandbox, store: str) -> None:
    debian.configure("--device=0,1", "--utility", store=store)
    lines = debian.chroot("nvidia-smi").stdout.splitlines()
    assert "SIMULATED" in lines[1] and "Driver Version: 550.163.01" in lines[1]
    rows = [row for row in lines if "A100" in row]
    assert [row.split()[-3:-1] for row in rows] == [["N/A", "N/A"]] * 2
    assert [row.split()[5] for row in rows] == ["0000:07:00.0", "0000:0f:00.0"]
    assert {len(row) for row in lines} == {79}, "a terminal of 80 columns shows it whole"


def test_no_gpu_is_visible(debian: Sandbox, store: str) -> None:
    debian.configure("--utility", store=store)
    for words in (("nvidia-smi",), ("nvidia-smi", "-L")):
        done = debian.chroot(*words)
        assert done.returncode == 6 and "No devices were found" in done.stdout


def test_a_gpu_without_a_node_is_not_visible(debian: Sandbox, store: str) -> None:
    debian.configure("--device=0,1", "--utility", store=store)
    debian.view("/dev/nvidia0").unlink()
    assert debian.chroot("nvidia-smi", "-L").stdout.splitlines() == [line(0, 1)]


def test_a_gpu_that_the_cgroup_denies_is_not_visible(debian: Sandbox, store: str) -> None:
    if not (DEVICES_CGROUP / "devices.list").exists():
        pytest.skip("no cgroup v1 hierarchy of devices on this machine")
    debian.configure("--device=0,1", "--utility", store=store)
    group = DEVICES_CGROUP / f"minirun-test-{os.getpid()}-{os.urandom(3).hex()}"
    group.mkdir()
    try:
        (group / "devices.deny").write_text("c 195:0 rwm")
        enter = ["nsenter", f"--mount=/proc/{debian.pid}/ns/mnt", "chroot", debian.root]
        done = subprocess.run(
            [*enter, "nvidia-smi", "-L"], capture_output=True, text=True, check=False,
            preexec_fn=lambda: (group / "cgroup.procs").write_text("0"),
            env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin"},
        )  # fmt: skip
    finally:
        group.rmdir()
    assert done.stdout.splitlines() == [line(0, 1)]


def test_mig_devices(debian: Sandbox, store: str) -> None:
    options = ("--device=0,3:0,3:2", "--utility")
    debian.configure(*options, store=store, MINIRUN_SIM="mig=3")
    assert debian.chroot("nvidia-smi", "-L").stdout.splitlines() == [
        line(0, 0),
        line(1, 3),
        "  MIG gi7/ci0 Device 0: (UUID: MIG-bbbbbbbb-0000-4000-8000-000000000000)",
        "  MIG gi9/ci0 Device 1: (UUID: MIG-bbbbbbbb-0000-4000-8000-000000000002)",
    ]


@pytest.mark.parametrize("words", (("-r",), ("-q", "-x"), ("--query-gpu=name",), ("-i",)))
def test_an_unknown_option(words: tuple[str, ...], debian: Sandbox, store: str) -> None:
    debian.configure("--device=0", "--utility", store=store)
    done = debian.chroot("nvidia-smi", *words)
    assert done.returncode == 2 and done.stdout == ""
    assert "there is no option -" in done.stderr and "SIMULATED" in done.stderr


QUERY = "--query-gpu=index,name,uuid,pci.bus_id,memory.total,utilization.gpu,driver_version,count"
ROWS = [
    f"{at}, NVIDIA A100-SXM4-40GB (SIMULATED), GPU-aaaaaaaa-0000-4000-8000-{number:012}, "
    f"00000000:{bus}:00.0, [N/A], [N/A], 550.163.01, 2"
    for at, number, bus in ((0, 0, "07"), (1, 1, "0F"))
]
HEADING = (
    "index, name, uuid, pci.bus_id, memory.total [MiB], utilization.gpu [%], driver_version, count"
)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ((QUERY, "--format=csv"), [HEADING, *ROWS]),
        ((QUERY, "--format=csv,noheader"), ROWS),
        ((QUERY, "--format=csv,noheader,nounits"), ROWS),
        (("--format", "csv,nounits,noheader", "--query-gpu", QUERY.partition("=")[2]), ROWS),
        ((QUERY, "--format=csv,noheader", "-i", "1"), ROWS[1:]),
        ((QUERY, "--format=csv,noheader", "--id=00000000:07:00.0"), ROWS[:1]),
        (("--query-gpu=gpu_name, mig.mode.current", "--format=csv,noheader", "-i", "0"),
         ["NVIDIA A100-SXM4-40GB (SIMULATED), Disabled"]),
    ],
)  # fmt: skip
def test_what_scripts_ask(
    words: tuple[str, ...], lines: list[str], debian: Sandbox, store: str
) -> None:
    debian.configure("--device=0,1", "--utility", store=store)
    done = debian.chroot("nvidia-smi", *words)
    assert (done.returncode, done.stdout.splitlines()) == (0, lines)
    assert done.stderr.startswith("nvidia-smi: SIMULATED: ")


@pytest.mark.parametrize("form", ["csv", "csv,noheader"])
def test_a_field_that_there_is_not(form: str, debian: Sandbox, store: str) -> None:
    debian.configure("--device=0", "--utility", store=store)
    done = debian.chroot("nvidia-smi", "--query-gpu=index,no_such", f"--format={form}")
    assert done.returncode == 2
    assert done.stdout.startswith('Field "no_such" is not a valid field to query.')


def test_the_long_answer_invents_nothing(debian: Sandbox, store: str) -> None:
    debian.configure("--device=0,3", "--utility", store=store, MINIRUN_SIM="mig=3")
    done = debian.chroot("nvidia-smi", "-q", "-i", "1")
    assert (done.returncode, done.stderr) == (0, "") and "SIMULATED" in done.stdout
    rows = [line.partition(": ")[::2] for line in done.stdout.splitlines() if ": " in line]
    known = {name.strip(): value for name, value in rows if value != "N/A"}
    assert known == {
        "Driver Version": "550.163.01", "CUDA Version": "12.4", "Attached GPUs": "2",
        "Product Name": "NVIDIA A100-SXM4-40GB (SIMULATED)", "Current": "Enabled",
        "Pending": "Enabled", "GPU UUID": "GPU-aaaaaaaa-0000-4000-8000-000000000003",
        "Minor Number": "3", "Bus": "0x4E", "Device": "0x00", "Domain": "0x0000",
        "Bus Id": "00000000:4E:00.0",
    }  # fmt: skip
    assert len(rows) > len(known) + 15


def test_one_gpu_of_the_list(debian: Sandbox, store: str) -> None:
    debian.configure("--device=0,1", "--utility", store=store)
    assert debian.chroot("nvidia-smi", "-L", "-i", "1").stdout.splitlines() == [line(1, 1)]
    done = debian.chroot("nvidia-smi", "-L", "--id=7")
    assert done.returncode == 6 and "No devices were found" in done.stdout


def test_the_other_programs_say_what_they_are(
    debian: Sandbox, store: str, simulated: Inventory
) -> None:
    debian.configure("--device=0", "--utility", "--compute", store=store)
    for file in simulated.binaries[1:]:
        name = file.path.rpartition("/")[2]
        done = debian.chroot(name)
        assert done.returncode == 1 and f"{name}: SIMULATED" in done.stderr
