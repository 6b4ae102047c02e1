"""The mounts of a container, out of the kernel's own list.

An overlay's options name its layers; those of an image are named by the image.
"""

import os
import re

from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.keeping import places
from minirun.core.keeping.numbers import whole
from minirun.core.kernel import mountinfo
from minirun.core.kernel.mountinfo import Mount
from minirun.faces.inspect.document import LayerFacts, MountFacts, OverlayFacts

_IMAGE = re.compile(r"/images/(.+)/layers/(\d+)$")
_SHARED = re.compile(r"/layers/[0-9a-f]{64}/fs$")
"""A layer of an image's own, and one that images share (minirun.image.store)."""


def tree(container: Container, pid: int) -> list[MountFacts]:
    """Return the mounts that process `pid` sees, parents before children. Raises OSError."""
    masked = set(container.config.linux.get("maskedPaths") or ())
    rows = [_row(container, mount) for mount in mountinfo.read(pid)]
    below: dict[int, list[MountFacts]] = {}
    known = {row["id"] for row in rows}
    for row in rows:
        row["masked"] = row["path"] in masked
        has_parent = row["parent"] in known and row["parent"] != row["id"]
        parent = row["parent"] if has_parent else 0
        below.setdefault(parent, []).append(row)

    found: list[MountFacts] = []
    waiting = below.pop(0, [])[::-1]
    while waiting:
        row = waiting.pop()
        found.append(row)
        for inner in reversed(below.pop(row["id"], [])):
            inner["depth"] = row["depth"] + 1
            waiting.append(inner)
    return found


def _row(container: Container, mount: Mount) -> MountFacts:
    row: MountFacts = {
        "id": mount.mount_id, "parent": mount.parent, "device": mount.device, "root": mount.root,
        "path": mount.mount_point, "type": mount.fs_type, "source": mount.source,
        "options": mount.options.split(","), "propagation": list(mount.propagation),
        "superOptions": mount.super_options, "masked": False, "depth": 0,
    }  # fmt: skip
    if mount.fs_type == "overlay":
        row["layers"] = _layers(container, mount.super_options)
    return row


def _layers(container: Container, options: str) -> OverlayFacts:
    """Return an overlay's layers: `lower`, topmost first, each with its image; `upper`."""
    lower: list[str] = []
    found: dict[str, str] = {}
    for option in re.split(r"(?<!\\),", mountinfo.unescape(options)):
        key, _, value = option.partition("=")
        if key in ("lowerdir", "lowerdir+"):
            lower += [_unescape(path) for path in re.split(r"(?<!\\):", value) if path]
        found[key] = _unescape(value)
    return {
        "lower": [_layer(container, path) for path in lower],
        "upper": found.get("upperdir", ""),
        "volatile": "volatile" in found,
    }


def _unescape(path: str) -> str:
    return re.sub(r"\\(.)", r"\1", path)


def _layer(container: Container, path: str) -> LayerFacts:
    """Return a layer with the image that it is of; a user namespace sees id-mapped copies."""
    mapped = path.startswith(f"{container.directory}/{places.LOWER}/")
    layers = container.config.layers
    number = whole(os.path.basename(path), 0, len(layers) - 1)
    if mapped and number is not None:
        path = layers[number]
    own = _IMAGE.search(path)
    if path in layers and (own or _SHARED.search(path)):
        name = docker_record.of(container.record).image or ""
        return {"path": path, "image": name, "layer": layers.index(path), "idMapped": mapped}
    return {
        "path": path, "image": own[1] if own else "",
        "layer": int(own[2]) if own else None, "idMapped": mapped,
    }  # fmt: skip
