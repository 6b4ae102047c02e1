r"""The mounts that a process sees: /proc/PID/mountinfo, proc_pid_mountinfo(5).

    36 35 98:0 /sub /mnt/a\040b rw,noatime shared:1 - ext3 /dev/root rw,errors=continue
    │  │  │    │    │           │          │        │ │    │         └ super_options
    │  │  │    │    │           │          │        │ │    └ source
    │  │  │    │    │           │          │        │ └ fs_type
    │  │  │    │    │           │          │        └ ends the propagation fields
    │  │  │    │    │           │          └ propagation: shared:N, master:N, unbindable; or none
    │  │  │    │    │           └ options
    │  │  │    │    └ mount_point
    │  │  │    └ root
    │  │  └ device
    │  └ parent
    └ mount_id

A blank separates two fields, and a newline ends a mount. The kernel writes these two, the tab, the
backslash and (in a source) the # of a path as a backslash and three octal digits. It writes every
other character as it is: a carriage return or a form feed in a path is no separator.
"""

from __future__ import annotations

import errno

from minirun.core.errors import os_error
from minirun.core.keeping.record import Record


class Mount(Record):
    """One mount. Paths, source and type are un-escaped; bytes that are not UTF-8 are surrogates."""

    mount_id: int
    parent: int
    """The mount that this one lies on; at the top of the tree its own id, or one not listed."""
    device: str
    """Major and minor number of the file system's device, as in "98:0"."""
    root: str
    """Which directory or file of the file system is mounted; it ends in //deleted if that is."""
    mount_point: str
    """The path at which it is mounted, from the root directory of the process."""
    options: str
    """The options of this mount, with commas between them."""
    propagation: tuple[str, ...]
    fs_type: str
    source: str
    super_options: str
    """The options of the file system. They are still escaped: only the file system knows which
    comma is part of a value."""


def read(pid: int | str = "self", fs_type: str = "") -> list[Mount]:
    """Return the mounts that process `pid` sees, in the order of the kernel: parents come first.

    If `fs_type` is given, only mounts whose type begins with it. Raises ProcessLookupError for a
    process that has ended, for which the kernel has EINVAL while it is a zombie; OSError.
    """
    path = f"/proc/{pid}/mountinfo"
    try:
        with open(path, "rb") as file:
            return parse(file.read().decode(errors="surrogateescape"), fs_type)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise os_error(errno.ESRCH, path) from None
        raise


def mount_id(fd: int) -> int:
    """Return the id of the mount that an open file lies on: proc_pid_fdinfo(5). Raises OSError."""
    with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
        return int(file.read().partition(b"mnt_id:")[2].split()[0])


def parse(text: str, fs_type: str = "") -> list[Mount]:
    """Return the mounts of a text like /proc/PID/mountinfo; see :func:`read` for `fs_type`."""
    separator = f" - {fs_type}"
    return [_mount(line) for line in text.split("\n") if separator in line]


def _mount(line: str) -> Mount:
    """Return the mount that a line of mountinfo describes: proc_pid_mountinfo(5)."""
    left, _, right = line.partition(" - ")
    mount_id, parent, device, root, mount_point, options, *propagation = left.split(" ")
    fs_type, source, super_options = right.split(" ", 2)
    return Mount(
        int(mount_id), int(parent), device, unescape(root), unescape(mount_point), options,
        tuple(propagation), unescape(fs_type), unescape(source), super_options,
    )  # fmt: skip


def unescape(text: str) -> str:
    r"""Return `text` with the characters that the kernel wrote as \040, \011, \012, \043, \134."""
    if "\\" not in text:
        return text
    start, *escaped = text.split("\\")
    return start + "".join(chr(int(part[:3], 8)) + part[3:] for part in escaped)
