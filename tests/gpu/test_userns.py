"""GPUs in a container with a user namespace: what is put in belongs to the container's root."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program

USER = ("--uidmap", "0:100000:65536")
SCRIPT = "nvidia-smi -L; cat /dev/nvidia1; stat -c %u:%F /usr/lib64/libcuda.so.1 /etc/ld.so.cache"


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
    upper = open_place.root / "u/upper"
    assert (upper / "etc/ld.so.cache").stat().st_uid == 100000
    assert (open_place.root / "u/edits.json").stat().st_uid == 0
