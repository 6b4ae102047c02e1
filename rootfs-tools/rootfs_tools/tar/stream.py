"""Reading a tar archive as a stream, and nothing else: no seek, no file is touched.

What stands in an archive is hostile (security: images). CPython's tarfile follows offsets and, when
it extracts, was led out of its directory by every filter it has (CVE-2025-4517, CVE-2024-12718;
CVE-2025-8194 for endless loops by negative sizes). This reader knows ustar, GNU long names, sparse
files and pax headers (tar(5), POSIX pax), checks every header's sum, takes no number that is
negative or too large, keeps at most 1 MiB of header in memory, and refuses the rest.

An archive ends with two blocks of zeros, or where the stream ends between two members: docker's old
layers may have no byte at all, and Go's archive/tar takes both. Whether a layer is whole is for its
digest to say.
"""

from collections.abc import Iterator
from io import BufferedIOBase
from typing import NamedTuple

from minirun.core.errors import ImageError
from rootfs_tools.tar import sparse
from rootfs_tools.tar.fields import (
    BLOCK,
    HEADER_LIMIT,
    Body,
    at_most,
    cut_off,
    decimal,
    exactly,
    number,
)

KINDS = {
    b"0": "file", b"\0": "file", b"7": "file", b"1": "hard link", b"2": "link", b"3": "c",
    b"4": "b", b"5": "dir", b"6": "p", b"S": "file",
}  # fmt: skip
XATTR = "SCHILY.xattr."

_LATEST = (1 << 63) - 1
"""Nanoseconds since 1970: what the kernel's ktime_t holds."""


class Member(NamedTuple):
    """One entry of an archive, as it stands there."""

    name: str
    kind: str
    """One of file, hard link, link, c, b, dir, p."""
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    """Nanoseconds since 1970."""
    target: str
    device: tuple[int, int]
    xattrs: dict[str, bytes]


def members(stream: BufferedIOBase) -> Iterator[tuple[Member, Body]]:
    """Yield every member with its content, in order. Raises ImageError for a bad archive."""
    common: dict[str, bytes] = {}
    own: dict[str, bytes] = {}
    holes = 0
    while True:
        header = at_most(stream, BLOCK)
        if (header and len(header) < BLOCK) or (own and not header):
            raise cut_off()
        if not any(header):
            return
        _check_sum(header)
        kind = header[156:157]
        size = number(header[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            if size > HEADER_LIMIT:
                raise ImageError(f"archive: a header of {size} bytes")
            data = exactly(stream, size + -size % BLOCK)[:size]
            if kind == b"g":
                common = _more(common, _pax(data))
            elif kind == b"x":
                own = _more(own, _pax(data))
            else:
                own["path" if kind == b"L" else "linkpath"] = data.rstrip(b"\0")
            continue
        pax, own = common | own, {}
        member = _member(header, kind, pax)
        body = Body(stream, member.size)
        if sparse.is_sparse(kind, pax):
            stored = member.size
            size, body = sparse.open_body(header, pax, stream, stored)
            holes += size - stored
            if holes > sparse.HOLE_LIMIT:
                limit = f"{sparse.HOLE_LIMIT >> 30} GiB"
                raise ImageError(f"archive: {member.name!r}: sparse files of more than {limit}")
            member = member._replace(size=size)
        yield member, body
        body.finish()


def _member(header: bytes, kind: bytes, pax: dict[str, bytes]) -> Member:
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and header[345]:
        name = _text(header[345:500]) + "/" + name
    if path := pax.get(sparse.NAME) or pax.get("path"):
        name = _decode(path)
    if kind not in KINDS:
        raise ImageError(f"archive: {name!r} is of type {kind!r}")
    size = decimal(pax["size"]) if "size" in pax else number(header[124:136])
    return Member(
        name=name,
        kind="dir" if name.endswith("/") and KINDS[kind] == "file" else KINDS[kind],
        mode=number(header[100:108]) & 0o7777,
        uid=decimal(pax["uid"]) if "uid" in pax else number(header[108:116]),
        gid=decimal(pax["gid"]) if "gid" in pax else number(header[116:124]),
        size=size if KINDS[kind] == "file" else 0,
        mtime=_mtime(header[136:148], pax.get("mtime", b""), name),
        target=_decode(pax["linkpath"]) if "linkpath" in pax else _text(header[157:257]),
        device=_device(header, name) if KINDS[kind] in ("b", "c") else (0, 0),
        xattrs={k.removeprefix(XATTR): v for k, v in pax.items() if k.startswith(XATTR)},
    )


def _check_sum(header: bytes) -> None:
    """The sum of the header's bytes, its own field taken as spaces."""
    found = sum(header) - sum(header[148:156]) + 8 * 32
    if number(header[148:156]) != found:
        raise ImageError("archive: a header with a wrong checksum", "is this a tar archive?")


def _device(header: bytes, name: str) -> tuple[int, int]:
    """Return major and minor number: Linux has 12 and 20 bits for them, makedev(3)."""
    major, minor = number(header[329:337]), number(header[337:345])
    if major >> 12 or minor >> 20:
        raise ImageError(f"archive: {name!r}: no device has the numbers {major}:{minor}")
    return major, minor


def _mtime(field: bytes, pax: bytes, name: str) -> int:
    """Return when a file was changed, in nanoseconds: of its header, or of pax, which is exact."""
    if not pax:
        return number(field) * 10**9
    value = _nanoseconds(pax)
    if abs(value) > _LATEST:
        text = f"mtime: {value // 10**9} seconds since 1970 is not a time that minirun keeps"
        hint = f"at most {_LATEST // 10**9}, in the year 2262: touch it, and pack again"
        raise ImageError(f"archive: {name!r}: {text}", hint)
    return value


def _nanoseconds(text: bytes) -> int:
    """A pax time: seconds with any number of decimals, before 1970 with a minus."""
    whole, _, part = text.removeprefix(b"-").partition(b".")
    value = decimal(whole) * 10**9 + (decimal(part[:9].ljust(9, b"0")) if part else 0)
    return -value if text.startswith(b"-") else value


def _pax(data: bytes) -> dict[str, bytes]:
    """Records of the form "LENGTH KEY=VALUE\\n", where the length counts the whole record."""
    records: dict[str, bytes] = {}
    at = 0
    while at < len(data):
        length, space, _ = data[at : at + 20].partition(b" ")
        end = at + decimal(length)
        key, equals, value = data[at + len(length) + 1 : end - 1].partition(b"=")
        if not space or not equals or data[end - 1 : end] != b"\n" or end <= at + len(length):
            raise ImageError("archive: a damaged pax header")
        name = _decode(key)
        if not sparse.collect(records, name, value):
            records[name] = value
        at = end
    return records


def _more(records: dict[str, bytes], new: dict[str, bytes]) -> dict[str, bytes]:
    """Return both, of which `new` counts; there may be any number of such headers in a row."""
    both = records | new
    if sum(len(key) + len(value) for key, value in both.items()) > HEADER_LIMIT:
        raise ImageError(f"archive: pax headers of more than {HEADER_LIMIT} bytes")
    return both


def _text(field: bytes) -> str:
    return _decode(field.partition(b"\0")[0])


def _decode(raw: bytes) -> str:
    if b"\0" in raw:
        raise ImageError(f"archive: a name with a NUL byte: {raw[:60]!r}")
    return raw.decode("utf-8", "surrogateescape")
