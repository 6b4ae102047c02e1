"""Edits, the operations they become, and the one call of stage 5."""

import json
import os
from typing import Any

import pytest

from gpu.sandbox import Sandbox
from minirun.core.kernel.architecture import NATIVE
from minirun.gpu.inventory import Inventory
from minirun.gpu.nvidia.cli import planner as nvidia
from minirun.gpu.nvidia.cli.cli_args import parse
from minirun.gpu.steps import DeviceNode

CONTAINER = nvidia.LibraryPlaces("/usr/lib64", "/usr/lib")
WORDS = ["configure", "--device=0", "--compute", "--utility", "/r"]


def test_a_plan_can_be_read_before_it_is_done(simulated: Inventory) -> None:
    edits = nvidia.plan(simulated, parse(WORDS).request, CONTAINER)
    lines = "\n".join(step.describe() for step in edits.steps).splitlines()
    root = simulated.root
    assert lines[:2] == [
        "mount -t tmpfs tmpfs /proc/driver -o mode=755",
        "mount -t tmpfs tmpfs /proc/driver/nvidia -o mode=555",
    ]
    assert f"mount --rbind {root}/usr/bin/nvidia-smi /usr/bin/nvidia-smi" in lines
    assert "ln -s libcuda.so.1 /usr/lib64/libcuda.so" in lines
    assert lines[-2:] == [
        "mknod -m 666 /dev/nvidia0 c 195 0",
        f"mount --rbind {root}/proc/driver/nvidia/gpus/0000:07:00.0 "
        "/proc/driver/nvidia/gpus/0000:07:00.0",
    ]


def test_a_node_of_a_real_driver_is_bound() -> None:
    node = DeviceNode("/dev/nvidia0", "c", 195, 0, host_path="/dev/nvidia0")
    assert node.describe() == "mount --bind /dev/nvidia0 /dev/nvidia0"


@pytest.mark.parametrize(
    ("option", "error"),
    (
        ("--mig-config=3", "mig-config error: 3: only 'all' devices are currently supported"),
        ("--mig-monitor=x", "mig-monitor error: x: only 'all' devices are currently supported"),
        ("--imex-channel=x", "error parsing IMEX info: x: invalid channel id"),
        ("--imex-channel=1048576", "error parsing IMEX info: 1048576: invalid channel id"),
    ),
)
def test_what_cannot_be_asked_for(option: str, error: str, debian: Sandbox, store: str) -> None:
    outcome = debian.configure("--device=0", option, store=store)
    assert outcome["error"].startswith(error)
    assert [row["at"] for row in debian.mounts()] == ["/proc", "/dev"]


def test_the_record(debian: Sandbox, store: str) -> None:
    outcome = debian.configure("--device=0,1", "--compute", "--utility", store=store)
    edits: dict[str, Any] = outcome["result"]["edits"]
    assert edits == json.loads(json.dumps(edits))
    assert [gpu["index"] for gpu in edits["gpus"]] == ["0", "1"]
    assert edits["simulated"] is True and edits["driver"] == "550.163.01"
    assert [node["path"] for node in edits["deviceNodes"]] == [
        "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia0",
        "/dev/nvidia1",
    ]  # fmt: skip
    assert outcome["result"]["rules"] == [
        f"c {node['major']}:{node['minor']} rw" for node in edits["deviceNodes"]
    ]
    assert edits["ldconfig"] == "@/sbin/ldconfig"


def test_no_cgroups_and_no_devbind(debian: Sandbox, store: str) -> None:
    options = ("--device=0", "--utility", "--no-cgroups")
    assert debian.configure(*options, store=store)["result"]["rules"] == []
    assert debian.view("/dev/nvidia0").is_char_device()


def test_no_devbind(debian: Sandbox, store: str) -> None:
    debian.configure("--device=0", "--utility", "--no-devbind", store=store)
    assert list(debian.view("/dev").iterdir()) == []


def test_modes_do_not_depend_on_the_umask(debian: Sandbox, store: str) -> None:
    mask = os.umask(0o077)
    try:
        debian.configure("--device=0", "--utility", store=store)
    finally:
        os.umask(mask)
    assert debian.view("/dev/nvidia0").stat().st_mode & 0o777 == 0o666
    assert debian.view("/usr/lib/firmware/nvidia").stat().st_mode & 0o777 == 0o755


def test_the_log_tells_the_story(debian: Sandbox, store: str) -> None:
    outcome = debian.configure("--device=0", "--utility", store=store)
    calls = [event["name"] for event in outcome["events"] if event["kind"] == "syscall"]
    assert calls[0] == "setns"
    assert calls.count("open_tree") == calls.count("move_mount")
    assert calls.count("mount_setattr") == calls.count("move_mount") + 1, "ldconfig's"
    assert calls.count("mknodat") == 2
    assert calls.count("clone3") == calls.count("pivot_root") == calls.count("capset") == 1
    assert all(event["errno"] is None for event in outcome["events"])
    (note,) = (e for e in outcome["events"] if e["name"] == "container library folder")
    assert note["args"] == {"path": f"/usr/lib/{NATIVE.triplet}"}
    (exec_,) = (event for event in outcome["events"] if event["kind"] == "exec")
    (clone,) = (event for event in outcome["events"] if event["name"] == "clone3")
    assert exec_["pid"] == clone["ret"]


def test_when_something_fails_ldconfig_is_not_started(debian: Sandbox, store: str) -> None:
    debian.view("/dev/nvidia0").mkdir()
    outcome = debian.configure("--device=0", "--utility", store=store)
    assert "invalid device node" in outcome["error"]
    assert not [event for event in outcome["events"] if event["name"] == "clone3"]
