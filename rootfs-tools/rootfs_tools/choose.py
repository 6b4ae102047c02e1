"""From what a reference names to one image: through indexes, each document checked as it is read.

Of several images the platform decides, by what the index says of each; if it says nothing, by the
image's own configuration. What is neither index nor manifest is passed over: image-spec
image-index.md wants it so. So is a manifest of no image: a chart or a signature beside an image.
"""

from collections.abc import Sequence
from typing import NamedTuple

from minirun.core.errors import ImageError
from rootfs_tools.image_spec import (  # fmt: skip
    DOCUMENT_LIMIT,
    INDEXES,
    MANIFESTS,
    Descriptor,
    ImageConfig,
    Index,
    Manifest,
    NoImage,
    Platform,
    Source,
    digest_of,
    parse,
    parse_config,
)

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
    check(source.name, root, data)
    rows = list({each.digest: (each, of) for each, of in _leaves(source, root, data)}.values())
    if not rows:
        raise ImageError(f"{source.name}: the index names no image")
    if len(rows) == 1 and not exact:
        return _image(source, rows[0][0])
    named = [(each, platform) for each, platform in rows if platform]
    found = pick(named, wanted)
    if not found:
        named = _platforms(source, rows)
        found = pick(named, wanted)
    if not found:
        there = ", ".join(sorted({str(platform) for _, platform in named}))
        raise no_platform(wanted, f"there are {there}")
    return _image(source, found)


def pick(rows: Sequence[tuple[Descriptor, Platform]], wanted: Platform) -> Descriptor | None:
    """Return the first manifest for a platform, the same variant before another; None for none."""
    same = [each for each, platform in rows if platform == wanted]
    return next(iter(same or [each for each, platform in rows if fits(platform, wanted)]), None)


def fits(found: Platform, wanted: Platform) -> bool:
    """Return True if an image for `found` runs on `wanted`; no variant means any."""
    same = found[:2] == wanted[:2]
    return same and (not found.variant or not wanted.variant or found.variant <= wanted.variant)


def no_platform(wanted: Platform, hint: str) -> ImageError:
    """Return docker's line for an image that is not for that platform."""
    return ImageError(f"no matching manifest for {wanted} in the manifest list entries", hint)


def check(name: str, wanted: Descriptor, data: bytes) -> None:
    """Raise ImageError if a document of the source `name` is not what its descriptor says."""
    found = digest_of(data)
    if found != wanted.digest or len(data) != wanted.size:
        text = f"{name}: {wanted.digest}: wrong content: is {found}"
        raise ImageError(f"{text}, {len(data)} bytes of {wanted.size}")


def document(source: Source, wanted: Descriptor) -> bytes:
    """Return a document, checked. Raises ImageError."""
    if wanted.size > DOCUMENT_LIMIT:
        raise ImageError(f"{source.name}: a document of {wanted.size} bytes")
    data = source.document(wanted)
    check(source.name, wanted, data)
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


def _platforms(
    source: Source, rows: Sequence[tuple[Descriptor, Platform | None]]
) -> list[tuple[Descriptor, Platform]]:
    """Return all images with their platforms, the index's own before the configurations'.

    Raises NoImage if there is none, ImageError.
    """
    found = [(each, platform) for each, platform in rows if platform]
    other: NoImage | None = None
    for each in [each for each, platform in rows if not platform]:
        try:
            found.append((each, _image(source, each).config.platform))
        except NoImage as error:
            other = error
    if other and not found:
        raise other
    return found


def _image(source: Source, descriptor: Descriptor) -> Chosen:
    manifest = parse(descriptor.media_type, document(source, descriptor))
    assert isinstance(manifest, Manifest)
    config = parse_config(document(source, manifest.config))
    if len(config.diff_ids) != len(manifest.layers):
        counts = f"{len(manifest.layers)} layers, and {len(config.diff_ids)} diff_ids"
        raise ImageError(f"{source.name}: the manifest has {counts}")
    return Chosen(descriptor, manifest, config)
