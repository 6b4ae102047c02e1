"""docker-archive as docker wrote it before 1.10, and beside the newer form until 25.

    repositories               {"app": {"1": ID}}: the topmost layer of app:1
    ID/json                    a layer's configuration; its "parent" is the ID below it
    ID/layer.tar               its files

Here each layer carries a configuration, and the topmost one's counts. Digests there are none: they
are computed as the archive is read. Source: docker's image/spec/v1.md.
"""

import json
import re
from typing import Any

from minirun.core.errors import ImageError
from rootfs_tools.archives.docker import DockerImage, hash_file, layer_descriptor
from rootfs_tools.archives.files import ImageFiles, read
from rootfs_tools.image_spec import DOCUMENT_LIMIT, LAYER_LIMIT, Descriptor, object_of

_REPOSITORIES = "repositories"
_ID = re.compile("[0-9a-f]{64}")


def is_legacy(files: ImageFiles) -> bool:
    """Return True if this is an archive of docker's old form."""
    return files.has(_REPOSITORIES)


def images(files: ImageFiles) -> list[tuple[str, str]]:
    """Return the name and the topmost layer's ID of each image. Raises ImageError."""
    found = _object(files, _REPOSITORIES)
    rows = []
    for name, tags in found.items():
        for tag, top in tags.items() if isinstance(tags, dict) else ():
            rows.append((f"{name}:{tag}", _checked(files, top)))
    return rows


def source(files: ImageFiles, top: str) -> DockerImage:
    """Return the `Source` of the image whose topmost layer is `top`. Raises ImageError."""
    chain = _chain(files, top)
    layers: list[tuple[str, Descriptor]] = []
    diff_ids, history = [], []
    for layer_id, each in chain:
        empty = each.get("throwaway") is True
        history.append(_history(each, empty))
        if not empty:
            path = f"{layer_id}/layer.tar"
            diff_ids.append(hash_file(files, path))
            layers.append((path, layer_descriptor(files, path, diff_ids[-1])))
    last = chain[-1][1]
    config = {
        "architecture": last.get("architecture") or "amd64", "os": last.get("os") or "linux",
        "created": last.get("created") or "", "config": last.get("config") or {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids}, "history": history,
    }  # fmt: skip
    return DockerImage(files, json.dumps(config, separators=(",", ":")).encode(), layers)


def _chain(files: ImageFiles, top: str) -> list[tuple[str, dict[str, Any]]]:
    """Return ID and configuration of each layer, lowest first."""
    chain: list[tuple[str, dict[str, Any]]] = []
    layer_id = top
    while layer_id:
        if len(chain) == LAYER_LIMIT:
            raise ImageError(
                f"{files.name}: more than {LAYER_LIMIT} layers, or a circle of parents"
            )
        each = _object(files, f"{layer_id}/json")
        chain.append((layer_id, each))
        layer_id = _checked(files, each["parent"]) if each.get("parent") else ""
    return chain[::-1]


def _history(each: dict[str, Any], empty: bool) -> dict[str, Any]:
    made = each.get("container_config")
    command = made.get("Cmd") if isinstance(made, dict) else None
    words = command if isinstance(command, list) else []
    row = {
        "created": each.get("created") or "", "comment": each.get("comment") or "",
        "created_by": " ".join(word for word in words if isinstance(word, str)),
    }  # fmt: skip
    return row | ({"empty_layer": True} if empty else {})


def _checked(files: ImageFiles, layer_id: object) -> str:
    """Refuse what would be a path (CVE-2014-9358). Raises ImageError."""
    if not isinstance(layer_id, str) or not _ID.fullmatch(layer_id):
        raise ImageError(f"{files.name}: {str(layer_id)[:80]!r} is no id of a layer")
    return layer_id


def _object(files: ImageFiles, name: str) -> dict[str, Any]:
    return object_of(read(files, name, DOCUMENT_LIMIT), f"{files.name}: {name}")
