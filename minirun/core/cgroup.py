"""What the stages ask of a cgroup. minirun.cgroups has it, in two versions; extras leads there.

Only the type checker imports this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol


class CgroupViewMount(Protocol):
    """One mount(2) that shows a container its own cgroups."""

    @property
    def fstype(self) -> str:
        """Its type: cgroup, cgroup2."""

    @property
    def path(self) -> str:
        """Where, below /sys/fs/cgroup; "" for that itself."""

    @property
    def data(self) -> str:
        """The options of the file system."""

    @property
    def directory(self) -> str:
        """The container's own cgroup there."""

    @property
    def hierarchy(self) -> str:
        """Where all cgroups are mounted on the host."""


class CgroupView(Protocol):
    """All that belongs at /sys/fs/cgroup in a container."""

    @property
    def tmpfs(self) -> bool:
        """True if the mounts need a tmpfs below them: version 1."""

    @property
    def mounts(self) -> Sequence[CgroupViewMount]:
        """One for each hierarchy; version 2 has one."""

    @property
    def links(self) -> Sequence[tuple[str, str]]:
        """Targets and names."""


class OwnCgroup(Protocol):
    """One container's cgroup. See minirun.cgroups.base for errors and details."""

    def prepare_join(self) -> None:
        """Open the files that :meth:`join` writes to."""

    def clone_fd(self) -> int:
        """Return the directory that clone3 puts init into, or -1."""

    def join(self, *, cloned: bool = False, counted: bool = True) -> None:
        """Move the calling process into the cgroup, if clone3 has not done so."""

    def admit(self, pid: int, *, whole: bool) -> None:
        """For `exec`: move another process in."""

    def entered(self) -> None:
        """Stage 1, runtime: called when init has joined."""

    def mounts_for_container(self) -> CgroupView:
        """Return what to mount at /sys/fs/cgroup in the container."""

    def allow_devices(self, rules: Iterable[Any]) -> None:
        """Stage 5: allow these devices besides."""

    def close(self) -> None:
        """Close the descriptors that this object holds."""

    def remove(self, seconds: float = ...) -> None:
        """Remove the cgroup; raise StateError if processes are in it after `seconds`."""
