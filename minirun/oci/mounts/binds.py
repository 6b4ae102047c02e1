"""Stage 1, init's half: a bind mount of config.json's `mounts`: a file or directory of the host.

What the spec says: runtime-spec, config.md, "Mounts" and "Linux mount options": an entry with bind
or rbind among its options is a bind mount, whatever its type; words that are no option belong to a
file system, and a bind mount, which makes none, passes them over.

Imported only if config.json lists one: -v, a volume of the image, most bundles of an engine.
"""

from __future__ import annotations

import os

from minirun.common import operations
from minirun.core.config import Config
from minirun.core.errors import ConfigError
from minirun.core.kernel import mounts
from minirun.core.rootfs.inroot import Root
from minirun.oci.mounts import nodes, options
from minirun.oci.mounts.rows import MountPoints, change, hold_top

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.oci.mounts.sources import MountSources


def mount(
    config: Config, root: Root, row: dict[str, Any], where: str, sources: MountSources | None
) -> None:
    """Bind what an entry names. `sources` holds what the runtime has prepared for unusual entries.

    Raises OSError; ConfigError, which names the entry as `where`.
    """
    wanted = options.parse(row.get("options") or [])
    root = MountPoints(root, row, where)
    tree = sources.trees.get(where) if sources else None
    path: str = row["destination"]
    below = _below(root, path, where) if nodes.is_volume(config, row) else -1
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
    hold_top(config, root, path)
    if sources and below >= 0:
        sources.copy_up(root, path, below, whole=True)
    change(root, path, wanted)


def _below(root: Root, path: str, where: str) -> int:
    """Open the image's directory at the path of a volume. Raises ConfigError, OSError."""
    try:
        return root.make_dir(path)
    except NotADirectoryError:
        text = f"config.json: {where}.destination: the image declares a volume at {path}"
        raise ConfigError(f"{text}, and has a file there", "-v /host/path:PATH instead") from None


def source_of(config: Config, row: dict[str, Any], where: str) -> str:
    """Return the path on the host that an entry binds. Raises ConfigError if it cannot be found."""
    source: str = row.get("source") or ""
    if not source.startswith("/"):
        source = f"{config.bundle}/{source}"
    try:
        os.stat(source)
    except OSError as error:  # EACCES, too: the caller may have no root
        what = os.strerror(error.errno or 0).lower()
        raise ConfigError(f"config.json: {where}.source: {source}: {what}") from None
    return source
