"""The way into the cgroups of a process, whichever runtime made them.

A program that works on a container's files is the container's work: its memory limit holds for the
program, and what kills the container's cgroup kills the program. So the program joins the cgroups
of the container's process.
"""

from __future__ import annotations

from minirun.cgroups import tree
from minirun.cgroups.hierarchies import mounted, paths_of
from minirun.core import events
from minirun.core.kernel import namespaces

_WHY = "what works on the container's files is in the container's cgroup"
_REFUSED = "this user may not move a process there"


class Entrance:
    """The way into the cgroups of a process, for one that works on the files of its container.

    All is opened outside: its user may be in the container's mount namespace by then, where paths
    are the container's. On version 2 a process is cloned into the cgroup (clone3(2),
    CLONE_INTO_CGROUP): a write to cgroup.procs makes the kernel wait until no process anywhere is
    in the middle of a fork or exit, 10 to 20 ms. On version 1 a thread that moves itself makes it
    wait for no other process.
    """

    def __init__(self, pid: int) -> None:
        """Open those cgroups of `pid` in which this process is not. Raises OSError."""
        self._into = -1
        self._tasks: list[tree.Dir] = []
        own, other = paths_of("self"), paths_of(pid)
        places = {name: h for h in mounted() for name in h.names or ("",)} if own != other else {}
        for names, path in other.items():
            hierarchy = places.get(names.split(",")[0])
            if hierarchy is None or own.get(names) == path:
                continue
            directory = tree.Dir(hierarchy.path + path.rstrip("/"))
            if hierarchy.version == 2:
                self._into = directory.fd()
            else:
                directory.fd()
                self._tasks.append(directory)

    def clone3(self, flags: int, *, why: str) -> tuple[int, int]:
        """Clone this process into version 2's cgroup: minirun.core.kernel.namespaces.clone3.

        If a user without privileges may not do it, the child stays outside, and the log says so.
        Raises OSError.
        """
        try:
            return namespaces.clone3(flags, cgroup_fd=self._into, why=why)
        except PermissionError:
            if self._into < 0:
                raise
            _emit_not_joined("cgroup2")
            return namespaces.clone3(flags, why=why)

    def join(self) -> None:
        """In the child, of one thread: move into version 1's cgroups. Raises OSError."""
        for directory in self._tasks:
            try:
                directory.write("tasks", "0", _WHY)
            except PermissionError as error:
                _emit_not_joined(error.filename)
            directory.close()


def _emit_not_joined(path: str) -> None:
    events.emit("note", "cgroup not joined", {"path": path}, why=_REFUSED)
