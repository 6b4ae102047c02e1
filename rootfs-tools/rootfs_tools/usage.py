"""How much room the store takes on the disk, and how much of it could be had back: `system df`.

It is counted in blocks, as du(1) counts, so the holes of sparse files take nothing, and what images
share counts once. Directories are entered by their descriptors: a container may change its files
at any time, and a link of it leads nowhere.
"""

import os
import stat
from collections.abc import Collection, Mapping
from typing import NamedTuple

from minirun.image import store as shelf
from minirun.running import volumes as kept
from rootfs_tools.blobs import BLOBS, PARTIAL
from rootfs_tools.dockerfile.cache import MOUNTS, STEPS
from rootfs_tools.gc import of_images
from rootfs_tools.grammar import parse
from rootfs_tools.walk import walk

_MOUNTED = ("rootfs", "lower")
"""In a container's directory, what only shows files that lie elsewhere."""


class UsageRow(NamedTuple):
    """One kind of thing."""

    kind: str
    total: int
    active: int
    """How many of them a container needs; of containers, how many have not ended."""
    size: int
    """Bytes on the disk."""
    reclaimable: int
    """Bytes that would be free again without those that are not active."""


def usage(store: str, in_use: Collection[str], names: Collection[str]) -> list[UsageRow]:
    """Return what the store takes, by kind.

    `in_use` are the directories of the layers that containers have, `names` their images. Raises
    ImageError, OSError.
    """
    store = os.path.abspath(store)
    needed = of_images(store, names)
    layers = _sizes(f"{store}/{shelf.LAYERS}")
    used = {path.removesuffix("/fs") for path in in_use}
    used |= {f"{store}/{shelf.LAYERS}/{each.removeprefix('sha256:')}" for each in needed.layers}
    archives = _sizes(f"{store}/{BLOBS}") | _sizes(f"{store}/{PARTIAL}")
    wanted = {f"{store}/{BLOBS}/{each.removeprefix('sha256:')}" for each in needed.blobs}
    images = _sizes(shelf.images_dir(store))
    running = {each.rpartition("/layers/")[0] for each in in_use}
    running |= {_image(store, each) for each in names}
    builds = _sizes(f"{store}/{STEPS}") | _sizes(f"{store}/{MOUNTS}")
    return [
        _row("Images", images, running), _row("Layers", layers, used),
        _row("Archives", archives, wanted), _row("Build Cache", builds, ()),
    ]  # fmt: skip


def containers(directories: Mapping[str, bool]) -> UsageRow:
    """Return what containers have written; `directories` says which of them have not ended."""
    sizes = {}
    for path in directories:
        try:
            parts = [f"{path}/{name}" for name in os.listdir(path) if name not in _MOUNTED]
        except FileNotFoundError:
            continue  # the container has just been deleted
        sizes[path] = sum(map(on_disk, parts))
    return _row("Containers", sizes, [path for path, alive in directories.items() if alive])


def volumes(store: str, active: Collection[str]) -> UsageRow:
    """Return what volumes hold on this machine's disk; `active`: names of those in use."""
    sizes = {name: on_disk(kept.data(store, name)) for name in kept.names(store)}
    return _row("Local Volumes", sizes, active)


def added(row: UsageRow, *parts: UsageRow) -> UsageRow:
    """Return a row whose sizes are those of its parts too."""
    every = (row, *parts)
    return row._replace(
        size=sum(each.size for each in every),
        reclaimable=sum(each.reclaimable for each in every),
    )


def _row(kind: str, sizes: Mapping[str, int], active: Collection[str]) -> UsageRow:
    """Return the row of these paths, of which those in `active` are needed."""
    free = sum(size for path, size in sizes.items() if path not in active)
    kept = sum(path in active for path in sizes)
    return UsageRow(kind, len(sizes), kept, sum(sizes.values()), free)


def on_disk(path: str) -> int:
    """Return the blocks of a file or a tree, in bytes; a file with two names counts once.

    A mount in it is not entered. 0 if there is no such file any more. Raises OSError.
    """
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return 0
    if not stat.S_ISDIR(info.st_mode):
        return info.st_blocks * 512
    seen: set[tuple[int, int]] = set()
    total = info.st_blocks * 512
    try:
        for _, found in walk(path):
            if stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                total += found.st_blocks * 512
    except FileNotFoundError:
        return 0  # it has just been removed
    return total


def _sizes(folder: str) -> dict[str, int]:
    """Return the size of each thing in a folder, except locks and drafts."""
    try:
        names = [name for name in os.listdir(folder) if not name.startswith(".")]
    except FileNotFoundError:
        return {}
    return {f"{folder}/{name}": on_disk(f"{folder}/{name}") for name in sorted(names)}


def _image(store: str, name: str) -> str:
    return f"{shelf.images_dir(store)}/{shelf.directory_name(parse(name))}"
