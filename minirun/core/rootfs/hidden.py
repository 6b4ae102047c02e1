"""Stage 7: the paths below /proc and /sys that a container may not write or see.

All of it happens after pivot_root, on descriptors; what stands in for a hidden file is the
container's own /dev/null, checked to be the device 1:3 and not a link of the image
(CVE-2025-31133).
"""

from __future__ import annotations

import os
import stat

from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError, from_os, reason
from minirun.core.keeping.record import Record
from minirun.core.kernel import mounts
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.rootfs import Plan

_COPY = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
_WHY = "hidden from the container"


def plan(config: Config) -> Plan:
    """Return what is made read-only, what is hidden, and whether / is read-only."""
    readonly = (ReadOnlyPath(*row) for row in _paths(config, "readonlyPaths"))
    masked = _paths(config, "maskedPaths")
    hidden = (MaskedPaths(tuple(masked)),) if masked else ()
    root = (ReadOnlyRoot(),) if config.raw["root"].get("readonly") else ()
    return (*readonly, *hidden, *root)


def _paths(config: Config, name: str) -> list[tuple[str, str]]:
    """Return the paths of a list of config.json, each once, and where each is listed."""
    places: dict[str, str] = {}
    for index, path in enumerate(config.linux.get(name) or ()):
        places.setdefault(path, f"config.json: linux.{name}[{index}]")
    return list(places.items())


class ReadOnlyPath(Record):
    """Bind a path upon itself, read-only; one that does not exist needs no protection."""

    path: str
    where: str

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mount --rbind -o ro {self.path} {self.path}"

    def execute(self, root: Root) -> None:
        """Make the path read-only, if it exists. Raises MinirunError."""
        try:
            target = root.open(self.path)
            flags = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH | mounts.AT_RECURSIVE
            why = "read-only for the container"
            tree = mounts.open_tree(target, "", flags, shown=self.path, why=why)
            mounts.mount_setattr(tree, mounts.MOUNT_ATTR_RDONLY, recursive=True, shown=self.path)
            mounts.move_mount(tree, target, shown=self.path)
            os.close(tree)
            os.close(target)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise from_os(error, self.where) from None


class MaskedPaths(Record):
    """Cover each file with /dev/null, and each directory with an empty, read-only tmpfs."""

    rows: tuple[tuple[str, str], ...]
    """Paths, and where each is listed."""

    def describe(self) -> str:
        """Return it as a shell would say it, a line for each path."""
        return "\n".join(f"hide {path}" for path, _ in self.rows)

    def execute(self, root: Root) -> None:
        """Cover the paths, those that exist. Raises MinirunError."""
        covers = Covers()
        try:
            for path, where in self.rows:
                _mask(root, path, where, covers)
        finally:
            covers.close()


def _mask(root: Root, path: str, where: str, covers: Covers) -> None:
    """Cover one path; one that does not exist needs no cover. Raises MinirunError."""
    try:
        target = root.open(path)
        is_directory = stat.S_ISDIR(os.fstat(target).st_mode)
        cover = covers.directory() if is_directory else covers.null(root)
        mounts.move_mount(cover, target, shown=path)
        os.close(cover)
        os.close(target)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise from_os(error, where) from None


class ReadOnlyRoot(Record):
    """root.readonly: nothing is written to the root filesystem."""

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return "mount -o remount,ro /"

    def execute(self, root: Root) -> None:
        """Do it. Raises OSError."""
        mounts.mount_setattr(root.fd, mounts.MOUNT_ATTR_RDONLY, shown="/", why="root.readonly")


class Covers:
    """What hidden paths are covered with."""

    def __init__(self) -> None:
        self._first = -1

    def directory(self) -> int:
        """Return a detached mount of an empty tmpfs. Raises OSError.

        All covers are one tmpfs, as with runc. The first mount of it is kept open, and the others
        are its copies: the kernel copies a mount only once it is attached.
        """
        if self._first >= 0:
            return mounts.open_tree(self._first, "", _COPY, shown="tmpfs", why=_WHY)
        attributes = mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_NOEXEC
        made = mounts.new_filesystem("tmpfs", {"size": "0"}, attributes, why=_WHY)
        self._first = os.dup(made)
        return made

    def close(self) -> None:
        """Close the descriptor of the first tmpfs; the covers stay mounted."""
        if self._first >= 0:
            os.close(self._first)

    def null(self, root: Root) -> int:
        """Return a detached mount of the container's /dev/null. Raises MinirunError, OSError."""
        null = _open_null(root)
        tree = mounts.open_tree(null, "", _COPY, shown="/dev/null", why=_WHY)
        os.close(null)
        return tree


def _open_null(root: Root) -> int:
    """Return the container's /dev/null. Raises MinirunError if it is anything else."""
    try:
        fd = root.open("/dev/null")
    except OSError as error:
        text = reason(error)
        where = "config.json: linux.maskedPaths"
        hint = "mount a tmpfs at /dev, where minirun makes it"
        raise ConfigError(f"{where}: the container's /dev/null: {text}", hint) from None
    info = os.fstat(fd)
    if not stat.S_ISCHR(info.st_mode) or info.st_rdev != os.makedev(1, 3):
        raise MinirunError("/dev/null in the container is not the device 1:3")
    return fd
