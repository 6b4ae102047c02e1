"""Runs a command in a place where programs of another processor run: foreign.py MACHINE COMMAND…

QEMU's user mode translates them (Debian's package qemu-user-static); the kernel calls it for each
such program: Documentation/admin-guide/binfmt-misc.rst. What the kernel is told here holds in a
user namespace of this command alone, in which every id is itself (Linux 6.7 and newer); outside of
it nothing changes. In such a namespace no device node can be made, and no sysfs
mounted; mmdebstrap does without.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from minirun.core.kernel import architecture, mounts, namespaces

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
BINFMT = "/proc/sys/fs/binfmt_misc"
EVERY_ID = "0 0 4294967295\n"
_EXECUTABLE_OR_SHARED = 0xFE
"""Of e_type, elf(5): ET_EXEC is 2, ET_DYN 3."""


def rule(row: architecture.Architecture, program: str) -> str:
    """Return what binfmt_misc is told: programs with this ELF header go to `program`.

    F opens the program now, so that it is found below another root; P keeps argv[0], C its ids.
    """
    head = bytes([0x7F, *b"ELF", 2 if row.bits == 64 else 1, 1, 1, *bytes(9), 2, 0])
    magic = head + row.elf.to_bytes(2, "little")
    mask = b"\xff" * 7 + b"\0" + b"\xff" * 8 + bytes([_EXECUTABLE_OR_SHARED]) + b"\xff" * 3
    words = ("".join(f"\\x{byte:02x}" for byte in each) for each in (magic, mask))
    return f":{Path(program).name}:M::{':'.join(words)}:{program}:FPC"


def enter(machine: str) -> None:
    """Take this process into the namespace. Raises OSError; SystemExit without QEMU."""
    row = architecture.of_machine(machine)
    name = f"qemu-{row.qemu}-static"
    program = shutil.which(name)
    if not program:
        sys.exit(f"{name} is not here: apt-get install qemu-user-static")
    mine, ready = os.getpid(), os.pipe()
    child = os.fork()
    if not child:  # it stays outside, where it may write the maps
        os.close(ready[1])
        os.read(ready[0], 1)
        for kind in ("uid", "gid"):
            Path(f"/proc/{mine}/{kind}_map").write_text(EVERY_ID)
        os._exit(0)
    namespaces.unshare(CLONE_NEWUSER | CLONE_NEWNS)
    os.write(ready[1], b"\n")
    for fd in ready:
        os.close(fd)
    if os.waitpid(child, 0)[1]:
        sys.exit("the ids of a new user namespace could not be set")
    mounts.mount("binfmt_misc", BINFMT, "binfmt_misc")
    Path(BINFMT, "register").write_text(rule(row, program))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: foreign.py MACHINE COMMAND [ARGUMENT…]; MACHINE as uname -m says: aarch64")
    enter(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
