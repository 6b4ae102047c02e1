"""Stage 1, init's half: everything that config.json's `mounts` lists.

In the order of the list; but cgroup file systems come last of all, since they show the container's
cgroups only to who is in its cgroup namespace already.
"""

from minirun.core.container import Container
from minirun.core.errors import from_os
from minirun.core.extras import Extra
from minirun.core.kernel import mounts
from minirun.core.rootfs import nodes, plan
from minirun.core.rootfs.inroot import Root
from minirun.oci.mounts import options, rows
from minirun.oci.mounts.over_proc import MountPoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.cgroups import ContainerMounts
    from minirun.core.stages.s1_clone import Init
    from minirun.oci.mounts.sources import MountSources

_CGROUPS = ("cgroup", "cgroup2")
_UNUSUAL_WORDS = frozenset(("idmap", "ridmap", "tmpcopyup"))
_ATTRIBUTES = mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
"""The bits that mount(2) and mount_setattr(2) both know."""


def extra(container: Container) -> Extra:
    """Open the sources of unusual mounts. Raises ConfigError, OSError."""
    return Mounts(container)


class Mounts(Extra):
    """The mounts of one container, with their numbers in config.json."""

    def __init__(self, container: Container) -> None:
        """Open the sources that are to be id-mapped. Raises ConfigError, OSError."""
        self.container = container
        self.config = container.config
        listed = list(enumerate(self.config.raw["mounts"]))
        self.cgroups = [(n, row) for n, row in listed if row.get("type") in _CGROUPS]
        self.others = [(n, row) for n, row in listed if row.get("type") not in _CGROUPS]
        self.sources: MountSources | None = None
        if any(_is_unusual(row) for _, row in self.others):
            from minirun.oci.mounts import sources  # few have any

            self.sources = sources.MountSources(self.config)

    def from_outside(self, init: "Init") -> None:
        """Close the runtime's copies of the sources."""
        if self.sources:
            self.sources.close()

    def mount(self, root: Root) -> None:
        """Mount everything but cgroup file systems. Raises OSError, ConfigError."""
        for index, row in self.others:
            tree = self.sources.take(index) if self.sources else None
            try:
                rows.mount(self.config, root, row, f"mounts[{index}]", tree)
            except OSError as error:
                raise from_os(error, f"config.json: mounts[{index}]") from None

    def mount_last(self, root: Root) -> None:
        """Make /dev read-only if it is to be; mount the cgroup file systems. Raises OSError."""
        for row in nodes.mounts_at_dev(self.config):
            rows.finish_dev(root, row)
        for index, row in self.cgroups:
            view = self.container.cgroup.mounts_for_container()
            self._mount_cgroups(MountPoints(root, row, f"mounts[{index}]"), row, view)

    def _mount_cgroups(self, root: Root, row: "dict[str, Any]", view: "ContainerMounts") -> None:
        flags = options.parse(row.get("options") or []).flags & ~mounts.MS_RELATIME
        new = self.config.new_namespace("cgroup")
        for operation in _cgroup_plan(row["destination"], flags, view, new=new):
            operation.execute(root)
        if view.tmpfs and flags & mounts.MS_RDONLY:
            rows.change(root, row["destination"], options.parse(["ro"]))


def _is_unusual(row: "dict[str, Any]") -> bool:
    """Return True if a mount needs something that only the runtime can prepare, on the host."""
    return "uidMappings" in row or not _UNUSUAL_WORDS.isdisjoint(row.get("options") or ())


def _cgroup_plan(path: str, flags: int, view: "ContainerMounts", *, new: bool) -> "plan.Plan":
    """One cgroup2; or a tmpfs with a mount for each hierarchy, and links for joint controllers.

    With a cgroup namespace of the host (not `new`), only the container's own cgroup is bound.
    """
    listed: list[plan.Operation] = [
        plan.MountFs(row.fstype, row.source, f"{path}/{row.path}", flags, row.data)
        if new
        else plan.Bind(row.directory, f"{path}/{row.path}", flags & _ATTRIBUTES, recursive=False)
        for row in view.mounts
    ]
    links = [plan.Symlink(target, f"{path}/{name}") for target, name in view.links]
    if not view.tmpfs:
        return (*listed, *links)
    below = plan.MountFs("tmpfs", "tmpfs", path, flags & ~mounts.MS_RDONLY, "mode=755")
    return (below, *listed, *links)
