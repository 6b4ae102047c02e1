"""Stage 7: the paths below /proc and /sys that a container may not write or see.

All of it happens after pivot_root, on descriptors; what stands in for a hidden file is the
container's own /dev/null, checked to be the device 1:3 and not a link of the image
(CVE-2025-31133).
"""

import os
import stat

from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError, from_os
from minirun.core.kernel import mounts
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def apply(config: Config) -> None:
    """Make paths read-only, hide paths, make / read-only. Raises OSError."""
    root = Root.at("/")
    try:
        _each(config, "readonlyPaths", lambda path: _make_read_only(root, path))
        if config.linux.get("maskedPaths"):
            null = _open_null(root)
            _each(config, "maskedPaths", lambda path: _mask(root, path, null))
            os.close(null)
        if config.readonly:
            mounts.mount_setattr(root.fd, mounts.MOUNT_ATTR_RDONLY, shown="/", why="root.readonly")
    finally:
        root.close()


def _each(config: Config, name: str, act: "Callable[[str], None]") -> None:
    """Do it to each path of a list of config.json, once: mounts pile up. Raises MinirunError."""
    done: set[str] = set()
    for index, path in enumerate(config.linux.get(name) or []):
        if path in done:
            continue
        done.add(path)
        try:
            act(path)
        except OSError as error:
            raise from_os(error, f"config.json: linux.{name}[{index}]") from None


def _make_read_only(root: Root, path: str) -> None:
    """Bind a path upon itself, read-only; one that does not exist needs no protection."""
    try:
        target = root.open(path)
    except FileNotFoundError:
        return
    flags = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH | mounts.AT_RECURSIVE
    tree = mounts.open_tree(target, "", flags, shown=path, why="read-only for the container")
    mounts.mount_setattr(tree, mounts.MOUNT_ATTR_RDONLY, recursive=True, shown=path)
    mounts.move_mount(tree, target, shown=path)
    os.close(tree)
    os.close(target)


def _open_null(root: Root) -> int:
    """Return the container's /dev/null. Raises MinirunError where it is anything else."""
    try:
        fd = root.open("/dev/null")
    except OSError as error:
        text = os.strerror(error.errno or 0).lower()
        where = "config.json: linux.maskedPaths"
        hint = "mount a tmpfs at /dev, where minirun makes it"
        raise ConfigError(f"{where}: the container's /dev/null: {text}", hint) from None
    info = os.fstat(fd)
    if not stat.S_ISCHR(info.st_mode) or info.st_rdev != os.makedev(1, 3):
        raise MinirunError("/dev/null in the container is not the device 1:3")
    return fd


def _mask(root: Root, path: str, null: int) -> None:
    """Cover a file with /dev/null and a directory with an empty, read-only tmpfs."""
    try:
        target = root.open(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    why = "hidden from the container"
    if stat.S_ISDIR(os.fstat(target).st_mode):
        attributes = mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_NOEXEC
        cover = mounts.new_filesystem("tmpfs", {"size": "0"}, attributes, why=why)
    else:
        flags = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
        cover = mounts.open_tree(null, "", flags, shown="/dev/null", why=why)
    mounts.move_mount(cover, target, shown=path)
    os.close(cover)
    os.close(target)
