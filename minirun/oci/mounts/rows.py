"""Stage 1, init's half: one entry of config.json's `mounts`, from its words to the mount.

What the spec says: runtime-spec, config.md, "Mounts" and "Linux mount options": an entry with bind
or rbind among its options is a bind mount, whatever its type; words that are no option belong to
the file system, and a bind mount, which makes none, passes them over.
"""

import os

from minirun.common import operations
from minirun.core.config import Config
from minirun.core.errors import ConfigError
from minirun.core.kernel import files, mounts
from minirun.core.rootfs.inroot import Root
from minirun.oci.mounts import options
from minirun.oci.mounts.nodes import is_bind
from minirun.oci.mounts.over_proc import MountPoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.oci.mounts.sources import MountSources


def mount(
    config: Config, root: Root, row: "dict[str, Any]", where: str, sources: "MountSources | None"
) -> None:
    """Mount what an entry says. `sources` holds what the runtime has prepared for unusual ones.

    Raises OSError; ConfigError, which names the entry as `where`.
    """
    wanted = options.parse(row.get("options") or [])
    root = MountPoints(root, row, where)
    if is_bind(row):
        _bind(config, root, row, wanted, where, sources.trees.get(where) if sources else None)
        return
    kind, path = row.get("type") or "none", row["destination"]
    if kind in ("proc", "sysfs"):
        _refuse_links(root, path, where)
    late = wanted.copy_up or path == "/dev"  # still to be filled, and read-only only then
    flags = wanted.flags & ~mounts.MS_RDONLY if late else wanted.flags
    below = root.make_dir(path) if wanted.copy_up else -1
    try:
        operations.MountFs(kind, row.get("source") or kind, path, flags, wanted.data).execute(root)
    except OSError as error:
        if kind != "mqueue" and not (kind == "sysfs" and error.errno == 1):
            raise
        _instead(config, root, kind, path)
    if sources and wanted.copy_up:
        sources.copy_up(root, path, below, wanted)
    change(root, path, wanted._replace(set=0, clear=0))  # mount(2) has set those


def _instead(config: Config, root: Root, kind: str, path: str) -> None:
    """Bind the host's sysfs or mqueue if a user namespace may not mount a new one."""
    if not config.new_namespace("user") and config.new_namespace("network"):
        raise ConfigError(f"config.json: {kind} cannot be mounted at {path}")
    source = "/sys" if kind == "sysfs" else "/dev/mqueue"
    operations.Bind(source, path, mounts.MOUNT_ATTR_RDONLY).execute(root)


def _bind(
    config: Config,
    root: MountPoints,
    row: "dict[str, Any]",
    wanted: options.Options,
    where: str,
    tree: "int | None",
) -> None:
    path: str = row["destination"]
    if tree is not None:
        root.allow(tree)
        operations.attach(root, tree, path)
    else:
        source = source_of(config, row, where)
        fd = os.open(source, os.O_PATH | os.O_CLOEXEC)
        try:
            root.allow(fd)
            recursive = bool(wanted.flags & mounts.MS_REC)
            operations.bind_fd(root, fd, source, path, recursive=recursive)
        finally:
            os.close(fd)
    change(root, row["destination"], wanted)


def source_of(config: Config, row: "dict[str, Any]", where: str) -> str:
    """Return the path on the host that an entry binds. Raises ConfigError if nothing is."""
    source: str = row.get("source") or ""
    if not source.startswith("/"):
        source = f"{config.bundle}/{source}"
    if not os.path.exists(source):
        raise ConfigError(f"config.json: {where}.source: {source}: no such file or directory")
    return source


def change(root: Root, path: str, wanted: options.Options) -> None:
    """Set properties and propagation of the mount that now lies at `path`. Raises OSError."""
    top, tree = (wanted.set, wanted.clear), (wanted.set_all, wanted.clear_all)
    if not any((*top, *tree, *wanted.propagation)):
        return
    fd = root.open(path)
    try:
        if any(top):
            mounts.mount_setattr(fd, *top, shown=path)
        if any(tree):
            mounts.mount_setattr(fd, *tree, recursive=True, shown=path)
        for kind in wanted.propagation:
            mounts.mount(None, f"/proc/self/fd/{fd}", None, kind, shown=path)
    finally:
        os.close(fd)


def _refuse_links(root: Root, path: str, where: str) -> None:
    """Refuse /proc and /sys behind a link of the image (CVE-2019-19921, CVE-2023-27561)."""
    try:
        resolve = files.RESOLVE_IN_ROOT | files.RESOLVE_NO_SYMLINKS
        os.close(files.openat2(root.fd, path, os.O_PATH | os.O_DIRECTORY, resolve))
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "the image has a link or a file there"
        text = f"{where}.destination: {path} is not a plain directory"
        raise ConfigError(f"config.json: {text}", hint) from error
