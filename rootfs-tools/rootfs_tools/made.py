"""An image that is made here, as a `Source`: its layer's archive, perhaps on top of another image.

Configuration and manifest follow from what is in them, and from nothing else: no time of making,
no name of this machine. The layer stays a plain archive, since two versions of a compressor write
different bytes. So the same tree, with the same configuration, always has the same digest.
Sources: image-spec config.md, manifest.md, annotations.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple

from minirun.core.errors import UsageError
from minirun.core.keeping.numbers import whole
from minirun.core.rootfs.tree import remove_tree
from rootfs_tools import catalogue
from rootfs_tools.archives.saving import SavedImage, SavedLayer, SavedSource
from rootfs_tools.draft import DRAFT, hold, locked
from rootfs_tools.image_spec import (  # fmt: skip
    MANIFESTS,
    OCI_LAYER,
    Descriptor,
    digest_of,
    manifest_of,
    parse_config,
    written,
)
from rootfs_tools.take import this_platform

_LATEST = 253_402_300_799
"""The last second of the year 9999, which is the last that RFC 3339 can write."""


class NewImage(NamedTuple):
    """What an image is to be."""

    origin: str
    """What it truly is, in words."""
    created: int
    """Seconds since 1970: the date of what it is made of."""
    created_by: str
    """The step of the history that its layer stands for."""
    config: Mapping[str, Any]
    """The `config` of the configuration: Env, Cmd, …; empty values are left out."""
    annotations: Mapping[str, str] = {}
    layer: BinaryIO | None = None
    """A tar archive with a file descriptor; None for an image that only renames its base."""
    base: SavedImage | None = None


def source_of(made: NewImage) -> SavedSource:
    """Return the image, for rootfs_tools.take. Raises OSError."""
    below = made.base.layers if made.base else ()
    layers = [each._replace(descriptor=each.descriptor.as_oci()) for each in below]
    if made.layer:
        made.layer.flush()
        fd = made.layer.fileno()
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        layers.append(SavedLayer(Descriptor(OCI_LAYER, digest, os.fstat(fd).st_size), digest, fd))
    config = written(_document(made, [each.diff_id for each in layers]))
    manifest = manifest_of(config, [each.descriptor for each in layers], made.annotations)
    return SavedSource(SavedImage("", MANIFESTS[0], manifest, config, tuple(layers)), made.origin)


def _document(made: NewImage, diff_ids: Sequence[str]) -> dict[str, Any]:
    """Return the configuration."""
    raw = parse_config(made.base.config).raw if made.base else {}
    platform, created = this_platform(), date(made.created)
    step = {"created": created, "created_by": made.created_by, "empty_layer": not made.layer}
    document = {
        "os": raw.get("os", platform.system), "created": created,
        "architecture": raw.get("architecture", platform.architecture),
        "config": merged(raw.get("config") or {}, made.config),
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [*(raw.get("history") or []), _without_empty(step)],
    }  # fmt: skip
    variant = raw.get("variant", "") if made.base else platform.variant
    return document | ({"variant": variant} if variant else {})


def merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an image on top of a base: variables and labels add to it."""
    texts = [*(base.get("Env") or ()), *own.get("Env", ())]
    env = {text.partition("=")[0]: text for text in texts}
    labels = {**(base.get("Labels") or {}), **own.get("Labels", {})}
    both = {**base, **_without_empty(own), "Env": list(env.values()), "Labels": labels}
    return _without_empty(both)


def epoch(otherwise: Callable[[], float]) -> int:
    """Return the seconds since 1970 that a build has for "now", so that it can be repeated.

    $SOURCE_DATE_EPOCH; `otherwise` without it. Raises UsageError for what is no number there:
    https://reproducible-builds.org/specs/source-date-epoch/.
    """
    if not (text := os.environ.get("SOURCE_DATE_EPOCH")):
        return int(otherwise())
    given = whole(text, 0, _LATEST)
    if given is None:
        raise UsageError(
            f"SOURCE_DATE_EPOCH={text:.40}: not seconds since 1970", "such as 1700000000"
        )
    return given


def date(seconds: int) -> str:
    """Return a time as RFC 3339 writes it; what lies outside of 1970 to 9999 is brought in."""
    inside = min(max(seconds, 0), _LATEST)
    return datetime.fromtimestamp(inside, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def saved(image: SavedImage) -> tuple[str, int]:
    """Return the digest of a base's manifest, and when it was created, in seconds."""
    created = parse_config(image.config).created
    try:
        seconds = int(datetime.fromisoformat(created).timestamp())
    except ValueError:
        seconds = 0
    return digest_of(image.manifest), seconds


@contextmanager
def workshop(store: str) -> Iterator[str]:
    """Yield an empty folder in the store to make an image in; nothing is left of it.

    If the maker is killed, the next command sweeps it away. Raises OSError.
    """
    images = catalogue.make_store(store)
    catalogue.sweep(store)
    with locked(images, fcntl.LOCK_SH):
        draft = tempfile.mkdtemp(prefix=DRAFT, dir=images)
        held = hold(draft)
    try:
        os.mkdir(f"{draft}/{catalogue.WORK}", 0o700)
        yield f"{draft}/{catalogue.WORK}"
    finally:
        remove_tree(draft)
        os.close(held)


def _without_empty(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value}
