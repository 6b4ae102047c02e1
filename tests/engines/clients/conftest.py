"""Real engines and runtimes with minirun's programs in them. The GPUs are SIMULATED, explicitly."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program

HOOK_ENV = ("MINIRUN_SIM=count=4", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
SCRIPT = (
    "ls /dev | grep nvidia; nvidia-smi -L; for n in 0 1; do cat /dev/nvidia$n; done; "
    "mknod /dev/other c 195 2 && cat /dev/other; ls /proc/driver/nvidia/gpus"
)
"""What a container shows of its GPUs: nodes, names, and what the cgroup lets it open."""
NODES = ["nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidiactl"]
NO_DEVICE, REFUSED = "No such device or address", "Operation not permitted"
"""ENXIO: the cgroup allows it, and no driver is there. EPERM: the cgroup refuses."""

HOOK_FAILED = r"error running (prestart |createRuntime )?hook"
"""What runc says of it; from 1.2 on with the kind of hook."""


def hook(path: str) -> dict[str, Any]:
    """The prestart hook of a config.json: minirun under its own name."""
    args = ["minirun", "nvidia-container-runtime-hook", "prestart"]
    return {"path": path, "args": args, "env": list(HOOK_ENV)}


def check(stdout: str, stderr: str) -> None:
    """Check what SCRIPT printed in a container that was given GPUs 0 and 1."""
    lines = stdout.splitlines()
    assert lines[:5] == NODES
    names = [line for line in lines if line.startswith("GPU ")]
    assert len(names) == 2 and all("SIMULATED" in line for line in names)
    assert [line for line in lines if line.startswith("0000:")] == ["0000:07:00.0", "0000:0f:00.0"]
    assert NO_DEVICE in said(stderr, "/dev/nvidia0") and NO_DEVICE in said(stderr, "/dev/nvidia1")
    assert REFUSED in said(stderr, "/dev/other")


def said(stderr: str, path: str) -> str:
    return next(line for line in stderr.splitlines() if path in line)


@pytest.fixture
def bundle(minirun: Program, tmp_path: Path, layer: Path) -> Callable[..., Path]:
    """Make a bundle whose config.json has minirun's hook: a root filesystem of busybox."""

    def make(*args: str, gpus: str = "0,1", **more: Any) -> Path:
        config = minirun.spec(*args)
        config["annotations"] = {}
        config["process"]["env"].append(f"NVIDIA_VISIBLE_DEVICES={gpus}")
        config["process"].pop("rlimits", None)
        config["hooks"] = {"prestart": [hook(minirun.path)]}
        config["linux"]["cgroupsPath"] = f"/minirun-client-{os.getpid()}"
        (tmp_path / "config.json").write_text(json.dumps(config | more))
        assert layer.parent == tmp_path
        return tmp_path

    return make
