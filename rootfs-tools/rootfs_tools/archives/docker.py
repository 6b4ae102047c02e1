"""docker-archive: what `docker save` and `podman save` write, and what docker loads.

    manifest.json              [{"Config": "HEX.json", "RepoTags": ["app:1"], "Layers": [PATH…]}]
    HEX.json                   the configuration; its digest is the image's id
    PATH                       a layer, seldom compressed; docker's old ones may be links

It has no OCI manifest, so one is made here: the same archive always gives the same one. The names
in it are the archive's own: they are looked up among its members, never on the disk.
Source: docker's image/spec/v1.2.md, "Combined Image JSON + Filesystem Changeset Format".
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple

from minirun.core.errors import ImageError
from rootfs_tools.archives.files import ImageFiles, read
from rootfs_tools.image_spec import (  # fmt: skip
    DOCUMENT_LIMIT,
    LAYER_LIMIT,
    MANIFESTS,
    OCI_LAYER,
    Descriptor,
    digest_of,
    manifest_of,
    parse_config,
)

_MANIFEST = "manifest.json"
_MOST_IMAGES = 1000


class ManifestEntry(NamedTuple):
    """One image of manifest.json."""

    config: str
    """The name of the configuration's file."""
    names: tuple[str, ...]
    layers: tuple[str, ...]
    """The names of the layers' files, lowest first."""


class DockerImage:
    """One image of an archive: a `Source`."""

    def __init__(
        self, files: ImageFiles, config: bytes, layers: Sequence[tuple[str, Descriptor]]
    ) -> None:
        """`layers`: each a file of the archive and what it is, lowest first."""
        self.name = files.name
        self._files = files
        self._places = {each.digest: path for path, each in layers}
        self._config = config
        self._root = manifest_of(config, [each for _, each in layers])

    def root(self) -> tuple[Descriptor, bytes]:
        """Return the manifest that was made of manifest.json."""
        return Descriptor(MANIFESTS[0], digest_of(self._root), len(self._root)), self._root

    def document(self, wanted: Descriptor) -> bytes:
        """Return the manifest or the configuration."""
        return self._root if wanted == self.root()[0] else self._config

    def blob(self, wanted: Descriptor, offset: int = 0) -> AbstractContextManager[BinaryIO]:
        """Open a layer for reading, from this byte on. Raises ImageError."""
        return self._files.open(self._places[wanted.digest], offset)


def is_docker(files: ImageFiles) -> bool:
    """Return True if this is an archive of docker's."""
    return files.has(_MANIFEST)


def images(files: ImageFiles) -> list[ManifestEntry]:
    """Return what manifest.json names. Raises ImageError."""
    try:
        found = json.loads(read(files, _MANIFEST, DOCUMENT_LIMIT))
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{files.name}: {_MANIFEST}: not JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ImageError(f"{files.name}: {_MANIFEST}: not a list of objects")
    if len(found) > _MOST_IMAGES:
        raise ImageError(f"{files.name}: {_MANIFEST}: more than {_MOST_IMAGES} images")
    return [_entry(files, each) for each in found]


def source(files: ImageFiles, entry: ManifestEntry) -> DockerImage:
    """Return the `Source` of one image. Raises ImageError."""
    config = read(files, entry.config, DOCUMENT_LIMIT)
    diff_ids = parse_config(config).diff_ids
    if len(diff_ids) != len(entry.layers):
        text = f"{_MANIFEST} names {len(entry.layers)} layers, {entry.config} {len(diff_ids)}"
        raise ImageError(f"{files.name}: {text}")
    layers: list[tuple[str, Descriptor]] = []
    for path, diff_id in zip(entry.layers, diff_ids, strict=True):
        layers.append((path, layer_descriptor(files, path, diff_id)))
    return DockerImage(files, config, layers)


def layer_descriptor(files: ImageFiles, path: str, diff_id: str) -> Descriptor:
    """Return what a layer's file is: its digest is its diff_id, unless it is compressed."""
    with files.open(path) as file:
        head = file.read(4)
    for magic, suffix in ((b"\x1f\x8b", "+gzip"), (b"\x28\xb5\x2f\xfd", "+zstd")):
        if head.startswith(magic):
            return Descriptor(OCI_LAYER + suffix, hash_file(files, path), files.size(path))
    return Descriptor(OCI_LAYER, diff_id, files.size(path))


def hash_file(files: ImageFiles, path: str) -> str:
    """Return the digest of a file. Raises ImageError."""
    sha256 = hashlib.sha256()
    with files.open(path) as file:
        while chunk := file.read(1 << 20):
            sha256.update(chunk)
    return f"sha256:{sha256.hexdigest()}"


def _entry(files: ImageFiles, each: Mapping[str, Any]) -> ManifestEntry:
    layers = _texts(files, each, "Layers")
    if len(layers) > LAYER_LIMIT:
        raise ImageError(f"{files.name}: {len(layers)} layers; OverlayFS takes {LAYER_LIMIT}")
    config = each.get("Config")
    if not isinstance(config, str) or not config:
        raise ImageError(f"{files.name}: {_MANIFEST}: Config is missing")
    return ManifestEntry(config, _texts(files, each, "RepoTags"), layers)


def _texts(files: ImageFiles, each: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = each.get(key) or []
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ImageError(f"{files.name}: {_MANIFEST}: {key} is no list of texts")
    return tuple(found)
