"""The way into a cgroup of a user's own from another part of the tree.

A process may be moved, or cloned, only by one that may write to cgroup.procs of the first cgroup
above both places (cgroup-v2.rst, "Delegation Containment"). systemd gives a user the tree below
user@UID.service; a login, by ssh for one, is a session-N.scope beside it, and above both is root's.
Then the user's manager is asked, which asks the system's: AttachProcessesToUnit of
org.freedesktop.systemd1(5). It moves a process of the same user into a unit with Delegate=yes, or
below it. The process that wants to move asks for itself, as process 0: the bus knows its number,
also where a pid namespace has given it another one.

What the real stack does: runc's parent asks for its child, by number; crun and podman do as well.
"""

from __future__ import annotations

import os

from minirun.cgroups import hierarchies
from minirun.cgroups.v2 import CgroupV2
from minirun.core.errors import MinirunError, StateError
from minirun.core.lazy import lazy

with lazy:
    from minirun.cgroups.systemd import bus

BOOTED = "/run/systemd/system"
"""A directory that exists if systemd is the init: sd_booted(3)."""


class MovedByManager(CgroupV2):
    """A cgroup2 of a user's own; the user's manager moves processes there that cannot go alone."""

    _asks = False

    def prepare_join(self) -> None:
        """Open cgroup.procs, or load what asks the manager. Raises MinirunError, OSError."""
        super().prepare_join()
        self._asks = os.path.isdir(BOOTED) and not _may_go(self._dir.path)
        if self._asks:
            load_bus(f"to reach the cgroup {self.path} from here")

    def clone_fd(self) -> int:
        """Return the directory's descriptor; -1 if clone3(2) would refuse it."""
        return -1 if self._asks else super().clone_fd()

    def join(self, *, cloned: bool = False, counted: bool = True) -> None:
        """Move there, or have the manager do it. Raises MinirunError, OSError."""
        if not self._asks:
            super().join(cloned=cloned, counted=counted)
            return
        manager = bus.of_user()  # a connection of this process's: the bus knows who has made it
        try:
            path = self._dir.path.removeprefix(hierarchies.version_2())
            manager.attach_caller(*_unit(path, manager.top()))
        finally:
            manager.close()
        self._close_join_fd()

    def admit(self, pid: int, *, whole: bool) -> None:
        """Move another process in. Raises StateError if only the manager could, OSError."""
        if whole and self._asks:
            text = f"the cgroup {self._dir.path} is at its limit of processes"
            raise StateError(text, "minirun update --pids-limit N, or exec where it was started")
        super().admit(pid, whole=whole)


def load_bus(purpose: str) -> None:
    """Import what speaks D-Bus. Raises MinirunError if the package for it is missing."""
    try:
        lazy.load("jeepney")  # minirun.cgroups.systemd.bus needs it
        lazy.load("minirun.cgroups.systemd.bus")
    except ImportError:
        text = f"{purpose}: the Python package jeepney, which speaks D-Bus, is missing"
        raise MinirunError(text, "make setup, or pip install jeepney") from None


def _may_go(directory: str) -> bool:
    """Return True if this process may move into a cgroup: it may write above both places."""
    mount = hierarchies.version_2()
    own = mount + hierarchies.paths_of("self").get("", "/")
    above = os.path.commonpath((own, directory))
    return not above.startswith(mount) or os.access(f"{above}/cgroup.procs", os.W_OK)


def _unit(path: str, top: str) -> tuple[str, str]:
    """Return the unit whose cgroup `path` is, or lies below, and where below it; "" for nowhere.

    `top` is the manager's own cgroup. Raises MinirunError.
    """
    parts = path.removeprefix(top).split("/")[1:]
    while parts and parts[0].endswith(".slice"):  # slices hold units, and no processes
        del parts[0]
    if not path.startswith(f"{top}/") or not parts:
        raise MinirunError(
            f"the cgroup {path} is no unit's of your systemd manager, and cannot be entered from"
            " here",
            "use the session or service that started the container",
        )
    return parts[0], "/".join(("", *parts[1:])) if parts[1:] else ""
