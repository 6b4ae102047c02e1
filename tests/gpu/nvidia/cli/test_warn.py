"""What the real stack passes over in silence, on the pretend host: said in-line, one line each.

`minirun run` runs there as it would on a host with a driver: NVML, ld.so.cache, /dev, /proc.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, skip
from gpu import images, pretend
from gpu.pretend import Host
from gpu.sandbox import debian_root
from minirun.common import naming
from minirun.core import gates
from minirun.core.errors import GPUError
from minirun.core.kernel import mountinfo
from minirun.core.kernel.architecture import NATIVE
from minirun.gpu.asked.request import NvidiaRequest
from minirun.gpu.inventory import ControlNode, Gpu, HostFile, Inventory
from minirun.gpu.nvidia.cli import warn
from minirun.gpu.nvidia.shared import catalog
from minirun.gpu.simulated import elf
from required import installed

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
VERSION = "550.163.01"
ROOT, STORE = f"/mnt/containers-{os.getpid()}", "/mnt/store"  # a cgroup has its name by the root
GATES = {"MINIRUN_GATES": "3:begin"}
CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


@pytest.fixture(scope="session")
def driver(store: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pretend host's driver."""
    if os.uname().machine != "x86_64":
        skip("the pretend host is an x86_64 one")
    installed("gcc")
    return pretend.build(tmp_path_factory.mktemp("pretend") / "driver", store)


@pytest.fixture
def host(driver: Path, tmp_path: Path) -> Host:
    return Host(driver, tmp_path, debian_root(tmp_path / "root"), {})


def run(
    host: Host, *flags: str, change: Callable[[], object] = lambda: None, **env: str
) -> dict[str, Any]:
    """`minirun run FLAGS` on the pretend host, after `change` of it; and what is left then."""

    def work() -> dict[str, Any]:
        os.mkdir(ROOT)
        images.make(Path(STORE), "image")
        change()
        before = mounts()
        words = ["minirun", "--root", ROOT, "--store", STORE, "run", "--name", "c", "--rm", *flags]
        with subprocess.Popen(
            [*words, "image", "sh", "-c", "ls /dev /usr/lib64"], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN | env | GATES,
        ) as process:  # fmt: skip
            show_module(process)
            out, err = process.communicate(timeout=60)
        logs = sorted(Path(ROOT, ".history").glob("*.jsonl"))
        return {
            "rc": process.returncode, "out": out.split(), "err": err,
            "log": logs[-1].read_text() if logs else "",
            "left": [name for name in os.listdir(ROOT) if not name.startswith(".")],
            "mounts": mounts() == before,
        }  # fmt: skip

    return host.run(work)


def show_module(process: subprocess.Popen[str]) -> None:
    """Bind the pretend module's folder into the container's /proc, as the kernel would show it."""
    while process.poll() is None:
        own = Path(ROOT, naming.id_of(ROOT, "c") or "c")
        log = own / "events.jsonl"
        if log.exists() and '"kind":"gate"' in log.read_text():
            pid = json.loads((own / "state.json").read_text())["init"]["pid"]
            bind = ("mount", "--bind", "/proc/driver", f"{own}/rootfs/proc/driver")
            subprocess.run(["nsenter", f"--target={pid}", "--mount", *bind], check=True)
            gates.open_gate(str(own))
            return
        time.sleep(0.005)


def mounts() -> list[str]:
    return [mount.mount_point for mount in mountinfo.read()]


def stale_cache(keep: Callable[[str], bool]) -> None:
    """Put an ld.so.cache in place that lists only those of the driver's libraries."""
    folder = Path(f"/mnt/tree{LIBRARIES}")
    folder.mkdir(parents=True)
    (folder.parents[2] / "etc").mkdir()
    (folder.parents[2] / "etc/ld.so.conf").write_text(f"{LIBRARIES}\n")
    for path in LIBRARIES.glob(f"*.so.{VERSION}"):
        if keep(path.name):
            shutil.copy(path, folder)
    subprocess.run(["/sbin/ldconfig", "-r", "/mnt/tree"], check=True, capture_output=True)
    cache = ("/mnt/tree/etc/ld.so.cache", "/etc/ld.so.cache")
    subprocess.run(["mount", "--bind", *cache], check=True)


def test_a_host_where_all_is_well(host: Host) -> None:
    found = run(host, "--gpus", "0,1")
    assert (found["rc"], found["err"]) == (0, "")
    assert {"nvidia0", "nvidia1", "nvidia-uvm", f"libcuda.so.{VERSION}"} <= {*found["out"]}


def test_no_node_of_nvidia_uvm_is_a_warning(host: Host) -> None:
    found = run(host, "--gpus", "0", change=lambda: os.unlink("/dev/nvidia-uvm"))
    line = "warning: /dev/nvidia-uvm does not exist on this host (nvidia-modprobe -u -c 0 makes it)"
    assert found["rc"] == 0
    assert f"minirun: {line}\n" in found["err"]
    assert '"name":"warning","args":{"text":"/dev/nvidia-uvm does not' in found["log"]


def test_nobody_is_warned_of_what_is_not_asked_for(host: Host) -> None:
    flags = ("--gpus", 'device=0,"capabilities=utility"')
    found = run(host, *flags, change=lambda: os.unlink("/dev/nvidia-uvm"))
    assert found["rc"] == 0
    assert "does not exist" not in found["err"]


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
@pytest.mark.parametrize("gpus", ["0", "all"])
def test_no_gpu_is_an_error(host: Host, gpus: str, mode: str) -> None:
    found = run(host, "--gpus", gpus, "--gpu-mode", mode, PRETEND_GPUS="0")
    assert found["rc"] == 125
    assert f"this host has no gpu: driver {VERSION} is loaded and sees none (" in found["err"]
    assert (found["left"], found["mounts"]) == ([], True)


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
def test_kernel_module_and_libraries_of_two_versions_are_an_error(host: Host, mode: str) -> None:
    host.version = "560.35.03"
    found = run(host, "--gpus", "0", "--gpu-mode", mode)
    text = "driver/library version mismatch: the kernel module is 560.35.03, libcuda.so"
    assert found["rc"] == 125
    assert f"{text} {VERSION} (an update?" in found["err"]
    assert (found["left"], found["mounts"]) == ([], True)


def test_a_cache_without_the_driver_is_an_error(host: Host) -> None:
    found = run(host, "--gpus", "0", change=lambda: stale_cache(lambda name: False))
    assert found["rc"] == 125
    assert f"ld.so.cache is stale: no library of driver {VERSION} in it (" in found["err"]
    assert "run ldconfig)" in found["err"]


def test_a_cache_without_one_library_is_a_warning(host: Host) -> None:
    change = lambda: stale_cache(lambda name: not name.startswith("libcuda.so"))  # noqa: E731
    found = run(host, "--gpus", "0", change=change)
    text = f"ld.so.cache is stale: libcuda.so of driver {VERSION} not in it"
    assert (found["rc"], found["err"].count("\n")) == (0, 1)
    assert found["err"] == f"minirun: warning: {text} (make it anew: ldconfig)\n"


@pytest.mark.parametrize("node", ["/dev/nvidia0", "/dev/nvidiactl"])
def test_a_gpu_without_its_node_is_an_error_and_nothing_stays(host: Host, node: str) -> None:
    """The real one leaves 26 mounts."""
    found = run(host, "--gpus", "0", change=lambda: os.unlink(node))
    assert found["rc"] == 125
    assert f"mount error: stat failed: {node}: no such file or directory" in found["err"]
    assert (found["left"], found["mounts"]) == ([], True)


def test_a_cdi_device_without_nvidiactl_is_a_warning(host: Host) -> None:
    """The container starts, as under every engine, and nvidia-smi finds no driver in it."""
    flags = ("--gpus", "0", "--gpu-mode", "cdi")
    found = run(host, *flags, change=lambda: os.unlink("/dev/nvidiactl"))
    assert "nvidia0" in found["out"] and "nvidiactl" not in found["out"]
    assert "warning: the CDI device has no /dev/nvidiactl: programs will find no" in found["err"]


def doctor(host: Host, name: str, change: Callable[[], object] = lambda: None) -> tuple[bool, str]:
    """Return what `minirun doctor` finds on the pretend host: whether it is well, and its words."""

    def work() -> dict[str, Any]:
        change()
        words = ["minirun", "--root", ROOT, "--store", STORE, "doctor", "--json"]
        done = subprocess.run(words, capture_output=True, text=True, env=CLEAN, check=False)
        return {row["name"]: row for row in json.loads(done.stdout)["findings"]}

    row = host.run(work)[name]
    return row["works"], f"{row['found']} ({row['advice']})"


def test_the_doctor_of_a_host_where_all_is_well(host: Host) -> None:
    assert doctor(host, "gpu") == (True, f"driver {VERSION}, 4 GPUs ()")


@pytest.mark.parametrize("path", ["/dev/nvidia-uvm", "/dev/nvidiactl", "/dev/nvidia2"])
def test_the_doctor_misses_a_node(host: Host, path: str) -> None:
    works, text = doctor(host, "gpu", lambda: os.unlink(path))
    assert not works
    assert f"{path} does not exist on this host (" in text and "nvidia-modprobe" in text


def test_the_doctor_names_a_mismatch_and_its_remedy(host: Host) -> None:
    host.version = "560.35.03"
    works, text = doctor(host, "gpu")
    assert not works and "driver/library version mismatch" in text
    assert "reboot" in text and "install NVIDIA's driver" not in text


def test_the_doctor_names_a_stale_cache(host: Host) -> None:
    works, text = doctor(host, "gpu", lambda: stale_cache(lambda name: False))
    assert not works and "ld.so.cache is stale" in text and "run ldconfig" in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", ""),
        (f"--host-driver-version={VERSION}", "--host-driver-version=535.1", "is for driver 535.1,"),
        ('"/dev/nvidia1"', '"/dev/nvidia9"', "/dev/nvidia9 is not there"),
        ("{", "[", "the file is not used"),
    ],
    ids=("well", "another driver", "a device that went", "broken"),
)
def test_the_doctor_looks_at_cdi_files(host: Host, old: str, new: str, said: str) -> None:
    def change() -> None:
        subprocess.run(["mount", "-t", "tmpfs", "none", "/etc/cdi"], check=True)
        words = ["minirun", "nvidia-ctk", "cdi", "generate", "--format=json"]
        text = subprocess.run(words, capture_output=True, text=True, env=CLEAN, check=True).stdout
        assert old in text
        Path("/etc/cdi/nvidia.json").write_text(text.replace(old, new) if old else text)

    (host.driver / "etc/cdi").mkdir(parents=True, exist_ok=True)
    works, text = doctor(host, "cdi files", change)
    assert works is not bool(said)
    assert said in text and "/etc/cdi/nvidia.json" in text


def test_a_stale_cdi_file_is_a_warning(minirun: Program, tmp_path: Path) -> None:
    """The device asked for is as it was; another one of the file is not: it will fail next."""
    kind, gone = "example.com/thing", {"mounts": [{"hostPath": "/nosuch/2", "containerPath": "/2"}]}
    devices = [{"name": "a", "containerEdits": {"env": ["A=1"]}}]
    devices.append({"name": "b", "containerEdits": gone})
    document = {"cdiVersion": "0.6.0", "kind": kind, "devices": devices}
    (tmp_path / "thing.json").write_text(json.dumps(document))
    flags = ("--cdi-spec-dir", str(tmp_path), "--device", f"{kind}=a", "--name", "c")
    done = minirun("run", *flags, "busybox", "true")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    text = f"{tmp_path}/thing.json is stale: /nosuch/2 is not there; make it anew: "
    assert done.stderr.startswith(f"minirun: warning: {text}")
    (said,) = (event["args"] for event in minirun.events("c") if event["name"] == "warning")
    assert text in str(said)


# --- the same by hand ---------------------------------------------------------------------------

COMPUTE = NvidiaRequest(("0",), ("compute", "utility"), ldconfig="@/sbin/ldconfig")


def inventory(root: Path, *libraries: str) -> Inventory:
    """A host below `root` with one GPU and every node; driver 550.1."""
    nodes = tuple(ControlNode(path, 195, minor, needs) for path, _, minor, needs in catalog.NODES)
    gpu = Gpu(0, 0, "GPU-0", "00000000:07:00.0", "L4")
    files = tuple(HostFile(f"/usr/lib64/{name}.550.1") for name in libraries)
    return Inventory(
        driver="550.1", cuda="12.4", root=str(root), gpus=(gpu,), libraries=files, libraries32=(),
        binaries=(), firmware=(), sockets=(), nodes=nodes, major=195, caps_major=0, simulated=False,
    )  # fmt: skip


def install(root: Path, *names: str) -> None:
    """Put libraries into `root`, and list them in its ld.so.cache."""
    (root / "usr/lib64").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/ld.so.conf").write_text("/usr/lib64\n")
    for name in names:
        soname = f"{name.partition('.so.')[0]}.so.1"
        data = elf.shared_object(soname, NATIVE.machine, ("libc.so.6",), "a test's")
        (root / "usr/lib64" / name).write_bytes(data)
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True, capture_output=True)


def test_no_library_at_all(tmp_path: Path) -> None:
    install(tmp_path)
    (said,) = warn.check(inventory(tmp_path), COMPUTE)
    assert said.fatal
    assert said.text == "no library of driver 550.1 is installed on this host"
    with pytest.raises(GPUError, match="no library of driver"):
        warn.report_notices([said])


def test_one_library_of_another_version(tmp_path: Path) -> None:
    install(tmp_path, "libnvidia-ml.so.550.1", "libcuda.so.535.2")
    (said,) = warn.check(inventory(tmp_path, "libnvidia-ml.so"), COMPUTE)
    assert not said.fatal
    assert said.text.endswith("mismatch: the kernel module is 550.1, libcuda.so 535.2")


def test_a_host_without_fault(tmp_path: Path) -> None:
    names = ("libnvidia-ml.so", "libcuda.so")
    install(tmp_path, *(f"{name}.550.1" for name in names))
    assert warn.check(inventory(tmp_path, *names), COMPUTE) == []
    none = COMPUTE._replace(devices=())
    assert warn.check(inventory(tmp_path, *names)._replace(gpus=()), none) == []
