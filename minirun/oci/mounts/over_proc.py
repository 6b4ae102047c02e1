"""What may be mounted over a container's /proc: procfs at /proc itself, and lxcfs' files below it.

Runtime and command trust what /proc says and obeys: a mount over /proc/self/attr or /proc/sys makes
a write go elsewhere (CVE-2019-16884, CVE-2025-52881), one over /proc/1 lies to every monitor. runc
1.3 has the same rule (libcontainer/rootfs_linux.go). lxcfs(1) shows a container numbers of its own
in a few files; they are mounted over the kernel's.
"""

import os

from minirun.core.errors import ConfigError
from minirun.core.kernel import files
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LXCFS = (
    "/proc/cpuinfo", "/proc/diskstats", "/proc/loadavg", "/proc/meminfo", "/proc/slabinfo",
    "/proc/stat", "/proc/swaps", "/proc/uptime", "/proc/sys/crypto/fips_enabled",
    "/proc/sys/kernel/ns_last_pid",
)  # fmt: skip


class MountPoints(Root):
    """A container's root in which no mount point can be opened that lies over or below /proc.

    What counts is the place that a path leads to, through links and "..": each directory and file
    is checked by its descriptor, which is the one that is mounted on or made in.
    """

    def __init__(self, root: Root, row: "dict[str, Any]", where: str) -> None:
        """`row` is an entry of config.json's `mounts`, and `where` its path in config.json."""
        super().__init__(root.fd)
        self._where = where
        self._path: str = row["destination"]
        self._is_procfs = row.get("type") == "proc"
        self._above = _path_of(root.fd).rstrip("/")

    def allow(self, source_fd: int) -> None:
        """Take what is to be bound for procfs if it is procfs. Raises OSError."""
        self._is_procfs = files.filesystem_magic(source_fd) == files.PROC_SUPER_MAGIC

    def open(self, path: str, flags: int = os.O_PATH, mode: int = 0) -> int:
        """Open `path` inside the root. Raises ConfigError if it leads over or below /proc."""
        try:
            fd = super().open(path, flags, mode)
        except NotADirectoryError:
            os.close(self._checked(super().open(path)))
            raise
        return self._checked(fd)

    def _checked(self, fd: int) -> int:
        place = _path_of(fd).removeprefix(self._above)
        over = place == "/proc" and not self._is_procfs
        if over or (place.startswith("/proc/") and place not in _LXCFS):
            os.close(fd)
            raise ConfigError(
                f"config.json: {self._where}.destination: {self._path} lies over {place}",
                "only procfs may be mounted at /proc, and only files that lxcfs knows below it",
            )
        return fd


def _path_of(fd: int) -> str:
    """Return where a descriptor lies, seen from init before pivot_root: /proc is the host's."""
    return os.readlink(f"/proc/self/fd/{fd}")
