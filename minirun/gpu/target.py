"""The container that edits are put into: what minirun.gpu.apply, ldconfig and hooks know of it."""

from __future__ import annotations

from minirun.core.keeping.record import Record
from minirun.core.rootfs.own_root import OwnRoot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.cgroups.entrance import Entrance
    from minirun.cgroups.foreign import DeviceCgroup
    from minirun.core.cgroup import OwnCgroup


class Target(Record):
    """The container, seen from its mount namespace, in which the caller is."""

    root: OwnRoot
    rootfs: str
    """The root's path there."""
    ldconfig: int = -1
    """The host's program, opened outside; -1 for none."""
    owner: tuple[int, int] = (0, 0)
    """User and group of the container's root: ldconfig writes as these (minirun.gpu.owner)."""
    entrance: Entrance | None = None
    """Leads into the container's cgroups, for ldconfig; None: it stays in the caller's."""
    cgroup: OwnCgroup | DeviceCgroup | None = None
    """The cgroup whose device rules are changed; None: no rule is changed."""
