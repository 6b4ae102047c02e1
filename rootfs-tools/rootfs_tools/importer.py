"""`minirun images import`: a root filesystem out of a tar archive, as docker import takes it.

The archive is read once, from a file or a pipe, and kept as the image's only layer, plain: what is
hashed is what is unpacked. Compression is recognized by its first bytes. As docker's, an import
takes a name that is there already away from the image that had it, and an empty archive is an image
without files (`tar c --files-from /dev/null | minirun import - scratch`).
"""

import io
from typing import BinaryIO

from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import ImageError
from minirun.image.store import Image, failure
from rootfs_tools.compression import DAMAGED, Hashed, decompressed, drain
from rootfs_tools.grammar import new_name
from rootfs_tools.made import NewImage, source_of, workshop
from rootfs_tools.take import take
from rootfs_tools.tar.stream import members

_CHUNK = 1 << 20


def import_tar(store: str, reference: str, stream: BinaryIO, source: str) -> Image:
    """Make the image `reference` of the archive `stream`; `source` is what its origin calls it.

    The archive is plain, or compressed by gzip, bzip2, xz or zstd. Raises ImageError; then the
    store is as it was.
    """
    new_name(reference)
    try:
        with workshop(store) as folder, open(f"{folder}/layer.tar", "w+b") as layer:
            digest = _copy(stream, layer)
            made = NewImage(
                origin=f"imported from {source}",
                created=_newest(layer.name, source),
                created_by=f"imported from {source}: {digest}",
                config={"Env": [f"PATH={DEFAULT_PATH}"]},
                layer=layer,
            )
            return take(store, reference, source_of(made), mend=True)
    except DAMAGED as error:
        raise ImageError(f"{source} is damaged: {error}") from None
    except OSError as error:
        raise failure(error, f"importing {source}") from None


def _copy(stream: BinaryIO, layer: BinaryIO) -> str:
    """Write the plain archive, and return the digest of the archive as it came."""
    hashed = Hashed(stream)
    archive = io.BufferedReader(hashed)
    plain = decompressed(archive)
    while chunk := plain.read(_CHUNK):
        layer.write(chunk)
    drain(archive)
    layer.flush()
    return hashed.digest()


def _newest(layer: str, source: str) -> int:
    """Return the latest date of a file in the archive, in seconds since 1970; 0 for an empty one.

    Raises ImageError for what is no root filesystem.
    """
    newest = 0
    with open(layer, "rb") as file:
        for member, _ in members(file):
            newest = max(newest, member.mtime // 10**9)
            if member.name.removeprefix("./") in ("oci-layout", "manifest.json"):
                text = f"{source} holds an image (docker save), not a root filesystem"
                raise ImageError(text, "minirun load brings it in")
    return newest
