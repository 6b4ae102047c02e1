"""Two system calls that `exec` alone needs: clone(2) of a sibling, and close_range(2) around."""

from __future__ import annotations

from ctypes import c_ulong

from minirun.core import events
from minirun.core.kernel import libc, log_failure
from minirun.core.kernel.files import close_range
from minirun.core.kernel.namespaces import CLONE_PARENT, NAMES

_clone = libc.bind_syscall(c_ulong, c_ulong, c_ulong, c_ulong, c_ulong)


def clone_sibling(*, why: str = "") -> int:
    """Copy this process as its parent's child: clone(2), CLONE_PARENT. Returns 0 in the copy.

    Not by clone3, to which seccomp filters say ENOSYS, since they cannot read its arguments.
    """
    shown = {"flags": libc.flag_names(CLONE_PARENT, NAMES), "exit_signal": "0"}
    start = events.now()
    pid: int = _clone(libc.number("clone"), CLONE_PARENT, 0, 0, 0, 0)
    if pid == -1:
        error = libc.failure("clone")
        log_failure(error, shown, start, why)
        raise error
    if pid:
        events.emit("syscall", "clone", shown, ret=pid, start=start, why=why)
    return pid


def close_all_but(kept: set[int]) -> None:
    """Close every descriptor from 3 on that is not in `kept`."""
    first = 3
    for fd in sorted(fd for fd in kept if fd >= first):
        close_range(first, fd - 1)
        first = fd + 1
    close_range(first)
