"""`minirun image inspect`, `image diff`, `diff ID`: what is in an image, and what differs."""

from __future__ import annotations

import json
from typing import Any

from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.core.errors import UsageError, from_os
from minirun.core.keeping import places
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.faces.show.template import formats
from minirun.faces.show.template.values import Fields
from minirun.image import store as shelf
from minirun.running import lookup
from rootfs_tools import catalogue, compare
from rootfs_tools.archives import saving
from rootfs_tools.cli.images import exactly
from rootfs_tools.image_spec import digest_of


class ImageInspect(Flags):
    """Print all that is known of images."""

    command = "image inspect"
    format: str = flag("-f")


class ImageDiff(Flags):
    """Show how two images differ."""

    command = "image diff"
    json: bool


def main(args: list[str], settings: Settings) -> int:
    """Print a JSON list with a row for each image, as docker has it; return 0. Raises ImageError.

    Nothing is printed if one of them is not there.
    """
    flags = ImageInspect(args)
    names = flags.args
    if not names:
        text = '"image inspect" requires at least 1 argument'
        raise UsageError(text, "minirun image inspect IMAGE…", 1)
    rows = [Fields(inspected(settings.store, name)) for name in names]
    return write(formats.documents(flags.format, rows))


def inspected(store: str, name: str) -> dict[str, Any]:
    """Return all that is known of an image, with docker's names. Raises ImageError."""
    image = catalogue.resolve(store, name)
    details = catalogue.details(store, image.name)
    found = saving.documents(store, details)
    config = json.loads(found[2]) if found else saving.config_of(image, details, [])
    same = [row for row in shelf.list_images(store) if _is_same(row, details)]
    from_elsewhere = {f"{row['name']}@{row['digest']}" for row in same} if found else set()
    return {
        "Id": digest_of(found[2]) if found else image.digest,
        "RepoTags": sorted(f"{row['name']}:{row['tag']}" for row in same),
        "RepoDigests": sorted(from_elsewhere),
        "Comment": config.get("comment", ""), "Created": config.get("created", ""),
        "Config": config.get("config") or {}, "Architecture": config.get("architecture", ""),
        "Variant": config.get("variant", ""), "Os": config.get("os", ""),
        "Size": details.get("size", 0),
        "Annotations": json.loads(found[1]).get("annotations") or {} if found else {},
        "RootFS": {"Type": "layers", "Layers": (config.get("rootfs") or {}).get("diff_ids") or []},
        "Origin": image.origin, "Directories": list(image.layers),
    }  # fmt: skip


def _is_same(row: Any, details: Any) -> bool:
    """Return True if two names mean one image."""
    key = "manifest" if details.get("manifest") else "digest"
    return bool(row.get(key) == details[key])


def main_diff(args: list[str], settings: Settings) -> int:
    """Print what is added, changed and deleted from one image to another; return 0.

    Raises ImageError.
    """
    flags = ImageDiff(args)
    exactly(flags, 2, "minirun image diff IMAGE[#LAYER] IMAGE[#LAYER]")
    old, new = (compare.stack(settings.store, name) for name in flags.args)
    try:
        rows = sorted(compare.compared(old, new), key=lambda change: change.path)
    except OSError as error:
        raise from_os(error, "image diff") from None
    return _show(rows, flags.json)


def changes(name: str, settings: Settings, as_json: bool) -> int:
    """Print what a container has done to its image's files, as docker's `diff` does; return 0.

    Raises StateError, UsageError for a container without layers.
    """
    container = lookup.load(*roots.locate(settings, name))
    if not container.config.layers:
        text = f"container {container.id} has no layer of its own: it writes into its bundle"
        raise UsageError(text, "diff ID --stage N shows what a stage has changed", 1)
    upper = f"{container.directory}/{places.UPPER}"
    try:
        return _show(list(compare.changed(upper, container.config.layers)), as_json)
    except OSError as error:
        raise from_os(error, "diff") from None


def _show(rows: list[compare.FileChange], as_json: bool) -> int:
    if as_json:
        return write(json.dumps([row._asdict() for row in rows], indent=2) + "\n")
    return show(f"{row.kind} {row.path}" for row in rows)
