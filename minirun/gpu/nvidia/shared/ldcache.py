"""ld.so.cache: where the host's dynamic loader finds a library, and so where the driver's lie.

The format is glibc's (elf/cache.c, dl-cache.h): a header, an array of entries of fixed size, then
the strings that the entries point to. The "new" format (magic glibc-ld.so.cache1.1) may stand
alone, as every distribution of today writes it, or follow an old-format table (magic ld.so-1.7.0)
in the same file, aligned to eight bytes. String offsets of the new format count from its header.

The real nvidia-container-cli reads the same file; so a driver that was installed without running
ldconfig is invisible to both.
"""

from __future__ import annotations

import struct

from minirun.core.errors import GPUError
from minirun.core.keeping.record import Record
from minirun.core.kernel.architecture import NATIVE, Architecture
from minirun.gpu import driverroot
from minirun.gpu.nvidia.shared.catalog import LD_SO_CACHE

NEW_MAGIC, OLD_MAGIC = b"glibc-ld.so.cache1.1", b"ld.so-1.7.0"
_OLD_HEADER, _OLD_ENTRY, _OLD_COUNT = 16, 12, 12
_HEADER = struct.Struct("<20sII")
_HEADER_SIZE = 48
_ENTRY = struct.Struct("<iIIIQ")
_LIBC6 = 3
_ANEW = "make it anew: ldconfig"


class LdCacheEntry(Record):
    """A library: its SONAME, its path, and the architecture it is for."""

    soname: str
    path: str
    arch: int


_read: dict[tuple[int, ...], list[LdCacheEntry]] = {}
"""The cache that was read last, by what tells one file from another."""


def load(root: str, cache: str, made_for: Architecture | None = NATIVE) -> list[LdCacheEntry]:
    """Return the libraries of the loader's `cache` below `root` that are made for an architecture.

    There are none for None, and none if there is no cache. The file is read once.
    Raises GPUError for a damaged one, OSError.
    """
    status = driverroot.status(root, cache)
    if status is None:
        return []
    key = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    if key not in _read:
        _read.clear()
        _read[key] = parse(driverroot.read(root, cache), root + cache)
    bits = made_for.cache if made_for else ()
    return [entry for entry in _read[key] if entry.arch in bits]


def parse(data: bytes, path: str = LD_SO_CACHE) -> list[LdCacheEntry]:
    """Return the libc6 libraries of the cache `path`, in its order. Raises GPUError for another."""
    start = _start(data, path)
    try:
        _, count, _ = _HEADER.unpack_from(data, start)
        table = data[start + _HEADER_SIZE :][: count * _ENTRY.size]
        if len(table) != count * _ENTRY.size:
            raise ValueError(count)
        entries = [
            LdCacheEntry(_string(data, start + key), _string(data, start + value), flags & 0xFF00)
            for flags, key, value, _, _ in _ENTRY.iter_unpack(table)
            if flags & 0xFF == _LIBC6
        ]
    except (struct.error, ValueError):
        raise GPUError(f"detection error: corrupted ldcache entry: {path}", _ANEW) from None
    return entries


def _start(data: bytes, path: str) -> int:
    """Return where the new format's header begins. Raises GPUError."""
    start = 0
    if data.startswith(OLD_MAGIC) and len(data) >= _OLD_HEADER:
        count = int.from_bytes(data[_OLD_COUNT:_OLD_HEADER], "little")
        start = -(-(_OLD_HEADER + count * _OLD_ENTRY) // 8) * 8
    if not data.startswith(NEW_MAGIC, start):
        raise GPUError(f"detection error: unsupported file format: {path}", _ANEW)
    return start


def _string(data: bytes, offset: int) -> str:
    """Return the string at `offset`. Raises ValueError where none ends there."""
    return data[offset : data.index(b"\0", offset)].decode(errors="surrogateescape")
