"""Stage 1, init's half: everything that config.json's `mounts` lists, in the order of the list."""

from __future__ import annotations

import os

from minirun.common import operations
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import from_os
from minirun.core.extras import Extra
from minirun.core.keeping.record import Record
from minirun.core.kernel import mounts
from minirun.core.rootfs.inroot import Root
from minirun.oci.mounts import nodes, options, rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from minirun.cgroups import ContainerMounts
    from minirun.core.rootfs import Operation, Plan
    from minirun.core.stages.s1_clone import Init
    from minirun.oci.mounts.sources import MountSources

    MountFunction = Callable[[Config, Root, dict[str, Any], str, MountSources | None], None]

_CGROUPS = ("cgroup", "cgroup2")
_UNUSUAL_WORDS = frozenset(("idmap", "ridmap", "tmpcopyup"))
_ATTRIBUTES = mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
"""The bits that mount(2) and mount_setattr(2) both know."""


class Mounts(Extra):
    """The mounts of one container, with their numbers in config.json."""

    def __init__(self, container: Container) -> None:
        """Open the sources that init cannot open itself. Raises ConfigError, OSError."""
        super().__init__(container)
        self.rows: list[dict[str, Any]] = self.config.raw["mounts"]
        self.sources: MountSources | None = None
        if _is_another_user(self.config) or any(map(_is_unusual, self.rows)):
            from minirun.oci.mounts import sources  # few have any

            self.sources = sources.MountSources(self.config, _is_another_user(self.config))
        self.bind: MountFunction | None = None
        if any(map(nodes.is_bind, self.rows)):
            from minirun.oci.mounts import binds  # a run without -v has none

            self.bind = binds.mount

    def from_outside(self, init: Init) -> None:
        """Close the runtime's copies of the sources."""
        if self.sources:
            self.sources.close()

    def mounts(self) -> Plan:
        """Return an operation for each entry."""
        return tuple(self._mount(row, f"mounts[{n}]") for n, row in enumerate(self.rows))

    def _mount(self, row: dict[str, Any], where: str) -> Operation:
        if row.get("type") not in _CGROUPS:
            mount = self.bind if self.bind and nodes.is_bind(row) else rows.mount
            return ListedMount(self.config, row, where, self.sources, mount)
        view = self.container.cgroup.mounts_for_container()
        return CgroupMounts(row, where, view, self.config.new_namespace("cgroup"))

    def hide(self) -> Plan:
        """Return what makes /dev and each tmpfs read-only, which had to be filled first."""
        late = ("tmpfs", *_CGROUPS)
        return tuple(
            ReadOnly(row["destination"])
            for row in self.rows
            if (row.get("type") in late or nodes.is_at_dev(row)) and _is_read_only(row)
        )


class ListedMount(Record):
    """One entry of `mounts`; `sources`: what the runtime has prepared for unusual ones."""

    config: Config
    row: dict[str, Any]
    where: str
    sources: MountSources | None
    mount: MountFunction
    """The function that mounts it: of rows for a new file system, of binds for a bind mount."""

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return _as_shell(self.row)

    def execute(self, root: Root) -> None:
        """Do it. Raises ConfigError, MinirunError."""
        try:
            self.mount(self.config, root, self.row, self.where, self.sources)
        except OSError as error:
            what = f"{self.row.get('source') or self.row.get('type')} at {self.row['destination']}"
            raise from_os(error, f"config.json: {self.where}: {what}") from None


class ReadOnly(Record):
    """Make a mount read-only: in stage 7, when all that belongs in it is there."""

    path: str

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mount -o remount,ro {self.path}"

    def execute(self, root: Root) -> None:
        """Do it. Raises OSError."""
        rows.change(root, self.path, options.parse(["ro"]))


def _is_read_only(row: dict[str, Any]) -> bool:
    return bool(options.parse(row.get("options") or []).flags & mounts.MS_RDONLY)


class CgroupMounts(Record):
    """An entry of type cgroup: the container's view of its cgroups, in a `new` namespace or not."""

    row: dict[str, Any]
    where: str
    view: ContainerMounts
    new: bool

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return _as_shell(self.row)

    def execute(self, root: Root) -> None:
        """Do it. Raises ConfigError, OSError."""
        root = rows.MountPoints(root, self.row, self.where)
        path = self.row["destination"]
        flags = options.parse(self.row.get("options") or []).flags & ~mounts.MS_RELATIME
        try:
            for operation in _cgroup_plan(path, flags, self.view, new=self.new):
                operation.execute(root)
        except PermissionError:
            if self.new or self.view.tmpfs:
                raise
            # a user namespace may not mount the host's tree anew; runc binds it, too
            source = self.view.mounts[0].hierarchy
            operations.Bind(source, path, flags & _ATTRIBUTES, recursive=False).execute(root)


def _as_shell(row: dict[str, Any]) -> str:
    """Return an entry of `mounts` as a command line of mount(8)."""
    kind, words = row.get("type") or "none", ",".join(row.get("options") or ())
    start = "mount" if nodes.is_bind(row) else f"mount -t {kind}"
    return f"{start} {row.get('source') or kind} {row['destination']} -o {words or 'defaults'}"


def _is_another_user(config: Config) -> bool:
    """Return True if init is another user of the host than the runtime, which is root."""
    if "user" not in config.namespaces or not config.new_namespace("mount") or os.geteuid():
        return False
    maps = config.linux.get("uidMappings") or ()
    return not any(row["containerID"] == row["hostID"] == 0 for row in maps)


def _is_unusual(row: dict[str, Any]) -> bool:
    """Return True if a mount needs something that only the runtime can prepare, on the host."""
    return "uidMappings" in row or not _UNUSUAL_WORDS.isdisjoint(row.get("options") or ())


def _cgroup_plan(path: str, flags: int, view: ContainerMounts, *, new: bool) -> Plan:
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
