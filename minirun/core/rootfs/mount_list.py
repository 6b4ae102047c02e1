"""Stage 1, init's half: everything that config.json's `mounts` lists, in the order of the list.

So /proc, /dev, /sys and the files of -v get there, in this order: each row is a ListedMount, which
calls rootfs.mount_entry. Cgroups, which need several mounts, are in rootfs.cgroup_mounts.
"""

from __future__ import annotations

from minirun.core.config import Config
from minirun.core.errors import from_os
from minirun.core.keeping.record import Record
from minirun.core.kernel import mounts
from minirun.core.rootfs import cgroup_mounts, mount_entry, mount_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.container import Container, Extra
    from minirun.core.rootfs import Operation, Plan
    from minirun.core.rootfs.inroot import Root


def plan(container: Container) -> Plan:
    """Return an operation for each entry of `mounts`. Raises ConfigError, MinirunError, OSError."""
    rows = container.config.raw.get("mounts") or ()
    return tuple(_operation(container, row, f"mounts[{n}]") for n, row in enumerate(rows))


def _operation(container: Container, row: dict[str, Any], where: str) -> Operation:
    """Return the operation of one entry; one of type cgroup becomes several mounts."""
    config = container.config
    if row.get("type") in cgroup_mounts.TYPES:
        view = container.cgroup.mounts_for_container()
        return cgroup_mounts.CgroupMounts(row, where, view, config.new_namespace("cgroup"))
    return ListedMount(config, row, where, tuple(container.extras.values()))


class ListedMount(Record):
    """One entry of `mounts`; `where` is its place in config.json: mounts[3]."""

    config: Config
    row: dict[str, Any]
    where: str
    extras: tuple[Extra, ...] = ()

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return mount_entry.as_shell(self.row)

    def execute(self, root: Root) -> None:
        """Mount it, below the root. Raises ConfigError, MinirunError."""
        try:
            mount_entry.mount(self.config, root, self.row, self.where, self.extras)
        except OSError as error:
            what = f"{self.row.get('source') or self.row.get('type')} at {self.row['destination']}"
            raise from_os(error, f"config.json: {self.where}: {what}") from None


def read_only(config: Config) -> Plan:
    """Return what makes /dev and each tmpfs read-only in stage 7: they had to be filled first."""
    late = ("tmpfs", *cgroup_mounts.TYPES)
    return tuple(
        ReadOnlyMount(row["destination"])
        for row in config.raw.get("mounts") or ()
        if (row.get("type") in late or mount_entry.is_at_dev(row)) and _is_read_only(row)
    )


class ReadOnlyMount(Record):
    """Make a mount read-only: in stage 7, when all that belongs in it is there."""

    path: str

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mount -o remount,ro {self.path}"

    def execute(self, root: Root) -> None:
        """Make the mount read-only. Raises OSError."""
        mount_entry.change(root, self.path, mount_options.parse(["ro"]))


def _is_read_only(row: dict[str, Any]) -> bool:
    """Return True if an entry's options say ro."""
    return bool(mount_options.parse(row.get("options") or []).flags & mounts.MS_RDONLY)
