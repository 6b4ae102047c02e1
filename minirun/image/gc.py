"""What of the store nothing needs any more: `minirun image gc`, and true figures of its size.

Needed is what an image names: manifest, configuration, archives and layers; and the layers of
containers, also of those that have ended and are kept. While an image is being taken into the store
gc waits, so it never sees one that is half there.
"""

import fcntl
import os
from collections.abc import Collection
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.image import catalogue, oci
from minirun.image import store as shelf
from minirun.image.blobs import Blobs
from minirun.image.dockerfile import cache
from minirun.image.layers import Layers
from minirun.image.take import using


class Needed(NamedTuple):
    """What images need."""

    blobs: set[str]
    """Digests."""
    layers: set[str]
    """Chain ids."""


def collect(store: str, in_use: Collection[str]) -> list[str]:
    """Remove what is not needed; return the paths of it.

    `in_use` are directories of layers that containers have. Raises ImageError, OSError.
    """
    store = os.path.abspath(store)
    swept = catalogue.sweep(store)
    if not os.path.isdir(f"{store}/blobs"):
        return swept
    with using(store, fcntl.LOCK_EX):
        needed = of_images(store)
        mounted = {f"sha256:{os.path.basename(os.path.dirname(path))}" for path in in_use}
        layers = Layers(store).remove_all_but(needed.layers | mounted)
        return [*swept, *layers, *Blobs(store).remove_all_but(needed.blobs), *cache.prune(store)]


def of_images(store: str) -> Needed:
    """Return what the images of a store need."""
    blobs: set[str] = set()
    layers: set[str] = set()
    for details in catalogue.list_images(store):
        layers.update(name for name in details.get("layers", ()) if name.startswith("sha256:"))
        for digest in {details.get("digest", ""), details.get("manifest", "")} - {""}:
            blobs |= _below(Blobs(store), digest)
    return Needed(blobs, layers)


def _below(blobs: Blobs, digest: str) -> set[str]:
    """Return a manifest's digest, and what it names; of a damaged one no more than that."""
    found = {digest}
    if not blobs.has(digest):
        return found
    data = blobs.document(digest)
    for media_type in oci.MANIFESTS:
        try:
            manifest = oci.parse(media_type, data)
        except ImageError:
            continue  # of the other type, or an index: image.json names the manifest besides
        assert isinstance(manifest, oci.Manifest)
        found |= {manifest.config.digest, *(layer.digest for layer in manifest.layers)}
    return found


class Usage(NamedTuple):
    """Disk space, in bytes; what images share counts once."""

    layers: int
    archives: int
    images: int
    """Of images that have their layers to themselves."""


def usage(store: str) -> Usage:
    """Return what the store takes on the disk."""
    parts = (shelf.LAYERS, "blobs", "images")
    return Usage(*(_on_disk(f"{os.path.abspath(store)}/{part}") for part in parts))


def _on_disk(top: str) -> int:
    """Return the blocks of all below a directory; a file with two names counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for path, directories, names in os.walk(top):
        for name in [*names, *directories]:
            info = os.lstat(os.path.join(path, name))
            if (info.st_dev, info.st_ino) not in seen:
                seen.add((info.st_dev, info.st_ino))
                total += info.st_blocks * 512
    return total
