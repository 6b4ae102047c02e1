"""GPUs in a container with a user namespace: what is put in belongs to the container's root."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from layers import layer_of
from minirun.core.kernel.architecture import NATIVE
from required import installed

USER = ("--uidmap", "0:100000:65536")
LIBRARIES = "/usr/lib64" if NATIVE.bits == 64 else "/usr/lib"
SCRIPT = f"nvidia-smi -L; cat /dev/nvidia1; stat -c %u:%F {LIBRARIES}/libcuda.so.1 /etc/ld.so.cache"


@pytest.fixture(autouse=True)
def kernel() -> None:
    """Simulated nodes are mounts that init takes along (minirun.gpu.steps)."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 15):
        pytest.skip("simulated GPUs in a user namespace need Linux 6.15")


@pytest.fixture
def open_place(command: str) -> Iterator[Program]:
    """A state root that other users may enter: pytest's tmp_path is root's alone."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o711)
        program = Program(command, Path(place) / "containers")
        yield program
        program.clean()


@pytest.mark.parametrize("user", [(), ("-u", "1000:1000")])
def test_gpus_in_a_user_namespace(open_place: Program, user: tuple[str, ...]) -> None:
    gpus = ("--gpus", "1", "--gpu-driver", "simulated")
    done = open_place("run", *USER, *gpus, *user, "--name", "u", "busybox", "sh", "-c", SCRIPT)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("GPU 0: ")
    assert lines[0].endswith("000000000001)")
    assert lines[1:] == ["0:symbolic link", "0:regular file"]
    assert "/dev/nvidia1': No such device or address" in done.stderr
    upper = open_place.directory("u") / "upper"
    assert (upper / "etc/ld.so.cache").stat().st_uid == 100000
    assert (open_place.directory("u") / "edits.json").stat().st_uid == 0


def test_as_a_program_under_runc(command: str, open_place: Program) -> None:
    """What another runtime calls as a hook: there, too, files are made as the container's root."""
    installed("runc")
    bundle = open_place.root.parent
    layer = layer_of("busybox")
    subprocess.run(["cp", "-a", layer, bundle / "rootfs"], check=True)
    subprocess.run(["chown", "-hR", "100000:100000", bundle / "rootfs"], check=True)
    subprocess.run(["runc", "spec", "--bundle", bundle], check=True)
    config = json.loads((bundle / "config.json").read_text())
    env = [*config["process"]["env"], "NVIDIA_VISIBLE_DEVICES=1"]
    config["process"] |= {"terminal": False, "args": ["sh", "-c", SCRIPT], "env": env}
    config["root"]["readonly"] = False
    ids = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    config["linux"] |= {"uidMappings": ids, "gidMappings": ids}
    config["linux"]["namespaces"].append({"type": "user"})
    argv = ["minirun", "nvidia-container-runtime-hook", "prestart"]
    hook = {"path": command, "args": argv, "env": ["MINIRUN_SIM=count=2", f"PATH={os.defpath}"]}
    config["hooks"] = {"prestart": [hook]}
    (bundle / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        ["runc", "--root", bundle / "runc", "run", "--bundle", bundle, f"u-{os.getpid()}"],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "/dev/nvidia1': No such device or address" in done.stderr
    assert done.stdout.splitlines()[1:] == ["0:symbolic link", "0:regular file"]
