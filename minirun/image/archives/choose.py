"""From what a tag names to one image: through indexes, each document checked as it is read.

`image unpack` runs nothing, so an image of another platform is taken if it is the only one. Of
several the platform decides, as for `pull`. What is neither index nor manifest is passed over:
image-spec image-index.md wants it so.
"""

from typing import NamedTuple

from minirun.core.errors import ImageError
from minirun.image.oci import (
    DOCUMENT_LIMIT,
    INDEXES,
    MANIFESTS,
    Descriptor,
    ImageConfig,
    Index,
    Manifest,
    Platform,
    Source,
    digest_of,
    parse,
    parse_config,
)  # fmt: skip
from minirun.image.take import fits

_DEEPEST, _MOST = 8, 200
"""Indexes in indexes, and documents in all: more is an attack."""


class Chosen(NamedTuple):
    """One image."""

    descriptor: Descriptor
    """Of its manifest."""
    manifest: Manifest
    config: ImageConfig


def choose(source: Source, wanted: Platform, *, exact: bool = False) -> Chosen:
    """Return the image of `source` for a platform; the only one, unless it is to be `exact`.

    Raises ImageError: none fits, or a document is not what its descriptor says.
    """
    root, data = source.root()
    check(source, root, data)
    found = {each.digest: (each, platform) for each, platform in _leaves(source, root, data)}
    rows = list(found.values())
    if len(rows) > 1 or exact:
        named = [(each, platform or _platform(source, each)) for each, platform in rows]
        rows = [row for row in named if row[1] == wanted] or [
            row for row in named if fits(row[1], wanted)
        ]
        if not rows:
            there = ", ".join(sorted({str(platform) for _, platform in named}))
            text = f"no matching manifest for {wanted} in the manifest list entries"
            raise ImageError(text, f"there are {there}")
    if not rows:
        raise ImageError(f"{source.name}: the index names no image")
    return _image(source, rows[0][0])


def check(source: Source, wanted: Descriptor, data: bytes) -> None:
    """Raise ImageError if a document is not what its descriptor says."""
    found = digest_of(data)
    if found != wanted.digest or len(data) != wanted.size:
        text = f"{source.name}: {wanted.digest}: wrong content: is {found}"
        raise ImageError(f"{text}, {len(data)} bytes of {wanted.size}")


def document(source: Source, wanted: Descriptor) -> bytes:
    """Return a document, checked. Raises ImageError."""
    if wanted.size > DOCUMENT_LIMIT:
        raise ImageError(f"{source.name}: a document of {wanted.size} bytes")
    data = source.document(wanted)
    check(source, wanted, data)
    return data


def _leaves(
    source: Source, root: Descriptor, data: bytes
) -> list[tuple[Descriptor, Platform | None]]:
    """Return every manifest that can be reached, with the platform that an index gives it."""
    leaves: list[tuple[Descriptor, Platform | None]] = []
    pending: list[tuple[Descriptor, Platform | None, bytes, int]] = [(root, None, data, 0)]
    seen = 1
    while pending:
        each, platform, data, depth = pending.pop(0)
        if each.media_type in MANIFESTS:
            leaves.append((each, platform))
            continue
        found = parse(each.media_type, data)
        if depth == _DEEPEST or not isinstance(found, Index):
            raise ImageError(f"{source.name}: an index in an index, {depth} times")
        for inner, inner_platform in found.manifests:
            seen += 1
            if seen > _MOST:
                raise ImageError(f"{source.name}: indexes of more than {_MOST} documents")
            is_index = inner.media_type in INDEXES
            if is_index or inner.media_type in MANIFESTS:
                data = document(source, inner) if is_index else b""
                pending.append((inner, inner_platform, data, depth + 1))
    return leaves


def _platform(source: Source, descriptor: Descriptor) -> Platform:
    return _image(source, descriptor).config.platform


def _image(source: Source, descriptor: Descriptor) -> Chosen:
    manifest = parse(descriptor.media_type, document(source, descriptor))
    assert isinstance(manifest, Manifest)
    config = parse_config(document(source, manifest.config))
    if len(config.diff_ids) != len(manifest.layers):
        counts = f"{len(manifest.layers)} layers, and {len(config.diff_ids)} diff_ids"
        raise ImageError(f"{source.name}: the manifest has {counts}")
    return Chosen(descriptor, manifest, config)
