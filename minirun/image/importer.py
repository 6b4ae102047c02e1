"""`minirun images import`: a root filesystem out of a tar archive, as docker import takes it.

The archive is read once, from a file or a pipe: what is unpacked is what is hashed, so it cannot
be changed in between. Compression is recognized by its first bytes.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import zlib
from typing import TYPE_CHECKING, BinaryIO

from minirun.core.errors import ImageError
from minirun.image.catalogue import Draft, sweep
from minirun.image.store import Image, failure
from minirun.image.unpack import unpack

if TYPE_CHECKING:
    from typing_extensions import Buffer

DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class _Hashed(io.RawIOBase):
    """A stream that computes the SHA-256 of all that is read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        data = self._stream.read(memoryview(buffer).nbytes)
        memoryview(buffer)[: len(data)] = data
        self.sha256.update(data)
        return len(data)


def import_tar(store: str, reference: str, stream: BinaryIO, source: str) -> Image:
    """Make the image `reference` of the archive `stream`; `source` is what its origin calls it.

    The archive is plain, or compressed by gzip, bzip2 or xz. Raises ImageError; then the store is
    as it was.
    """
    sweep(store)
    try:
        with Draft(store, reference) as draft:
            hashed = _Hashed(stream)
            archive = io.BufferedReader(hashed)
            tree = draft.layer()
            plain = _decompressed(archive)
            if not unpack(plain, tree):
                raise ImageError(f"{source} is an empty archive")
            _refuse_image_archive(tree, source)
            for rest in (plain, archive):  # padding, and the compressor's own checksum
                while rest.read(1 << 20):
                    pass
            digest = hashed.sha256.hexdigest()
            return draft.commit(
                f"imported from {source}",
                recipe={"name": "import", "source": source, "archive": f"sha256:{digest}"},
                env=[DEFAULT_PATH],
            )
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise ImageError(f"{source} is damaged: {error}") from None
    except OSError as error:
        raise failure(error, f"importing {source}") from None


def _decompressed(archive: "io.BufferedReader[_Hashed]") -> io.BufferedIOBase:
    head = archive.peek(6)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=archive, mode="rb")
    if head.startswith(b"BZh"):
        return bz2.BZ2File(archive)
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(archive)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        hint = "zstdcat FILE | minirun images import NAME -"
        raise ImageError("the archive is compressed by zstd", hint)
    return archive


def _refuse_image_archive(tree: str, source: str) -> None:
    if any(os.path.lexists(os.path.join(tree, name)) for name in ("oci-layout", "manifest.json")):
        text = f"{source} holds an image (docker save), not a root filesystem"
        raise ImageError(text, "use docker export")
