"""The host's ldconfig: which program it is, and whether it may be run on an image's files."""

import os
import stat

from minirun.core import events
from minirun.core.errors import GPUError

HINT = 'choose another with ldconfig = "@PATH" in the nvidia toolkit\'s config.toml'
_PT_INTERP = 3


def open_host(ldconfig: str) -> int:
    """Open the host's program that `@PATH` names; -1, with a note, where there is none to run.

    On Ubuntu /sbin/ldconfig is a script and the program is ldconfig.real beside it.
    Raises GPUError for a program that would load code of the image.
    """
    if not ldconfig.startswith("@"):
        why = "the container's own ldconfig is code of the image: it is never run"
        events.emit("note", "ldconfig absent", {"ldconfig": ldconfig}, why=why)
        return -1
    for path in (f"{ldconfig[1:]}.real", ldconfig[1:]):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if _is_static(fd):
            return fd
        os.close(fd)
        raise GPUError(f"ldconfig error: {path} is no static program", HINT)
    why = "this host has none: the libraries get no SONAME links"
    events.emit("note", "ldconfig absent", {"ldconfig": ldconfig}, why=why)
    return -1


def _is_static(fd: int) -> bool:
    """Tell whether this is an ELF program without PT_INTERP: elf(5)."""
    header = os.pread(fd, 4096, 0)
    if not stat.S_ISREG(os.fstat(fd).st_mode) or header[:5] != b"\x7fELF\x02":
        return False
    start = int.from_bytes(header[32:40], "little")
    size, count = (int.from_bytes(header[at : at + 2], "little") for at in (54, 56))
    kinds = (header[start + at * size : start + at * size + 4] for at in range(count))
    return all(int.from_bytes(kind, "little") != _PT_INTERP for kind in kinds)
