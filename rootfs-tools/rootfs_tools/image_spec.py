"""The documents of an image, as OCI's image-spec and docker's older form write them.

A reference leads to an index (one manifest for each platform) or to a manifest; the manifest names
a configuration (how a container of it is started) and the layers, archives in which only the
differences to the layer below stand. Each names what it means by a descriptor: media type, digest
and size, so nothing can be changed on the way.

All of it is written by strangers: sizes, counts and types are checked here, once, and the rest of
the room works with these records. Sources: image-spec descriptor.md, image-index.md, manifest.md,
config.md; docker's "Image Manifest Version 2, Schema 2".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple, Protocol

from minirun.core.errors import ImageError

DOCUMENT_LIMIT = 4 << 20
"""Bytes of an index, a manifest or a configuration: what registries themselves accept."""
LAYER_LIMIT = 500
"""OverlayFS takes no more (OVL_MAX_STACK)."""
BLOB_LIMIT = 1 << 40
_INT64 = 1 << 63

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CONFIGS = (OCI_CONFIG, "application/vnd.docker.container.image.v1+json")
_LAYERS = (
    OCI_LAYER, "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
)  # fmt: skip
_COMPRESSED = ("", "+gzip", "+zstd", ".gzip", ".zstd")

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


class NoImage(ImageError):
    """A manifest of something else: a chart, a signature, an attestation."""


class Descriptor(NamedTuple):
    """What one document says of another, or of a blob."""

    media_type: str
    digest: str
    """sha256:HEX: the only algorithm that registries use."""
    size: int
    """Bytes."""
    annotations: Mapping[str, str] = {}

    def row(self) -> dict[str, Any]:
        """Return it as a document has it, without annotations."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}

    def as_oci(self) -> Descriptor:
        """Return a layer by OCI's name of its type, which docker calls otherwise."""
        kind = next((kind for kind in ("gzip", "zstd") if self.media_type.endswith(kind)), "")
        return self._replace(media_type=f"{OCI_LAYER}+{kind}" if kind else OCI_LAYER)


class Platform(NamedTuple):
    """What an image runs on, in Go's words: linux/amd64, linux/arm64/v8."""

    system: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


class Index(NamedTuple):
    """An image for several platforms."""

    manifests: tuple[tuple[Descriptor, Platform | None], ...]


class Manifest(NamedTuple):
    """One image: its configuration, and its layers, lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class History(NamedTuple):
    """How one layer was made; an empty one changed the configuration alone."""

    created: str
    created_by: str
    empty_layer: bool
    comment: str = ""


class ImageConfig(NamedTuple):
    """The configuration: how a container is started, and which layers it is made of."""

    platform: Platform
    diff_ids: tuple[str, ...]
    """Digests of the layers, not compressed, lowest first."""
    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: str = ""
    user: str = ""
    ports: tuple[str, ...] = ()
    """What it exposes, as 80/tcp."""
    volumes: tuple[str, ...] = ()
    stop_signal: str = ""
    healthcheck: Mapping[str, Any] = {}
    """docker's own: Test, a list of words; times in nanoseconds. It is kept, and never run."""
    labels: Mapping[str, str] = {}
    created: str = ""
    history: tuple[History, ...] = ()
    raw: Mapping[str, Any] = {}
    """The whole document, for what is kept and passed on."""


class Source(Protocol):
    """Where an image comes from: a registry, or a layout or archive on disk.

    A source only fetches. Digests and sizes are checked by the one that takes the image into the
    store, whatever the source says. All three raise ImageError.
    """

    name: str
    """What errors, events and the image's origin call it: docker.io/library/ubuntu, app.tar."""

    def root(self) -> tuple[Descriptor, bytes]:
        """Return the index or manifest that the reference names."""

    def document(self, wanted: Descriptor) -> bytes:
        """Return an index, manifest or configuration; at most DOCUMENT_LIMIT bytes."""

    def blob(self, wanted: Descriptor, offset: int = 0) -> AbstractContextManager[BinaryIO]:
        """Open a layer for reading, from this byte on."""


def digest_of(data: bytes) -> str:
    """Return the digest of a document: sha256:HEX."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def written(document: object) -> bytes:
    """Return a document as JSON: the same one always has the same bytes."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def manifest_of(
    config: bytes, layers: Sequence[Descriptor], annotations: Mapping[str, str] | None = None
) -> bytes:
    """Return the manifest of a configuration and its layers, which are lowest first."""
    document: dict[str, Any] = {
        "schemaVersion": 2, "mediaType": MANIFESTS[0],
        "config": Descriptor(OCI_CONFIG, digest_of(config), len(config)).row(),
        "layers": [layer.row() for layer in layers],
    }  # fmt: skip
    return written(document if annotations is None else document | {"annotations": annotations})


def chain_ids(diff_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return a name for each layer together with all that lie below it (config.md, ChainID)."""
    found: list[str] = []
    for diff_id in diff_ids:
        found.append(digest_of(f"{found[-1]} {diff_id}".encode()) if found else diff_id)
    return tuple(found)


def parse(media_type: str, data: bytes) -> Index | Manifest:
    """Return the index or manifest that `data` holds.

    Raises ImageError: not JSON, of another type than it says, or beyond the limits.
    """
    document = object_of(data, "manifest")
    written = document.get("mediaType", media_type)
    if document.get("schemaVersion") != 2:
        hint = "schema 1 has no digests of what is in the layers: push it anew"
        raise ImageError(f"manifest: schemaVersion {document.get('schemaVersion')!r}", hint)
    if written != media_type or ("manifests" in document) == ("layers" in document):
        raise ImageError(f"manifest: it says that it is {written!r}, not {media_type!r}")
    if media_type in INDEXES:
        entries = _objects(document, "manifests")
        return Index(tuple((_descriptor(each), _platform(each)) for each in entries))
    if media_type not in MANIFESTS:
        raise NoImage(f"manifest: {media_type!r} is no image", "an image for containers")
    layers = tuple(_descriptor(each) for each in _objects(document, "layers"))
    if len(layers) > LAYER_LIMIT:
        raise ImageError(f"manifest: {len(layers)} layers; OverlayFS takes {LAYER_LIMIT}")
    config = document.get("config")
    if not isinstance(config, dict):
        raise ImageError("manifest: config is missing")
    return _image(Manifest(_descriptor(config), layers))


def _image(manifest: Manifest) -> Manifest:
    """Refuse what is no image: a signature, a chart, an encrypted layer. Raises NoImage."""
    if manifest.config.media_type not in _CONFIGS:
        text = f"manifest: a configuration of type {manifest.config.media_type!r}"
        raise NoImage(text, "it is no image for containers")
    known = {kind + suffix for kind in _LAYERS for suffix in _COMPRESSED}
    for layer in manifest.layers:
        if layer.media_type not in known:
            raise NoImage(f"manifest: a layer of type {layer.media_type!r}")
    return manifest


def parse_config(data: bytes) -> ImageConfig:
    """Return the configuration that `data` holds. Raises ImageError."""
    document = object_of(data, "image configuration")
    rootfs, config = _mapping(document, "rootfs"), _mapping(document, "config")
    if rootfs.get("type", "layers") != "layers":
        raise ImageError(f"image configuration: rootfs.type is {str(rootfs['type'])[:80]!r}")
    diff_ids = _strings(rootfs, "diff_ids")
    for digest in diff_ids:
        _checked(digest, "image configuration: rootfs.diff_ids")
    for key in ("Shell", "OnBuild"):  # a build takes them out of `raw`
        _strings(config, key)
    platform = Platform(
        _string(document, "os"), _string(document, "architecture"), _string(document, "variant")
    )
    return ImageConfig(
        platform, diff_ids,
        env=_strings(config, "Env"), entrypoint=_words(config, "Entrypoint"),
        cmd=_words(config, "Cmd"), workdir=_string(config, "WorkingDir"),
        user=_string(config, "User"), ports=tuple(_mapping(config, "ExposedPorts")),
        volumes=tuple(_mapping(config, "Volumes")),
        stop_signal=_string(config, "StopSignal"), labels=_texts(config, "Labels"),
        healthcheck=_healthcheck(_mapping(config, "Healthcheck")),
        created=_string(document, "created"),
        history=tuple(_history(each) for each in _objects(document, "history")), raw=document,
    )  # fmt: skip


def _healthcheck(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what docker knows of it. Source: moby's docker image specification, v1.3."""
    numbers = ("Interval", "Timeout", "StartPeriod", "StartInterval", "Retries")
    found = {key: entry[key] for key in numbers if type(entry.get(key)) is int}
    for key, number in found.items():
        if abs(number) >= _INT64:
            raise ImageError(f"Healthcheck: {key}: a number of more than 64 bits")
    return {"Test": list(test), **found} if (test := _strings(entry, "Test")) else {}


def _history(entry: Mapping[str, Any]) -> History:
    empty = entry.get("empty_layer") is True
    created, created_by = _string(entry, "created"), _string(entry, "created_by")
    return History(created, created_by, empty, _string(entry, "comment"))


def _descriptor(entry: Mapping[str, Any]) -> Descriptor:
    digest, size = _checked(entry.get("digest"), "manifest"), entry.get("size")
    if type(size) is not int or not 0 <= size <= BLOB_LIMIT:
        raise ImageError(f"manifest: {digest}: a size of {size!r}")
    return Descriptor(_string(entry, "mediaType"), digest, size, _texts(entry, "annotations"))


def _platform(entry: Mapping[str, Any]) -> Platform | None:
    found = entry.get("platform")
    if not isinstance(found, dict):
        return None
    parts = (_string(found, key) for key in ("os", "architecture", "variant"))
    return Platform(*parts)


def _checked(digest: object, where: str) -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ImageError(f"{where}: {str(digest)[:80]!r} is no sha256 digest")
    return digest


def object_of(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object that `data` is; errors call it `what`. Raises ImageError."""
    if len(data) > DOCUMENT_LIMIT:
        raise ImageError(f"{what}: more than {DOCUMENT_LIMIT} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{what}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ImageError(f"{what}: not an object")
    return found


def _string(entry: Mapping[str, Any], key: str) -> str:
    found = entry.get(key)
    if found is not None and not isinstance(found, str):
        raise ImageError(f"{key}: {str(found)[:80]!r} is no text")
    if found and "\0" in found:
        raise ImageError(f"{key}: a NUL byte in {found[:80]!r}")
    if found and any("\ud800" <= sign <= "\udfff" for sign in found):
        raise ImageError(f"{key}: half of a surrogate pair in {found[:80]!r}")
    return found or ""


def _strings(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = entry.get(key)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise ImageError(f"{key}: not a list")
    return tuple(_string({key: each}, key) for each in found)


def _words(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A command; docker's oldest images have one text for it."""
    found = entry.get(key)
    return (found,) if isinstance(found, str) else _strings(entry, key)


def _objects(entry: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = entry.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ImageError(f"{key}: not a list of objects")
    return found


def _mapping(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = entry.get(key)
    if found is not None and not isinstance(found, dict):
        raise ImageError(f"{key}: not an object")
    for name in found or ():
        _string({key: name}, key)
    return found or {}


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    found = _mapping(entry, key)
    return {name: _string(found, name) for name in found}
