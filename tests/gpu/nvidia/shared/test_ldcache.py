"""The parser of ld.so.cache, against the host's own cache and against damage."""

import struct
import subprocess
from pathlib import Path

import pytest

from minirun.core.errors import GPUError
from minirun.gpu.nvidia.shared import ldcache

CACHE = Path("/etc/ld.so.cache")


def test_it_reads_what_ldconfig_prints() -> None:
    printed = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True
    ).stdout
    wanted = set()
    for line in printed.splitlines()[1:]:
        name, _, path = line.partition(" => ")
        if path and "(libc6" in name:  # i386's "(ELF)" has nothing to do with a libc
            wanted.add((name.split(" (")[0].strip(), path))
    found = {(entry.soname, entry.path) for entry in ldcache.parse(CACHE.read_bytes())}
    assert found == wanted


def new_format(names: list[tuple[str, str, int]]) -> bytes:
    """A cache as glibc writes it."""
    strings, rows = b"", []
    base = 48 + 24 * len(names)
    for soname, path, flags in names:
        key = base + len(strings)
        strings += soname.encode() + b"\0"
        value = base + len(strings)
        strings += path.encode() + b"\0"
        rows.append(struct.pack("<iIIIQ", flags, key, value, 0, 0))
    header = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(names), len(strings))
    return header.ljust(48, b"\0") + b"".join(rows) + strings


def test_the_new_format_behind_the_old_one() -> None:
    new = new_format([("libx.so.1", "/lib/libx.so.1", 0x0303), ("old", "/lib/old", 0x0001)])
    old = b"ld.so-1.7.0\0" + struct.pack("<I", 1) + bytes(12)
    data = old.ljust(32, b"\0") + new
    assert ldcache.parse(data) == [ldcache.LdCacheEntry("libx.so.1", "/lib/libx.so.1", 0x0300)]


@pytest.mark.parametrize(
    "data",
    (
        b"", b"garbage", b"glibc-ld.so.cache1.1", b"ld.so-1.7.0", b"ld.so-1.7.0\0\xff\xff\xff\xff",
        new_format([("a", "b", 0x0303)])[:-1], new_format([("a", "b", 0x0303)])[:60],
        new_format([("a", "b", 0x0303)])[:48].replace(struct.pack("<I", 1), b"\xff\xff\xff\x7f", 1),
    ),
)  # fmt: skip
def test_damage_is_one_error(data: bytes) -> None:
    with pytest.raises(GPUError, match=r"detection error: .*/etc/ld\.so\.cache"):
        ldcache.parse(data)
