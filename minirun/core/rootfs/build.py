"""Stage 1, init's half: the container's root filesystem, in init's own mount namespace.

Nothing is mounted in the host's namespace, so whatever happens to init, its mounts die with it.
The order is runc's (libcontainer/rootfs_linux.go): make the namespace private, the overlay, the
mounts of config.json in order, device nodes, links.
"""

import os

from minirun.core import places
from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError
from minirun.core.kernel import mounts
from minirun.core.rootfs.inroot import Root


def mount_root(config: Config, lower: "list[str]", own: str) -> Root:
    """Make root.path a mount of its own, and open it.

    `lower` are the image's layers, lowest first; with them it is an overlay, whose writable
    layer lies in the directory `own`.
    Raises OSError, MinirunError.
    """
    path = config.rootfs
    try:  # a link in place of the root filesystem is refused here (CVE-2021-29136)
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        own_root = os.path.samestat(os.fstat(fd), os.stat("/"))
        os.close(fd)
    except OSError as error:
        text = os.strerror(error.errno or 0).lower()
        hint = "a directory, not a link; with layers it is only their mount point"
        raise ConfigError(f"config.json: root.path: {path}: {text}", hint) from None
    if own_root:  # its mount points would be made there
        raise ConfigError(f"config.json: root.path: {path} is the host's own root")
    if lower:
        _overlay(config, path, lower, own)
    else:
        mounts.mount(
            path, path, None, mounts.MS_BIND | mounts.MS_REC,
            why="pivot_root wants a mount point",
        )  # fmt: skip
    return Root.at(path)


def _overlay(config: Config, path: str, lower: "list[str]", own: str) -> None:
    """Mount the image's layers, read-only, below a directory that belongs to this container."""
    joined = ":".join(_escape(layer) for layer in reversed(lower))
    base = _escape(own)
    data = f"lowerdir={joined},upperdir={base}/{places.UPPER},workdir={base}/{places.WORK}"
    if "user" in config.namespaces:
        data += ",userxattr"
    if config.choices.volatile:
        data += ",volatile"  # else the kernel syncs the whole disk below when it unmounts
    if len(data) >= 4095:
        raise MinirunError(f"{len(lower)} layers do not fit into one page of mount options")
    mounts.mount(
        "overlay", path, "overlay", 0, data,
        why="the image stays untouched: what the container writes goes to upper",
    )  # fmt: skip


def _escape(path: str) -> str:
    """Escape what mount(2) and overlayfs give a meaning: backslash, comma, colon."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
