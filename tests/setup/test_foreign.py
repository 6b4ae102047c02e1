"""A program of another processor runs below foreign.py, and nowhere else on this machine."""

import errno
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from machines import foreign
from minirun.core.kernel.architecture import NATIVE, of_machine

AARCH64 = of_machine("aarch64")
EXITS = struct.pack("<3I", 0xD28000E0, 0xD2800BA8, 0xD4000001)
"""mov x0, #7; mov x8, #93 (exit); svc #0"""
ADDRESS = 0x400000


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A static program of aarch64 that ends with status 7: elf(5)."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    rest = (2, AARCH64.elf, 1, ADDRESS + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    header = ident + struct.pack("<HHIQQQIHHHHHH", *rest)
    size = 120 + len(EXITS)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, ADDRESS, ADDRESS, size, size, 0x1000)
    path = tmp_path / "program"
    path.write_bytes(header + segment + EXITS)
    path.chmod(0o755)
    return path


def test_rule() -> None:
    """What the kernel is told, in the form of its document; the magic is the ELF header's."""
    name, kind, offset, magic, mask, interpreter, flags = foreign.rule(AARCH64, "/q").split(":")[1:]
    assert (name, kind, offset, interpreter, flags) == ("q", "M", "", "/q", "FPC")
    assert magic == r"\x7f\x45\x4c\x46\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
    assert mask == r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe" + r"\xff" * 3


def test_it_runs_there_alone(program: Path) -> None:
    if NATIVE.machine == "aarch64":
        pytest.skip("this is no other processor here")
    if not shutil.which("qemu-aarch64-static"):
        pytest.skip("no qemu-aarch64-static: apt-get install qemu-user-static")
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 7):
        pytest.skip("binfmt_misc of a user namespace: Linux 6.7")
    argv = [sys.executable, foreign.__file__, "aarch64", program]
    assert subprocess.run(argv, check=False).returncode == 7
    if not os.path.exists(f"{foreign.BINFMT}/qemu-aarch64"):
        with pytest.raises(OSError) as caught:
            subprocess.run([program], check=False)
        assert caught.value.errno == errno.ENOEXEC
