"""Hosts where something of the driver is missing or unusual: what NVIDIA's own tool does there."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu.nvidia.test_golden import configure, host
from gpu.pretend import PROC, ROOT, Host, cli, end, sleeper
from gpu.recorded import golden

Make = Callable[[dict[str, Any]], Host]
__all__ = ["host"]


def case_of(*flags: str) -> dict[str, Any]:
    """A recorded case, with other capabilities."""
    case = golden("compute-utility-dev0,1")
    words = [word for word in case["configure_args"] if word not in ("--compute", "--utility")]
    return case | {"configure_args": [*words, *(flags or ("--compute", "--utility"))]}


def test_a_copy_of_the_kernels_file_has_its_mode(host: Make) -> None:
    case = case_of()

    def task() -> dict[str, Any]:
        found = configure(case)
        names = ("params", "version", "registry")
        modes = [os.stat(f"{ROOT}{PROC}/{name}").st_mode & 0o777 for name in names]
        return found | {"modes": modes}

    assert host(case).run(task)["modes"] == [0o444, 0o444, 0o644]


def test_display_brings_the_application_profile(host: Make) -> None:
    case = case_of("--display")
    after = host(case).run(lambda: configure(case))["after"]
    assert "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf" in after["tree"]


def test_without_a_gpu_the_folder_of_the_profile_is_empty(host: Make) -> None:
    case = case_of("--display")
    words = [word for word in case["configure_args"] if not word.startswith("--device")]
    after = host(case).run(lambda: configure(case | {"configure_args": words}))["after"]
    folder = "/etc/nvidia/nvidia-application-profiles-rc.d"
    assert folder in [mount["at"] for mount in after["mounts"]]
    assert f"{folder}/10-container.conf" not in after["tree"]


def no_control_node(made: Host, case: dict[str, Any]) -> None:
    made.change = lambda: os.unlink("/dev/nvidiactl")


def no_cache(made: Host, case: dict[str, Any]) -> None:
    case["global_args"] = ["--ldcache=/etc/nosuch.cache"]


GONE = "/usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.550.163.01"
"""What the link in ld.so.cache leads to: libnvidia-container names the target, not the link."""


def stale_cache(made: Host, case: dict[str, Any]) -> None:
    plain = made._cache

    def cache_and_remove(driver: Path) -> None:
        plain(driver)
        (driver / GONE.removeprefix("/")).unlink()

    made._cache = cache_and_remove  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (no_control_node, "mount error: stat failed: /dev/nvidiactl: no such file or directory"),
        (no_cache, "detection error: open failed: /etc/nosuch.cache: no such file or directory"),
        (stale_cache, f"detection error: open failed: {GONE}: no such file or directory"),
    ],
)
def test_what_it_cannot_do_without(
    host: Make, spoil: Callable[[Host, dict[str, Any]], None], said: str
) -> None:
    """It ends with status 1, and nothing is mounted."""
    case = case_of()
    made = host(case)
    spoil(made, case)
    found = made.run(lambda: configure(case))
    assert found["done"]["rc"] == 1, found["done"]
    assert found["done"]["stderr"].splitlines()[-1].startswith(f"nvidia-container-cli: {said}")
    assert found["after"] == found["before"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (4, "insufficient permissions"), (9, "driver not loaded"),
        (18, "driver/library version mismatch"), (999, "unknown error"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", [["gpu", "list"], ["run", "--gpus=0", "busybox", "true"]])
def test_a_failure_of_nvml_is_told_in_the_drivers_words(
    minirun: Program, host: Make, code: int, said: str, words: list[str]
) -> None:
    """In-line too: the kernel module's own list does not stand in for it."""

    def task() -> dict[str, Any]:
        argv = [minirun.path, "--root=/mnt/state", *words]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=60,
            env={
                "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PRETEND_FAIL": f"init:{code}",
                "MINIRUN_NETWORK": "none",
            },
        )  # fmt: skip
        return {"rc": done.returncode, "err": done.stderr}

    done = host(case_of()).run(task)
    assert done["rc"] == 125
    assert f"initialization error: nvml error: {said}" in done["err"]
    assert done["err"].count("\n") == 1


def test_a_library_of_the_image_that_hides_the_drivers(host: Make) -> None:
    """The real one says nothing."""
    case = case_of()
    made = host(case)
    path = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
    made.change = lambda: Path(f"{ROOT}{path}").touch()
    done = made.run(lambda: configure(case))["done"]
    assert done["rc"] == 0
    text = f"warning: the image has its own {path}, which hides the driver's"
    assert done["stderr"].startswith(f"nvidia-container-cli: {text} (")


def wide_domains() -> None:
    """Name the GPUs in /proc with a PCI domain of eight digits: the host's and the container's."""
    for base in ("", ROOT):
        folder = Path(f"{base}{PROC}/gpus")
        for entry in list(folder.iterdir()):
            entry.rename(folder / f"0000{entry.name}")


def test_pci_domains_of_eight_digits_in_proc(host: Make) -> None:
    case = case_of()
    made = host(case)
    made.change = wide_domains
    found = made.run(lambda: configure(case))
    assert found["done"]["rc"] == 0, found["done"]
    mounted = [row["at"] for row in found["after"]["mounts"]]
    names = [at.rpartition("/")[2] for at in mounted if at.startswith(f"{PROC}/gpus/")]
    assert names == ["00000000:07:00.0", "00000000:0f:00.0"]


def test_a_gpu_that_proc_does_not_show(host: Make) -> None:
    case = case_of()
    made = host(case)
    made.change = lambda: shutil.rmtree(f"{PROC}/gpus/0000:0f:00.0")
    found = made.run(lambda: configure(case))
    text = f"stat failed: {PROC}/gpus/0000:0f:00.0: no such file or directory"
    assert found["done"]["stderr"] == f"nvidia-container-cli: mount error: {text}\n"
    assert found["done"]["rc"] == 1 and found["after"] == found["before"]


@pytest.mark.parametrize("words", [("--imex-channel", "0,2"), ("--imex-channel=0,2",)])
def test_list_of_imex_channels(host: Make, words: tuple[str, ...]) -> None:
    """In two words it is an option like others; in one, everything is listed besides."""
    done = host(case_of()).run(lambda: cli("list", *words))
    channels = [f"/dev/nvidia-caps-imex-channels/channel{number}" for number in (0, 2)]
    lines = done["stdout"].splitlines()
    assert done["rc"] == 0 and [line for line in lines if "imex" in line] == channels
    assert (len(lines) > len(channels)) == (len(words) == 1)


def test_a_library_that_is_there_twice(host: Make) -> None:
    """Of two files of the driver's version the one that ld.so.cache names last is chosen."""
    made = host(case_of())
    name = f"libcuda.so.{made.version}"
    cache = made._cache

    def second(driver: Path) -> None:
        (driver / "usr/lib64").mkdir()
        shutil.copy(driver / "usr/lib/x86_64-linux-gnu" / name, driver / "usr/lib64" / name)
        (driver / "usr/lib64/libcuda.so").symlink_to(name)
        (driver / "usr/lib/x86_64-linux-gnu/libcuda.so").unlink(missing_ok=True)
        cache(driver)
        with (driver / "etc/ld.so.conf").open("a") as conf:
            conf.write("/usr/lib64\n")
        subprocess.run(["/sbin/ldconfig", "-r", str(driver)], check=True)

    made._cache = second  # type: ignore[method-assign]

    def task() -> dict[str, Any]:
        listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
        rows = [line for line in listed.splitlines() if line.strip().startswith("libcuda.so")]
        return {"rows": rows, **cli("list", "--libraries")}

    done = made.run(task)
    paths = [row.rpartition("=> ")[2] for row in done["rows"] if "x86-64" in row]
    assert len({os.path.dirname(path) for path in paths}) == 2, paths
    chosen = next(line for line in done["stdout"].splitlines() if line.endswith(name))
    assert os.path.dirname(chosen) == os.path.dirname(paths[-1])


@pytest.mark.parametrize(
    ("user", "ids"),
    [("root:daemon", "0 1"), ("daemon", "1 1"), ("7:8", "7 8"), ("", "65534 65534")],
)
def test_who_asks_nvml(host: Make, user: str, ids: str) -> None:
    """config.toml's usual line is user = "root:video": names, and a group besides."""
    flags = (f"--user={user}",) if user else ()
    done = host(case_of()).run(lambda: cli(*flags, "info", env={"PRETEND_IDS": "1"}))
    assert done["rc"] == 0, done["stderr"]
    assert f"Model: {ids}" in " ".join(done["stdout"].split())


def test_an_index_may_begin_with_zeros(host: Make) -> None:
    done = host(case_of()).run(lambda: cli("list", "--device=01,0"))
    assert [row for row in done["stdout"].splitlines() if row[11:].isdigit()] == [
        "/dev/nvidia1",
        "/dev/nvidia0",
    ]


def test_both_keys_of_mig(host: Make) -> None:
    """Each brings its folders, as the real one mounts them twice."""
    case = case_of("--mig-config=all", "--mig-monitor=all", "--device=all", "--utility")
    found = host(case).run(lambda: configure(case))
    assert found["done"]["rc"] == 0, found["done"]
    mounted = [row["at"] for row in found["after"]["mounts"]]
    for path in (f"{PROC}/capabilities", "/dev/nvidia-caps"):
        assert mounted.count(path) == 2


def test_no_key_of_mig_where_no_gpu_can_be_split(host: Make) -> None:
    case = case_of("--mig-config=all", "--device=all", "--utility")
    made = host(case)
    made.change = lambda: [shutil.rmtree(f"{PROC}/capabilities/gpu{n}") for n in range(4)] and None
    found = made.run(lambda: configure(case))
    assert found["done"]["rc"] == 0, found["done"]
    mounted = [row["at"] for row in found["after"]["mounts"]]
    assert not {f"{PROC}/capabilities", "/dev/nvidia-caps"} & {*mounted}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("configure", "--pid=4194000", ROOT), "container error: open failed: /proc/4194000/root"),
        (
            ("configure", "--pid=PID", "/nosuch"),
            "container error: open failed: /proc/PID/root/nosuch",
        ),
        (
            ("--ldcache=/etc/passwd", "info"),
            "detection error: unsupported file format: /etc/passwd",
        ),
    ],
)
def test_errors_are_told_as_there(host: Make, words: tuple[str, ...], said: str) -> None:
    def task() -> dict[str, Any]:
        pid = sleeper()
        done = cli(*(word.replace("PID", str(pid)) for word in words))
        end(pid)
        return done | {"pid": str(pid)}

    done = host(case_of()).run(task)
    assert done["rc"] == 1 and done["stdout"] == ""
    said = said.replace("PID", done["pid"])
    assert done["stderr"].startswith(f"nvidia-container-cli: {said}"), done["stderr"]


def test_list_of_no_device_lists_what_all_have(host: Make) -> None:
    done = host(case_of()).run(lambda: cli("list", "--device="))
    assert done["stdout"].splitlines()[0] == "/dev/nvidiactl" and done["rc"] == 0
    assert "/dev/nvidia0" not in done["stdout"]


@pytest.mark.parametrize(
    ("links", "folder"),
    [({}, "/usr/lib32"), ({"usr/lib64": "lib"}, "/usr/lib32"), ({"usr/lib64": ""}, "/usr/lib")],
)
def test_where_32_bit_libraries_go(host: Make, links: dict[str, str], folder: str) -> None:
    """Not where those of 64 bits go, as in an image whose /usr/lib64 is a link to /usr/lib."""
    case = case_of("--compute", "--compat32") | {"rootfs": "debian"}
    made = host(case)
    (made.root / "etc/debian_version").unlink()
    if not links:
        (made.root / "usr/lib32").mkdir()
    for name, target in links.items():
        path = made.root / name
        path.symlink_to(target) if target else path.mkdir()
    found = made.run(lambda: configure(case))
    assert found["done"]["rc"] == 0, found["done"]
    at = [row["at"] for row in found["after"]["mounts"] if "libcuda.so." in row["at"]]
    wide = "/usr/lib" if links.get("usr/lib64") else "/usr/lib64"
    assert [os.path.dirname(path) for path in at] == [wide, folder]
