"""Compressed streams: recognized by their first bytes, whatever their name or media type says.

Each stream is read once, as it comes; a stream that unpacks to more than it should is stopped by
the one that reads it (minirun.image.tarstream knows each file's size).
"""

import bz2
import gzip
import hashlib
import importlib
import io
import lzma
import sys
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from minirun.core.errors import ImageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
"""What a damaged stream raises."""
_WINDOW = 27
"""log2 of the memory that a zstd stream may ask for: 128 MiB, the most that zstd itself takes."""


class Hashed(io.RawIOBase):
    """A stream that computes the SHA-256 of all that is read from it."""

    def __init__(self, stream: "BinaryIO | io.BufferedIOBase") -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()

    def readable(self) -> bool:
        """Return True: io.RawIOBase asks."""
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        """Fill the buffer, and return how much of it: io.RawIOBase."""
        data = self._stream.read(memoryview(buffer).nbytes)
        memoryview(buffer)[: len(data)] = data
        self.sha256.update(data)
        return len(data)

    def digest(self) -> str:
        """Return the digest of what was read so far: sha256:HEX."""
        return f"sha256:{self.sha256.hexdigest()}"


class _Zstd(io.RawIOBase):
    """A stream that zstd has compressed; a damaged one ends too early."""

    def __init__(self, stream: "io.BufferedReader[Any]") -> None:
        try:
            zstd = _zstd()
        except ImportError:
            hint = "pip install backports.zstd"
            raise ImageError("zstd has compressed this, and Python has no zstd", hint) from None
        options = {int(zstd.DecompressionParameter.window_log_max): _WINDOW}
        self._plain = zstd.ZstdFile(stream, options=options)
        self._error = zstd.ZstdError

    def readable(self) -> bool:
        """Return True: io.RawIOBase asks."""
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        """Fill the buffer, and return how much of it: io.RawIOBase."""
        try:
            read: int = self._plain.readinto(buffer)
        except self._error as error:
            raise EOFError(str(error)) from None
        return read


def _zstd() -> Any:
    """Return compression.zstd of Python 3.14, or its backport. Raises ImportError."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return importlib.import_module(name)


def decompressed(archive: "io.BufferedReader[Any]") -> io.BufferedIOBase:
    """Return the plain stream of one that gzip, bzip2, xz or zstd may have compressed."""
    head = archive.peek(6)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=archive, mode="rb")
    if head.startswith(b"BZh"):
        return bz2.BZ2File(archive)
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(archive)
    if head.startswith((b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18")):
        return io.BufferedReader(_Zstd(archive), 1 << 17)
    return cast(io.BufferedIOBase, archive)


def drain(*streams: "io.BufferedIOBase | BinaryIO") -> None:
    """Read each stream to its end: padding, and the compressor's own checksum."""
    for stream in streams:
        while stream.read(1 << 20):
            pass
