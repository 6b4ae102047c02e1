"""Compressed streams: recognized by their first bytes, whatever their name or media type says.

Each stream is read once, as it comes; a stream that unpacks to more than it should is stopped by
the one that reads it (rootfs_tools.tar.stream knows each file's size).
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import sys
import zlib
from typing import Any, BinaryIO, cast

from minirun.core.errors import ImageError
from minirun.core.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
"""What a damaged stream raises."""
_WINDOW = 27
"""log2 of the memory that a stream may ask for: 128 MiB, the most that zstd itself takes; `xz -9`
asks for 65."""
_CHUNK = 1 << 16


class Hashed(io.RawIOBase):
    """A stream that computes the SHA-256 of all that is read from it."""

    def __init__(self, stream: BinaryIO | io.BufferedIOBase) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()

    def readable(self) -> bool:
        """Return True: io.RawIOBase asks."""
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill the buffer, and return how much of it: io.RawIOBase."""
        data = self._stream.read(memoryview(buffer).nbytes)
        memoryview(buffer)[: len(data)] = data
        self.sha256.update(data)
        return len(data)

    def digest(self) -> str:
        """Return the digest of what was read so far: sha256:HEX."""
        return f"sha256:{self.sha256.hexdigest()}"


class _Xz(io.RawIOBase):
    """A stream that xz has compressed, perhaps several in a row.

    The standard library's LZMAFile knows no limit: 61 kB of xz may ask for 1.5 GiB.
    """

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
        self._stream = stream
        self._plain = self._decompressor()

    @staticmethod
    def _decompressor() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=1 << _WINDOW)

    def readable(self) -> bool:
        """Return True: io.RawIOBase asks."""
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill the buffer, and return how much of it: io.RawIOBase."""
        data, size = b"", memoryview(buffer).nbytes
        while not data:
            if self._plain.eof:
                packed = self._next_stream()
                if not packed:
                    return 0
                self._plain = self._decompressor()
            else:
                packed = self._stream.read(_CHUNK) if self._plain.needs_input else b""
                if self._plain.needs_input and not packed:
                    raise EOFError("it ends in the middle")
            data = self._decompressed(packed, size)
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def _next_stream(self) -> bytes:
        """Return how the next stream begins, behind padding (xz-file-format.txt, 2.2)."""
        packed = self._plain.unused_data or self._stream.read(_CHUNK)
        while packed and not packed.strip(b"\0"):
            packed = self._stream.read(_CHUNK)
        return packed.lstrip(b"\0")

    def _decompressed(self, packed: bytes, size: int) -> bytes:
        try:
            return self._plain.decompress(packed, size)
        except lzma.LZMAError as error:
            if "limit" in str(error):
                raise _too_much("xz") from None
            raise


class _Zstd(io.RawIOBase):
    """A stream that zstd has compressed; a damaged one ends too early."""

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
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

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill the buffer, and return how much of it: io.RawIOBase."""
        try:
            read: int = self._plain.readinto(buffer)
        except self._error as error:
            if "memory" in str(error):
                raise _too_much("zstd") from None
            raise EOFError(str(error)) from None
        return read


def _too_much(kind: str) -> ImageError:
    limit = 1 << _WINDOW >> 20
    return ImageError(f"{kind}: it asks for more than {limit} MiB of memory", f"{kind} -6 does not")


def _zstd() -> Any:
    """Return compression.zstd of Python 3.14, or its backport. Raises ImportError."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return lazy.load(name)


def decompressed(archive: io.BufferedReader[Any]) -> io.BufferedIOBase:
    """Return the plain stream of one that gzip, bzip2, xz or zstd may have compressed."""
    head = archive.peek(6)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=archive, mode="rb")
    if head.startswith(b"BZh"):
        return bz2.BZ2File(archive)
    if head.startswith(b"\xfd7zXZ\0"):
        return io.BufferedReader(_Xz(archive), 1 << 17)
    if head.startswith((b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18")):
        return io.BufferedReader(_Zstd(archive), 1 << 17)
    return cast(io.BufferedIOBase, archive)


def drain(*streams: io.BufferedIOBase | BinaryIO) -> None:
    """Read each stream to its end: padding, and the compressor's own checksum."""
    for stream in streams:
        while stream.read(1 << 20):
            pass
