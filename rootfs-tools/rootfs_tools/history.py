"""How an image was made: one row for each step, with what its layer added, changed and removed.

The steps are the configuration's history (image-spec config.md); which of them made a layer, it
says itself. The files are counted in the layers as they lie in the store, over those below.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.image.store import LayerOrigin
from rootfs_tools import catalogue
from rootfs_tools.archives.saving import documents
from rootfs_tools.image_spec import History, parse_config
from rootfs_tools.layers import FS, Layers
from rootfs_tools.lower import Lower, is_whiteout


class Changes(NamedTuple):
    """What one layer does to those below it. Directories are not counted."""

    added: int
    changed: int
    removed: int
    size: int
    """Bytes of the files in it."""


class HistoryRow(NamedTuple):
    """One row."""

    created: str
    created_by: str
    comment: str
    changes: Changes | None
    """None for a step that changed the configuration alone."""


def origins(store: str, name: str, layers: Sequence[str]) -> list[LayerOrigin]:
    """Return what made each of these layers, which were those of the image `name`; no tree is read.

    Raises OSError.
    """
    try:
        image = catalogue.resolve(store, name)
        details = catalogue.details(store, name)
        made = [row.created_by for row in _history(store, name) if not row.empty_layer]
    except ImageError:
        image, details, made = None, {}, []
    here = image.layers if image else ()
    if len(made) != len(here):
        made = [image.origin if image else "" for _ in here]
    known = dict(zip(here, made, strict=True))
    found = []
    for path in layers:
        own = details.get("size", 0) if here == (path,) else 0
        found.append(LayerOrigin(path, _size(store, path) or own, known.get(path, "")))
    return found


def _size(store: str, path: str) -> int:
    """Return the size of a shared layer, as it was stored."""
    parts = path.split("/")
    try:
        layer = Layers(store).find(f"sha256:{parts[-2]}") if parts[-1] == FS else None
    except ImageError:
        layer = None
    return layer.size if layer else 0


def steps(store: str, name: str) -> list[HistoryRow]:
    """Return the steps of an image, lowest first. Raises ImageError, OSError."""
    image = catalogue.resolve(store, name)
    counted = [changes(path, image.layers[:number]) for number, path in enumerate(image.layers)]
    rows = _history(store, name)
    if sum(not row.empty_layer for row in rows) != len(counted):  # it does not fit, or is missing
        created = catalogue.details(store, image.name).get("created", "")
        rows = tuple(History(created, image.origin, False) for _ in counted)
    layers = iter(counted)
    return [
        HistoryRow(
            row.created, row.created_by, row.comment, None if row.empty_layer else next(layers)
        )
        for row in rows
    ]


def changes(layer: str, below: Sequence[str]) -> Changes:
    """Count what a layer does to those below it, lowest first. Raises OSError."""
    added = changed = removed = size = 0
    with closing(Lower(below)) as lower:
        for folder, directories, names in os.walk(layer):
            links = [name for name in directories if os.path.islink(f"{folder}/{name}")]
            for name in names + links:
                path = f"{folder}/{name}"
                info = os.lstat(path)
                size += info.st_size if stat.S_ISREG(info.st_mode) else 0
                if is_whiteout(info):
                    removed += 1
                elif lower.find(os.path.relpath(path, layer)):
                    changed += 1
                else:
                    added += 1
    return Changes(added, changed, removed, size)


def _history(store: str, name: str) -> tuple[History, ...]:
    try:
        found = documents(store, catalogue.details(store, name))
        return parse_config(found[2]).history if found else ()
    except ImageError:
        return ()
