"""Namespaces: clone3(2), unshare(2) and setns(2)."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_int, c_size_t, c_uint64, c_void_p

from minirun.core import events
from minirun.core.kernel import libc, log_failure, signals

CLONE_NEWTIME, CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x80, 0x20000, 0x2000000, 0x4000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x8000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
CLONE_PIDFD, CLONE_PARENT = 0x1000, 0x8000
CLONE_INTO_CGROUP = 0x200000000

FLAGS = {
    "mount": CLONE_NEWNS, "pid": CLONE_NEWPID, "uts": CLONE_NEWUTS, "ipc": CLONE_NEWIPC,
    "network": CLONE_NEWNET, "cgroup": CLONE_NEWCGROUP, "user": CLONE_NEWUSER,
    "time": CLONE_NEWTIME,
}  # fmt: skip
"""config.json's names of namespaces (runtime-spec, config-linux.md) and clone's flags."""

PROC_NAMES = {"mount": "mnt", "network": "net"}
"""The names in /proc/PID/ns that differ from those of config.json."""

NAMES = libc.table(globals(), "CLONE_")

_unshare = libc.bind("unshare", c_int)
_setns = libc.bind("setns", c_int, c_int)
_clone3 = libc.bind_syscall(c_void_p, c_size_t)


class CloneArgs(ctypes.Structure):
    """struct clone_args of clone3(2)."""

    _fields_ = [
        (name, c_uint64)
        for name in (
            "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size",
            "tls", "set_tid", "set_tid_size", "cgroup",
        )
    ]  # fmt: skip


def clone3(flags: int, *, cgroup_fd: int = -1, why: str = "") -> tuple[int, int]:
    """Copy this process into new namespaces: clone3(2); Linux 5.5, CLONE_INTO_CGROUP 5.7.

    Returns (pid, pidfd) in the parent and (0, -1) in the child. Only the parent writes the event.
    """
    pidfd = c_int(-1)
    args = CloneArgs(
        flags=flags | CLONE_PIDFD,
        pidfd=ctypes.addressof(pidfd),
        exit_signal=0 if flags & CLONE_PARENT else signals.SIGCHLD,  # 0: the caller's own
    )
    if cgroup_fd >= 0:
        args.flags |= CLONE_INTO_CGROUP
        args.cgroup = cgroup_fd
    signal = "SIGCHLD" if args.exit_signal else "0"
    shown = {"flags": libc.flag_names(args.flags, NAMES), "exit_signal": signal}
    start = events.now()
    pid: int = _clone3(435, ctypes.addressof(args), ctypes.sizeof(args))
    if pid == 0:
        return 0, -1
    if pid == -1:
        error = libc.failure("clone3")
        log_failure(error, shown, start, why)
        raise error
    try:
        events.emit("syscall", "clone3", shown, ret=pid, start=start, why=why)
    except BaseException:  # ^C at a gate: the caller will not get the child's pid
        os.kill(pid, 9)
        raise
    os.set_inheritable(pidfd.value, False)
    return pid, pidfd.value


def unshare(flags: int, *, why: str = "") -> None:
    """Move this process into new namespaces: unshare(2)."""
    shown = {"flags": libc.flag_names(flags, NAMES)}
    libc.logged("unshare", _unshare, (flags,), shown, why=why)


def setns(fd: int, kind: int, *, shown: str = "", why: str = "") -> None:
    """Enter the namespace (or, with a pidfd, the namespaces) that `fd` refers to: setns(2)."""
    args = {"fd": fd, "nstype": libc.flag_names(kind, NAMES), "path": shown}
    libc.logged("setns", _setns, (fd, kind), args, shown or None, why)


def enter(path: str, kind: int, *, why: str = "") -> None:
    """Enter the namespace that the file `path` is, such as /proc/PID/ns/mnt. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(fd, kind, shown=path, why=why)
    finally:
        os.close(fd)
