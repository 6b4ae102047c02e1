"""What of the store nothing needs any more: `minirun image gc`.

Needed is what an image names: manifest, configuration, archives and layers; and the layers of
containers, also of those that have ended and are kept. While an image is being taken into the store
gc waits, so it never sees one that is half there.
"""

import fcntl
import os
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.core.keeping.directories import listed
from minirun.core.keeping.visible import warn
from minirun.core.rootfs.tree import remove_tree
from minirun.image import store as shelf
from minirun.image.store import LAYERS
from rootfs_tools import catalogue, image_spec
from rootfs_tools.blobs import PARTIAL, Blobs
from rootfs_tools.dockerfile import cache
from rootfs_tools.draft import DRAFT
from rootfs_tools.layers import Layers
from rootfs_tools.take import using

_DIGEST = re.compile(b"sha256:[0-9a-f]{64}")


class Needed(NamedTuple):
    """What images need."""

    blobs: set[str]
    """Digests."""
    layers: set[str]
    """Chain ids."""


def sweep(store: str) -> list[str]:
    """Remove what makers that were killed had begun; return the paths. Raises OSError.

    While an image is being made nothing of it is removed: a draft may not be locked yet.
    """
    swept = catalogue.sweep(store)
    if not os.path.isdir(f"{store}/blobs"):
        return swept
    with suppress(BlockingIOError), using(store, fcntl.LOCK_EX | fcntl.LOCK_NB):
        for folder in (LAYERS, PARTIAL, cache.BUILDS):
            for path in listed(f"{store}/{folder}"):
                if os.path.basename(path).startswith(DRAFT):
                    remove_tree(path)
                    swept.append(path)
    return swept


def collect(store: str, in_use: Callable[[], Collection[str]]) -> list[str]:
    """Remove what is not needed; return the paths of it.

    `in_use` returns the directories of layers that containers have now. Of an image that is
    damaged, what its image.json still names stays. Raises ImageError, OSError.
    """
    store = os.path.abspath(store)
    swept = catalogue.sweep(store)
    if not os.path.isdir(f"{store}/blobs"):
        return swept

    def mounted() -> set[str]:
        return {f"sha256:{os.path.basename(os.path.dirname(path))}" for path in in_use()}

    with using(store, fcntl.LOCK_EX):
        needed = of_images(store)
        layers = Layers(store).remove_all_but(needed.layers, mounted)
        return [*swept, *layers, *Blobs(store).remove_all_but(needed.blobs), *cache.prune(store)]


def of_images(store: str, names: Collection[str] | None = None) -> Needed:
    """Return what the images of a store need, or those of these names.

    Raises ImageError for one that cannot be read just now.
    """
    blobs: set[str] = set()
    layers: set[str] = set()
    for details in shelf.list_images(store):
        name = f"{details['name']}:{details['tag']}"
        if names is not None and name not in names:
            continue
        if "broken" in details:
            named = _still_named(store, name)
            digests = named
        else:
            named = {name for name in details.get("layers", ()) if name.startswith("sha256:")}
            digests = {details.get("digest", ""), details.get("manifest", "")} - {""}
        layers |= named
        for digest in digests:
            blobs |= _below(Blobs(store), digest)
    return Needed(blobs, layers)


def _still_named(store: str, name: str) -> set[str]:
    """Return the digests in a damaged image.json: what it says of them is not looked at.

    Raises ImageError if it cannot be read, which says nothing of what it needs.
    """
    stem, _, tag = name.rpartition(":")
    path = f"{shelf.images_dir(store)}/{stem if tag == 'latest' else f'{stem}@{tag}'}"
    try:
        shelf.read_details(path)
    except (shelf.DamagedImage, FileNotFoundError) as error:
        warn(f"image {name} is damaged: {error} (pull, load, import or build it again)")
        with suppress(FileNotFoundError), open(f"{path}/{shelf.RECORD}", "rb") as file:
            return {text.decode() for text in _DIGEST.findall(file.read(image_spec.DOCUMENT_LIMIT))}
    return set()


def _below(blobs: Blobs, digest: str) -> set[str]:
    """Return a manifest's digest, and what it names; of a damaged one no more than that."""
    found = {digest}
    if not blobs.has(digest):
        return found
    for media_type in image_spec.MANIFESTS:
        try:
            data = blobs.document(digest)
            manifest = image_spec.parse(media_type, data)
        except ImageError:
            continue  # damaged, of the other type, or an index: image.json names the manifest too
        assert isinstance(manifest, image_spec.Manifest)
        found |= {manifest.config.digest, *(layer.digest for layer in manifest.layers)}
    return found
