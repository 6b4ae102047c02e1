"""The owner of the files of a container with a user namespace: the root of that namespace.

On a file system that was mounted in a user namespace, a user whose id is not mapped there can make
no file: EOVERFLOW. So mount points are made, and ldconfig writes, as the user that the container's
0 is mapped to: user_namespaces(7). The real nvidia-container-cli takes the owner of /proc/PID.
"""

from __future__ import annotations

from ctypes import c_uint

from minirun.core.keeping import state
from minirun.core.keeping.settings import unprivileged
from minirun.core.kernel import libc, namespaces, process

_setfsuid = libc.bind("setfsuid", c_uint)
_setfsgid = libc.bind("setfsgid", c_uint)


def enter(pid: int) -> tuple[int, int]:
    """Return the host's uid and gid of the root of the container of `pid`. Raises OSError.

    A caller without privileges enters the user namespace, and becomes root in it: only from in
    there it may enter the mount namespace.
    """
    if unprivileged():
        why = "the user has no rights outside, and all of them in here"
        namespaces.enter(f"/proc/{pid}/ns/user", namespaces.CLONE_NEWUSER, why=why)
        process.setgid(0)
        process.setuid(0)
        return 0, 0
    uid = _outside(f"/proc/{pid}/uid_map")
    return uid, _outside(f"/proc/{pid}/gid_map") if uid else 0


def _outside(path: str) -> int:
    """Return the host id that 0 is mapped to; if 0 is not mapped, the host id of the first row."""
    rows = [[int(word) for word in line.split()] for line in state.read_text(path).splitlines()]
    return next((row[1] for row in rows if row[0] == 0), rows[0][1] if rows else 0)


def make_files_as(uid: int, gid: int) -> None:
    """Make files as this user and group from now on, with the same capabilities. Raises OSError.

    setfsuid(2), setfsgid(2): leaving user 0 takes those that concern files out of the effective
    set, so they are put in again.
    """
    status = state.read_text("/proc/self/status")
    (held,) = (line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    _setfsgid(gid)
    _setfsuid(uid)
    capabilities = int(held, 16)
    process.capset(capabilities, capabilities, 0, why="files are made as the container's root")
