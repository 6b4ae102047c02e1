"""Stage 7: sysctls, and the paths below /proc and /sys that a container may not write or see.

All of it happens after pivot_root, on descriptors; what stands in for a hidden file is the
container's own /dev/null, checked to be the device 1:3 and not a link of the image
(CVE-2025-31133).
"""

import os
import stat

from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError, from_os
from minirun.core.kernel import files, mounts
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACED = (
    ("net.", "network"), ("kernel.msg", "ipc"), ("kernel.sem", "ipc"), ("kernel.shm", "ipc"),
    ("fs.mqueue.", "ipc"), ("kernel.hostname", "uts"), ("kernel.domainname", "uts"),
)  # fmt: skip
"""Which sysctls belong to a namespace; every other one is the host's (CVE-2022-0811)."""


def apply(config: Config) -> None:
    """Write sysctls, make paths read-only, hide paths, make / read-only. Raises OSError."""
    root = Root.at("/")
    try:
        for key, value in (config.linux.get("sysctl") or {}).items():
            write_sysctl(config, root, key, value)
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


def write_sysctl(config: Config, root: Root, key: str, value: str) -> None:
    """Write one sysctl that belongs to a namespace of the container. Raises ConfigError.

    The path is looked up on a checked procfs, across no mount and no link (CVE-2025-52881).
    """
    where = f"config.json: linux.sysctl.{key}"
    parts = key.split("/") if "/" in key else key.split(".")
    if any(part in ("", ".", "..") for part in parts):
        raise ConfigError(f"{where}: is not the name of a sysctl")
    dotted = ".".join(parts)
    kind = next((kind for prefix, kind in NAMESPACED if dotted.startswith(prefix)), None)
    if kind is None:
        raise ConfigError(f"{where}: is not separate per container")
    if not config.namespaces.get(kind, None) and not config.new_namespace(kind):
        raise ConfigError(f"{where}: needs a {kind} namespace of the container's own")
    proc = root.open("/proc", os.O_PATH | os.O_DIRECTORY)
    try:
        if files.filesystem_magic(proc) != files.PROC_SUPER_MAGIC:
            raise MinirunError("/proc in the container is not procfs")
        resolve = files.RESOLVE_BENEATH | files.RESOLVE_NO_XDEV | files.RESOLVE_NO_SYMLINKS
        fd = files.openat2(proc, "/".join(["sys", *parts]), os.O_WRONLY, resolve)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        text = os.strerror(error.errno or 0).lower()
        raise ConfigError(f"{where}: cannot be set to {value!r}: {text}") from None
    finally:
        os.close(proc)


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
