"""Images of the store as an archive that docker, podman and skopeo read.

    docker-archive   manifest.json, one configuration for each image, plain layers
    oci-archive      an OCI layout in one tar archive; oci-dir: as a folder

An image that was pulled keeps manifest and layers as they came, so its digest stays. Of one that
was made here the layers are packed, always to the same bytes: saved twice, it has one digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, NamedTuple, Protocol

from minirun.core.errors import ImageError
from minirun.image import store as shelf
from rootfs_tools import catalogue
from rootfs_tools.archives.layout import FULL_NAME, REF_NAME, path_of
from rootfs_tools.blobs import Blobs
from rootfs_tools.compression import decompressed
from rootfs_tools.grammar import parse as parse_reference
from rootfs_tools.image_spec import (  # fmt: skip
    INDEXES,
    MANIFESTS,
    OCI_LAYER,
    Descriptor,
    Manifest,
    digest_of,
    manifest_of,
    parse,
    parse_config,
    written,
)
from rootfs_tools.tar.pack import pack_layer, pack_tree
from rootfs_tools.tar.stream import Member
from rootfs_tools.tar.writer import TarWriter

FORMATS = ("docker-archive", "oci-archive", "oci-dir")
_CHUNK = 1 << 20


class SavedLayer(NamedTuple):
    """A layer: what it is, and its bytes."""

    descriptor: Descriptor
    diff_id: str
    fd: int

    def opened(self) -> io.BufferedReader:
        """Open its file, with a position of its own; it may have no name. Raises OSError."""
        return open(f"/proc/self/fd/{self.fd}", "rb")


class SavedImage(NamedTuple):
    """All of an image that an archive needs."""

    name: str
    """With its registry: docker.io/library/app:1."""
    manifest_type: str
    manifest: bytes
    config: bytes
    layers: tuple[SavedLayer, ...]


class SavedSource:
    """An image of the store as a `Source`: for another name of it, or for a registry."""

    def __init__(self, image: SavedImage, name: str) -> None:
        self.image, self.name = image, name

    def root(self) -> tuple[Descriptor, bytes]:
        """Return the manifest."""
        data = self.image.manifest
        return Descriptor(self.image.manifest_type, digest_of(data), len(data)), data

    def document(self, wanted: Descriptor) -> bytes:
        """Return the configuration."""
        return self.image.config

    @contextmanager
    def blob(self, wanted: Descriptor, offset: int = 0) -> Iterator[BinaryIO]:
        """Open a layer, with a position of its own. Raises OSError."""
        layers = {layer.descriptor.digest: layer for layer in self.image.layers}
        with layers[wanted.digest].opened() as file:
            file.seek(offset)
            yield file


class ArchiveTarget(Protocol):
    """Where the files of an archive go."""

    def put(self, name: str, size: int, content: BinaryIO) -> None:
        """Write a file; one that is there already is the same."""


class TarTarget:
    """A tar archive."""

    def __init__(self, stream: BinaryIO) -> None:
        self.writer = TarWriter(stream)
        self._there: set[str] = set()

    def put(self, name: str, size: int, content: BinaryIO) -> None:
        """Write a file."""
        if name not in self._there:
            self._there.add(name)
            self.writer.add(Member(name, "file", 0o644, 0, 0, size, 0, "", (0, 0), {}), content)


class FolderTarget:
    """A folder, made by the caller."""

    def __init__(self, path: str) -> None:
        self._path = path

    def put(self, name: str, size: int, content: BinaryIO) -> None:
        """Write a file. Raises OSError."""
        path = f"{self._path}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            while chunk := content.read(_CHUNK):
                file.write(chunk)


@contextmanager
def collected(store: str, names: list[str]) -> Iterator[list[SavedImage]]:
    """Yield all that is to be written of the images of these names. Raises ImageError, OSError."""
    with ExitStack() as stack:
        yield [_image(store, name, stack) for name in names]


def write(images: list[SavedImage], form: str, target: ArchiveTarget) -> None:
    """Write images in one of FORMATS. Raises ImageError, OSError."""
    if form == "docker-archive":
        _write_docker(images, target)
    else:
        _write_layout(images, target, tags=form == "oci-dir" and len(images) == 1)


def _write_docker(images: list[SavedImage], target: ArchiveTarget) -> None:
    rows = []
    for image in images:
        config = f"{digest_of(image.config).removeprefix('sha256:')}.json"
        layers = [f"{layer.diff_id.removeprefix('sha256:')}/layer.tar" for layer in image.layers]
        for path, layer in zip(layers, image.layers, strict=True):
            _put_plain(target, path, layer)
        _put(target, config, image.config)
        name = parse_reference(image.name)
        rows.append({"Config": config, "RepoTags": [str(name)], "Layers": layers})
    _put(target, "manifest.json", written(rows))


def _put_plain(target: ArchiveTarget, path: str, layer: SavedLayer) -> None:
    """Write a layer that is not compressed: old versions of docker load no other."""
    with layer.opened() as source:
        plain = decompressed(source)
        if plain is source:
            target.put(path, layer.descriptor.size, source)
            return
        with tempfile.TemporaryFile() as copy:
            while chunk := plain.read(_CHUNK):
                copy.write(chunk)
            size = copy.tell()
            copy.seek(0)
            target.put(path, size, copy)


def _write_layout(images: list[SavedImage], target: ArchiveTarget, *, tags: bool) -> None:
    rows = []
    for image in images:
        for layer in image.layers:
            with layer.opened() as file:
                target.put(path_of(layer.descriptor.digest), layer.descriptor.size, file)
        for data in (image.config, image.manifest):
            _put(target, path_of(digest_of(data)), data)
        short = parse_reference(image.name).tag if tags else image.name
        top = Descriptor(image.manifest_type, digest_of(image.manifest), len(image.manifest))
        rows.append(top.row() | {"annotations": {FULL_NAME: image.name, REF_NAME: short}})
    index = {"schemaVersion": 2, "mediaType": INDEXES[0], "manifests": rows}
    _put(target, "index.json", written(index))
    _put(target, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')


def _put(target: ArchiveTarget, name: str, data: bytes) -> None:
    target.put(name, len(data), io.BytesIO(data))


def _image(store: str, name: str, stack: ExitStack) -> SavedImage:
    image = catalogue.resolve(store, name)
    details = catalogue.details(store, image.name)
    reference = parse_reference(image.name)
    full = f"{reference.domain}/{reference.path}:{reference.tag}"
    return _as_it_came(store, full, details, stack) or _packed(full, image, details, stack)


def documents(store: str, details: shelf.ImageDetails) -> tuple[str, bytes, bytes] | None:
    """Return type and bytes of an image's manifest, and its configuration, as they came.

    None for an image that was made here, or whose documents are not there. Raises ImageError.
    """
    blobs, digest = Blobs(store), details.get("manifest", "")
    if not digest or not blobs.has(digest):
        return None
    data = blobs.document(digest)
    media_type = json.loads(data).get("mediaType") or MANIFESTS[0]
    manifest = parse(media_type, data)
    if not isinstance(manifest, Manifest) or not blobs.has(manifest.config.digest):
        return None
    return media_type, data, blobs.document(manifest.config.digest)


def _as_it_came(
    store: str, name: str, details: shelf.ImageDetails, stack: ExitStack
) -> SavedImage | None:
    """Return an image of the blobs that were pulled; None if they are not all there."""
    found = documents(store, details)
    if not found:
        return None
    media_type, data, config = found
    blobs, manifest = Blobs(store), parse(media_type, data)
    assert isinstance(manifest, Manifest)
    if not all(blobs.has(each.digest) for each in manifest.layers):
        return None
    layers = []
    for each, diff_id in zip(manifest.layers, parse_config(config).diff_ids, strict=True):
        fd = stack.enter_context(open(blobs.path(each.digest), "rb")).fileno()
        if os.fstat(fd).st_size != each.size:
            raise ImageError(f"{each.digest} is damaged in the store", "pull the image again")
        layers.append(SavedLayer(each, diff_id, fd))
    return SavedImage(name, media_type, data, config, tuple(layers))


def _packed(
    name: str, image: shelf.Image, details: shelf.ImageDetails, stack: ExitStack
) -> SavedImage:
    """Return an image whose layers are packed now."""
    layers = []
    for number, path in enumerate(image.layers):
        file = stack.enter_context(tempfile.TemporaryFile())
        (pack_layer if number else pack_tree)(path, file)
        size = file.tell()
        file.seek(0)  # and all that is in Python's buffer goes into the file
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        layers.append(SavedLayer(Descriptor(OCI_LAYER, digest, size), digest, file.fileno()))
    config = written(config_of(image, details, [layer.diff_id for layer in layers]))
    manifest = manifest_of(config, [layer.descriptor for layer in layers])
    return SavedImage(name, MANIFESTS[0], manifest, config, tuple(layers))


def config_of(
    image: shelf.Image, details: shelf.ImageDetails, diff_ids: list[str]
) -> dict[str, Any]:
    """Return the configuration of an image that was made here, as image-spec has it."""
    config = {
        "Env": list(image.env), "Entrypoint": list(image.entrypoint), "Cmd": list(image.cmd),
        "WorkingDir": image.workdir, "User": image.user, "Labels": details.get("labels", {}),
        "ExposedPorts": {port: {} for port in details.get("ports", [])},
        "Volumes": {path: {} for path in details.get("volumes", [])},
        "StopSignal": details.get("stop_signal", ""),
        "Healthcheck": details.get("healthcheck", {}),
    }  # fmt: skip
    created, origin = details.get("created", ""), image.origin
    return {
        "architecture": details.get("architecture", ""), "os": "linux", "created": created,
        "config": {key: value for key, value in config.items() if value},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created": created, "created_by": origin} for _ in diff_ids],
    }  # fmt: skip
