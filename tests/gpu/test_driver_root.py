"""A driver that is not installed in "/": told by flag or config.toml, or found.

Whole containers in the pretend host of the recorded cases (gpu.pretend), whose driver is moved
away. The bundle's root filesystem is the half-made container there, which shows the kernel module's
/proc.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, skip
from gpu.pretend import ROOT, Host, pci_bus
from gpu.sandbox import debian_root
from minirun.core.kernel import mounts

MOVED = "/run-nvidia-driver"
VERSION = "550.163.01"
HOOK = "nvidia-container-runtime-hook"
SCRIPT = (
    "ls /dev/ | grep nvidia; readlink -f /usr/lib/x86_64-linux-gnu/libcuda.so.1;"
    " ls /usr/bin/nvidia-smi /proc/driver/nvidia/gpus; cat /dev/nvidia1"
)
EXPECTED = [
    "nvidia-uvm", "nvidia-uvm-tools", "nvidia1", "nvidiactl",
    f"/usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}", "/usr/bin/nvidia-smi", "",
    "/proc/driver/nvidia/gpus:", "0000:0f:00.0",
]  # fmt: skip


@pytest.fixture
def host(driver: Path, tmp_path: Path) -> Host:
    """A host whose driver is below /run-nvidia-driver."""
    found = Host(driver, tmp_path, debian_root(tmp_path / "root"), {})
    found.moved = True
    return found


def run(program: Program, *flags: str, **env: str) -> dict[str, Any]:
    """Run a bundle that asks for GPU 1, in the pretend host; `flags` stand before the command."""
    namespaces = [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]
    process = {
        "args": ["/bin/busybox", "sh", "-c", SCRIPT], "cwd": "/", "user": {"uid": 0, "gid": 0},
        "env": ["PATH=/usr/bin:/bin", "NVIDIA_VISIBLE_DEVICES=1"],
    }  # fmt: skip
    rules = [{"allow": False, "access": "rwm"}]
    config = {
        "ociVersion": "1.2.0", "root": {"path": ROOT}, "process": process,
        "hooks": {"prestart": [{"path": f"/usr/bin/{HOOK}", "args": [HOOK, "prestart"]}]},
        "linux": {"namespaces": namespaces, "resources": {"devices": rules}},
    }  # fmt: skip
    Path("/mnt/bundle").mkdir()
    Path("/mnt/bundle/config.json").write_text(json.dumps(config))
    words = (
        "--root",
        "/mnt/state",
        *flags,
        "run",
        "--bundle",
        "/mnt/bundle",
        f"root-{os.getpid()}",
    )
    clean = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"} | env
    done = subprocess.run(
        [program.path, *words], capture_output=True, text=True, check=False, env=clean, timeout=60
    )
    log = next(Path("/mnt/state/.history").glob("*.jsonl")).read_text()
    events = [json.loads(line) for line in log.splitlines()]
    return {
        "rc": done.returncode, "out": done.stdout.splitlines(), "err": done.stderr.splitlines(),
        "events": events,
    }  # fmt: skip


def refused(line: str) -> bool:
    """Whether a node could be opened, and had no driver behind it."""
    return line.endswith("/dev/nvidia1': No such device or address")


def test_told_by_a_flag(minirun: Program, host: Host) -> None:
    found = host.run(lambda: run(minirun, "--driver-root", MOVED))
    assert found["out"] == EXPECTED
    assert len(found["err"]) == 1 and refused(found["err"][0])
    argv = next(e["args"]["argv"] for e in found["events"] if e["name"] == "nvidia-container-cli")
    assert argv[0] == f"--root={MOVED}"
    assert not [e for e in found["events"] if e["name"] == "nvml not used"]


def test_told_by_config_toml(minirun: Program, host: Host) -> None:
    def work() -> dict[str, Any]:
        text = f'[nvidia-container-cli]\nroot = "{MOVED}"\nno-cgroups = true\n'
        Path("/mnt/config.toml").write_text(text)
        return run(minirun, NVIDIA_CTK_CONFIG_FILE_PATH="/mnt/config.toml")

    found = host.run(work)
    assert found["out"] == EXPECTED
    assert found["err"] == ["cat: can't open '/dev/nvidia1': Operation not permitted"]


def test_the_root_of_the_drivers_container_is_found(minirun: Program, host: Host) -> None:
    """As NVIDIA's operator leaves it: no /proc and the kernel module's own below the host's."""

    def change() -> None:
        mounts.mount("tmpfs", "/run", "tmpfs")
        os.makedirs("/run/nvidia/driver")
        flags = mounts.MS_BIND | mounts.MS_REC
        mounts.mount(MOVED, "/run/nvidia/driver", None, flags)
        mounts.mount("tmpfs", "/run/nvidia/driver/proc", "tmpfs")
        loaded(host)

    host.change = change
    found = host.run(lambda: run(minirun))
    assert found["out"] == EXPECTED
    note = next(event for event in found["events"] if event["name"] == "driver root")
    assert note["args"] == {"path": "/run/nvidia/driver"}
    assert len(found["err"]) == 1 and refused(found["err"][0])


def test_libraries_that_ld_so_cache_does_not_know(minirun: Program, host: Host) -> None:
    """/usr/local/nvidia has lib64 and bin; the nodes are the host's own."""

    def change() -> None:
        local = Path("/mnt/local/nvidia")
        shutil.copytree(f"{MOVED}/usr/lib/x86_64-linux-gnu", local / "lib64", symlinks=True)
        shutil.copytree(f"{MOVED}/usr/bin", local / "bin", symlinks=True)
        lower = "lowerdir=/mnt/local:/usr/local"
        mounts.mount("overlay", "/usr/local", "overlay", 0, lower)
        mounts.mount("tmpfs", MOVED, "tmpfs")
        loaded(host)
        host.make_nodes("/dev")

    host.change = change
    found = host.run(lambda: run(minirun))
    assert found["out"] == EXPECTED
    paths = [e["args"]["source"] for e in found["events"] if e["name"] == "open_tree"]
    assert f"/usr/local/nvidia/lib64/libcuda.so.{VERSION}" in paths
    assert "/usr/local/nvidia/bin/nvidia-smi" in paths


def loaded(host: Host) -> None:
    """Show the kernel module in the host's own /proc."""
    mounts.mount("tmpfs", "/proc/driver", "tmpfs")
    host.fill(Path("/proc/driver"))


# --- kernel modules ----------------------------------------------------------------------------


def test_missing_nodes_are_made_in_stage_5(minirun: Program, host: Host) -> None:
    host.moved = host.nodes = False

    def work() -> dict[str, Any]:
        pci_bus()
        return run(minirun, "--load-kmods")

    found = host.run(work)
    assert found["out"] == EXPECTED
    made = [e for e in found["events"] if e["name"] == "mknodat" and e["stage"] == 5]
    paths = [event["args"]["path"] for event in made]
    assert paths[:3] == ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"]
    assert {e["actor"] for e in made} == {"cli"}
    said = [e["args"]["text"] for e in found["events"] if e["name"] == "kernel modules"]
    assert "loading kernel module nvidia_uvm" in said


def test_modules_that_do_not_load_are_one_warning(minirun: Program, host: Host) -> None:
    """This machine has none: the nodes are there, and the container gets them."""
    if Path("/sys/module/nvidia").exists():
        skip("NVIDIA's module is loaded on this machine")
    host.moved = False
    found = host.run(lambda: run(minirun, "--load-kmods"))
    assert found["out"] == EXPECTED
    assert len(found["err"]) == 2 and refused(found["err"][1])
    text = "minirun: warning: could not load kernel module nvidia, nvidia-uvm, nvidia-modeset ("
    assert found["err"][0].startswith(text)


# --- the flags ---------------------------------------------------------------------------------


def test_the_flags_are_in_the_record_alone(minirun: Program, tmp_path: Path) -> None:
    flags = ("-e", "NVIDIA_VISIBLE_DEVICES=void", "--driver-root", f"{tmp_path}/.")
    minirun("run", "--name", "c", *flags, "--load-kmods", "busybox", "true")
    chosen = json.loads((minirun.directory("c") / "state.json").read_text())["choices"]
    assert (chosen["driver_root"], chosen["load_kmods"]) == (str(tmp_path), True)
    config = json.loads((minirun.directory("c") / "config.json").read_text())
    assert config["annotations"] == {} and str(tmp_path) not in str(config)


def test_a_driver_root_that_is_none_is_one_line(minirun: Program) -> None:
    done = minirun("run", "--rm", "--gpus", "0", "--driver-root", "/none-such", "busybox", "true")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert done.stderr.startswith("minirun: --driver-root /none-such: no such directory (")


def test_load_kmods_without_a_driver(minirun: Program) -> None:
    if os.path.exists("/proc/driver/nvidia/version"):
        skip("this machine has a driver")
    done = minirun("run", "--rm", "--gpus", "0", "--load-kmods", "busybox", "true")
    warning, error = done.stderr.splitlines()
    assert warning.startswith("minirun: warning: could not load kernel module nvidia")
    assert "no nvidia driver is loaded" in error
    assert done.returncode == 125 and not list(minirun.root.glob("[!.]*"))
