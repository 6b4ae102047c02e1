"""Stage 1, init's half: /sys/fs/cgroup, where a container sees its own cgroups."""

from __future__ import annotations

import errno

from minirun.core.keeping.record import Record
from minirun.core.kernel import mounts
from minirun.core.rootfs import mount_entry, mount_options, operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.cgroup import CgroupView
    from minirun.core.rootfs import Operation, Plan
    from minirun.core.rootfs.inroot import Root

TYPES = ("cgroup", "cgroup2")
_BOUND_INSTEAD = (errno.EPERM, errno.EBUSY)
"""Why version 2's one file system cannot be mounted anew: a user namespace may not mount the host's
tree; the kernel mounts none over itself, and it is there already if /sys was bound with all below.
What the mount would show is bound then, as runc does it."""
_ATTRIBUTES = mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
"""The bits that mount(2) and mount_setattr(2) both know."""


class CgroupMounts(Record):
    """An entry of type cgroup: the container's view of its cgroups, in a `new` namespace or not."""

    row: dict[str, Any]
    where: str
    view: CgroupView
    new: bool

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return mount_entry.as_shell(self.row)

    def execute(self, root: Root) -> None:
        """Mount the container's cgroups at /sys/fs/cgroup. Raises ConfigError, OSError."""
        root = mount_entry.MountPoints(root, self.row, self.where)
        path = self.row["destination"]
        flags = mount_options.parse(self.row.get("options") or []).flags & ~mounts.MS_RELATIME
        try:
            for operation in _plan(path, flags, self.view, new=self.new):
                operation.execute(root)
        except OSError as error:
            if self.view.tmpfs or error.errno not in _BOUND_INSTEAD:
                raise
            own = self.view.mounts[0]
            source = own.directory if self.new else own.hierarchy
            operations.Bind(source, path, flags & _ATTRIBUTES, recursive=False).execute(root)


def _plan(path: str, flags: int, view: CgroupView, *, new: bool) -> Plan:
    """One cgroup2; or a tmpfs with a mount for each hierarchy, and links for joint controllers.

    With a cgroup namespace of the host (not `new`), only the container's own cgroup of a version 1
    hierarchy is bound; version 2 shows the tree, in which its path in /proc/self/cgroup lies.
    """
    listed: list[Operation] = [
        operations.MountFs(row.fstype, "cgroup", f"{path}/{row.path}", flags, row.data)
        if new or not view.tmpfs
        else operations.Bind(
            row.directory, f"{path}/{row.path}", flags & _ATTRIBUTES, recursive=False
        )
        for row in view.mounts
    ]
    links = [operations.Symlink(target, f"{path}/{name}") for target, name in view.links]
    if not view.tmpfs:
        return (*listed, *links)
    below = operations.MountFs("tmpfs", "tmpfs", path, flags & ~mounts.MS_RDONLY, "mode=755")
    return (below, *listed, *links)
