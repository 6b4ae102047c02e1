"""An OCI image layout: index.json names images by their tags, and their blobs lie beside it.

    oci-layout                 {"imageLayoutVersion": "1.0.0"}
    index.json                 descriptors, each with its tag as an annotation
    blobs/sha256/HEX           manifests, configurations, layers

Source: image-spec image-layout.md. skopeo's oci:PATH:TAG, podman save --format oci-dir; as one tar
archive oci-archive, docker save since 25.
"""

import json
import os
from contextlib import AbstractContextManager
from typing import BinaryIO

from minirun.core.errors import ImageError
from minirun.image.store import failure
from rootfs_tools.archives.files import ImageFiles, read
from rootfs_tools.image_spec import DOCUMENT_LIMIT, INDEXES, Descriptor, Index, NoImage, parse

REF_NAME = "org.opencontainers.image.ref.name"
FULL_NAME = "io.containerd.image.name"
"""docker's and containerd's annotation: the name with its registry."""
_MARK = "oci-layout"


class Layout:
    """One image of a layout: a `Source`."""

    def __init__(self, files: ImageFiles, top: Descriptor) -> None:
        self.name = files.name
        self._files = files
        self._top = top

    def root(self) -> tuple[Descriptor, bytes]:
        """Return the index or manifest that the tag names. Raises ImageError."""
        return self._top, self.document(self._top)

    def document(self, wanted: Descriptor) -> bytes:
        """Return an index, manifest or configuration. Raises ImageError."""
        return read(self._files, path_of(wanted.digest), DOCUMENT_LIMIT)

    def blob(self, wanted: Descriptor, offset: int = 0) -> AbstractContextManager[BinaryIO]:
        """Open a layer for reading, from this byte on. Raises ImageError."""
        return self._files.open(path_of(wanted.digest), offset)


def path_of(digest: str) -> str:
    """Return where the blob of that digest lies in a layout; the digest is checked."""
    return f"blobs/{digest.replace(':', '/')}"


def is_layout(files: ImageFiles) -> bool:
    """Return True if this says that it is a layout."""
    return files.has(_MARK)


def images(files: ImageFiles) -> list[Descriptor]:
    """Return the images that index.json names; what is no image, only if there is nothing else.

    Raises ImageError: it is no layout, or a wrong one.
    """
    if not is_layout(files):
        hint = "skopeo copy docker://IMAGE oci:FOLDER:TAG makes one"
        raise ImageError(f"{files.name} is no OCI layout: the file oci-layout is missing", hint)
    try:
        mark = json.loads(read(files, _MARK, 4096))
        version = mark["imageLayoutVersion"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ImageError(f"{files.name}: oci-layout has no imageLayoutVersion") from None
    if version != "1.0.0":
        raise ImageError(f"{files.name}: an OCI layout of version {str(version)[:40]!r}, not 1.0.0")
    try:
        index = parse(INDEXES[0], read(files, "index.json", DOCUMENT_LIMIT))
    except ImageError as error:
        raise ImageError(f"{files.name}: index.json: {error}", error.hint) from None
    assert isinstance(index, Index)
    named = [descriptor for descriptor, _ in index.manifests]
    return [each for each in named if _is_image(files, each)] or named


def _is_image(files: ImageFiles, named: Descriptor) -> bool:
    """Return False for a chart, a signature and the like; what is damaged is told when used."""
    if named.media_type in INDEXES:
        return True
    try:
        parse(named.media_type, read(files, path_of(named.digest), DOCUMENT_LIMIT))
    except NoImage:
        return False
    except ImageError:
        pass
    return True


def tagged(files: ImageFiles, tag: str) -> Layout:
    """Return the image `tag` of a layout; of one with a single image the tag may be empty.

    Raises ImageError: no such tag, or two images have it.
    """
    found = images(files)
    wanted = {each.digest: each for each in found if each.annotations.get(REF_NAME, "") == tag}
    if not tag and not wanted:
        latest = [each for each in found if each.annotations.get(REF_NAME) == "latest"]
        wanted = {each.digest: each for each in latest or found}
    if len(wanted) == 1:
        return Layout(files, next(iter(wanted.values())))
    tags = ", ".join(sorted({each.annotations.get(REF_NAME, "") for each in found} - {""}))
    hint = f"tags there: {tags[:200]}" if tags else "no image of it has a tag"
    what = f"two images have the tag {tag!r}" if wanted else f"no image has the tag {tag!r}"
    raise ImageError(f"{files.name}: {what}", hint)


def split(text: str) -> tuple[str, str]:
    """Return path and tag of LAYOUT:TAG. A path may have a colon, and a tag too.

    The path is what is there: the longest such part counts. Raises ImageError.
    """
    path, tag = text, ""
    while not os.path.lexists(path) and ":" in path:
        path = path.rpartition(":")[0]
        tag = text[len(path) + 1 :]
    try:
        os.lstat(path)
    except FileNotFoundError:
        hint = "a file, a folder, or FOLDER:TAG"
        raise ImageError(f"{text}: no such archive or layout", hint) from None
    except OSError as error:  # it lies where the caller may not look
        raise failure(error, "opening the image") from None
    return path, tag
