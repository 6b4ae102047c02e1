"""Entering the cgroups of another process, whichever runtime made them.

A program that works on a container's files is the container's work: its memory limit holds for the
program, and what kills the container's cgroup kills the program. cgroups(7), "/proc files":
/proc/PID/cgroup names a process's cgroup in each hierarchy.
"""

import os

from minirun.cgroups import hierarchies, tree
from minirun.core import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WHY = "what works on the container's files is in the container's cgroup"


def entrance(pid: int) -> "Callable[[], None]":
    """Return a function that moves its caller into the cgroups of process `pid`.

    All that it needs is imported by now: its caller may be in the container then.
    """
    return lambda: join(pid)


def join(pid: int) -> None:
    """Move the calling process, which must have one thread, into the cgroups of process `pid`.

    A user without privileges may not be allowed to: then the process stays, and the log says so.
    Raises OSError.
    """
    own, other = _cgroups("self"), _cgroups(str(pid))
    if own == other:
        return
    places = {name: h for h in hierarchies.mounted() for name in h.names or ("",)}
    for names, path in other.items():
        hierarchy = places.get(names.split(",")[0])
        if hierarchy is None or own.get(names) == path:
            continue
        # version 1: a thread that moves itself makes the kernel wait for no other process
        file = "tasks" if hierarchy.version == 1 else "cgroup.procs"
        try:
            _enter(f"{hierarchy.path}{path.rstrip('/')}/{file}")
        except PermissionError as error:
            why = "this user may not move a process there"
            events.emit("note", "cgroup not joined", {"path": error.filename}, why=why)


def _cgroups(pid: str) -> "dict[str, str]":
    """Return controllers, as /proc/PID/cgroup names them ("" for version 2) → path."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    return {names: path for _, names, path in rows}


def _enter(path: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        tree.write(fd, "0", path, _WHY)
    finally:
        os.close(fd)
