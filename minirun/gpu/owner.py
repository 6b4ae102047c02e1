"""Who the container's files belong to: its root, which in a user namespace is nobody's on the host.

A file system that was mounted in a user namespace takes no file of a user whom it does not know:
EOVERFLOW. So mount points are made, and ldconfig writes, as the user that the container's 0 is
mapped to: user_namespaces(7). The real nvidia-container-cli takes the owner of /proc/PID.
"""

import os

from minirun.core import state
from minirun.core.kernel import libc, namespaces, process
from minirun.core.record import Record

_setfsuid = libc.bind("setfsuid", libc.c_uint)
_setfsgid = libc.bind("setfsgid", libc.c_uint)


class Owner(Record):
    """User and group of the container's root, on the host."""

    uid: int = 0
    gid: int = 0

    @property
    def is_root(self) -> bool:
        """Whether there is nothing to change."""
        return self == (0, 0)


ROOT = Owner()


def container_owner(pid: int) -> Owner:
    """Return the host uid and gid of the root of the container of `pid`. Raises OSError.

    They are (0, 0) if its uid 0 is the host's.
    """
    uid = _outside(f"/proc/{pid}/uid_map")
    gid = _outside(f"/proc/{pid}/gid_map") if uid else 0
    return Owner(uid, gid)


def enter(pid: int) -> Owner:
    """Enter the user namespace of `pid`, if it is not ours, and become root in it.

    For callers without privileges: only from in there they may enter its mount namespace.
    Raises OSError.
    """
    path = f"/proc/{pid}/ns/user"
    if os.stat(path).st_ino != os.stat("/proc/self/ns/user").st_ino:
        why = "the user has no rights outside, and all of them in here"
        namespaces.enter(path, namespaces.CLONE_NEWUSER, why=why)
        process.setgid(0)
        process.setuid(0)
    return ROOT


def _outside(path: str) -> int:
    """Return what 0 is mapped to; where it is not mapped, what the first id is mapped to."""
    rows = [[int(word) for word in line.split()] for line in state.read_text(path).splitlines()]
    return next((row[1] for row in rows if row[0] == 0), rows[0][1] if rows else 0)


def become(owner: Owner) -> None:
    """Make files as `owner` from now on; all else stays as it is. Raises OSError."""
    if not owner.is_root:
        _set(owner)


def give_up(owner: Owner) -> None:
    """Make files as root again, before the host's files are touched. Raises OSError."""
    if not owner.is_root:
        _set(ROOT)


def _set(owner: Owner) -> None:
    status = state.read_text("/proc/self/status")
    (held,) = (line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    _set_file_ids(owner.uid, owner.gid, int(held, 16))


def _set_file_ids(uid: int, gid: int, capabilities: int) -> None:
    """Make files as user and group `uid`, `gid`, and keep the effective `capabilities`.

    setfsuid(2), setfsgid(2): leaving user 0 takes those that concern files out of the effective
    set, so they are put in again.
    """
    _setfsgid(gid)
    _setfsuid(uid)
    process.capset(capabilities, capabilities, 0, why="files are made as the container's root")
