"""Writing a tar archive whose bytes follow from what is in it, and from nothing else.

ustar headers, and a pax header where ustar has no room: long names, names beyond ASCII, large
numbers, extended attributes (SCHILY.xattr.*), times with nanoseconds. No name of a user, no date
and no process id of the writer is in it, so the same members give the same bytes.
Sources: POSIX pax "ustar Interchange Format", "pax Header Block"; image-spec layer.md.
"""

from typing import BinaryIO

from minirun.core.errors import ImageError
from rootfs_tools.tar.fields import BLOCK
from rootfs_tools.tar.stream import XATTR, Member

_TYPES = {
    "file": b"0", "hard link": b"1", "link": b"2", "c": b"3", "b": b"4", "dir": b"5", "p": b"6",
}  # fmt: skip
_PAX = "././@PaxHeader"
_CHUNK = 1 << 18


class TarWriter:
    """Writes members to a stream: ``add`` for each one, then ``finish``."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add(self, member: Member, content: BinaryIO | None = None) -> None:
        """Write a member; `content` is read if it is a file: as many bytes as its size says.

        Of a file that became shorter while it was read zeros are written for the rest, as GNU tar
        does. Raises ImageError for what an archive cannot say, OSError.
        """
        name = f"{member.name.rstrip('/')}/" if member.kind == "dir" else member.name
        pax: dict[str, bytes] = {}
        header = _header(member, name, pax)
        if pax:
            self._pax(pax)
        self._stream.write(header)
        if member.kind == "file" and member.size:
            self._content(content, member.size)

    def finish(self) -> None:
        """Write the end of the archive."""
        self._stream.write(bytes(2 * BLOCK))

    def _pax(self, records: dict[str, bytes]) -> None:
        data = b"".join(_record(key, value) for key, value in sorted(records.items()))
        member = Member(_PAX, "file", 0o644, 0, 0, len(data), 0, "", (0, 0), {})
        self._stream.write(_header(member, _PAX, {}, b"x"))
        self._stream.write(data + bytes(-len(data) % BLOCK))

    def _content(self, content: BinaryIO | None, size: int) -> None:
        left = size
        while content and left and (chunk := content.read(min(left, _CHUNK))):
            self._stream.write(chunk)
            left -= len(chunk)
        while left:
            self._stream.write(bytes(min(left, _CHUNK)))
            left -= min(left, _CHUNK)
        self._stream.write(bytes(-size % BLOCK))


def _header(member: Member, name: str, pax: dict[str, bytes], kind: bytes = b"") -> bytes:
    """Return the ustar header; what it has no room for goes into `pax`."""
    size = member.size if member.kind == "file" else 0
    seconds, fraction = divmod(member.mtime, 10**9)
    if fraction or seconds < 0:
        pax["mtime"] = _time(member.mtime)
        seconds = max(seconds, 0)
    for key, value in member.xattrs.items():
        if "=" in key:
            raise ImageError(f"{member.name!r}: a tar archive cannot hold the attribute {key!r}")
        pax[XATTR + key] = value
    prefix, short = _split(name, pax)
    target = _text(member.target, 100, "linkpath", pax)
    fields = [
        short.ljust(100, b"\0"), b"%07o\0" % member.mode,
        _number(member.uid, 7, "uid", pax), _number(member.gid, 7, "gid", pax),
        _number(size, 11, "size", pax), _number(seconds, 11, "mtime", pax), b" " * 8,
        kind or _TYPES[member.kind], target.ljust(100, b"\0"), b"ustar\00000", bytes(64),
        b"%07o\0%07o\0" % member.device, prefix.ljust(155, b"\0"), bytes(12),
    ]  # fmt: skip
    header = b"".join(fields)
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def _split(name: str, pax: dict[str, bytes]) -> tuple[bytes, bytes]:
    """Return the prefix and the name of the header; a longer name goes into `pax`."""
    raw = name.encode("utf-8", "surrogateescape")
    if 100 < len(raw) <= 255 and name.isascii():
        at = raw.rfind(b"/", 0, 156)
        if at > 0 and 0 < len(raw) - at - 1 <= 100:
            return raw[:at], raw[at + 1 :]
    return b"", _text(name, 100, "path", pax)


def _text(text: str, room: int, key: str, pax: dict[str, bytes]) -> bytes:
    """Return a name as the header takes it, cut if it is too long; then `pax` has it whole.

    A short name that is no UTF-8 has no right form in pax; readers take the header's bytes as such.
    """
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ImageError(f"{text[:60]!r}: a name with a NUL byte")
    if len(raw) > room or not (text.isascii() or _has_other_bytes(text)):
        pax[key] = raw
    return raw[:room]


def _has_other_bytes(text: str) -> bool:
    return any(0xDC80 <= ord(sign) <= 0xDCFF for sign in text)  # PEP 383


def _number(value: int, digits: int, key: str, pax: dict[str, bytes]) -> bytes:
    """Return a number in octal; a larger one goes into `pax`."""
    if value >= 8**digits:
        pax.setdefault(key, b"%d" % value)
        value = 0
    return b"%0*o\0" % (digits, value)


def _time(nanoseconds: int) -> bytes:
    """Return seconds with decimals, and no zero at the end."""
    seconds, fraction = divmod(abs(nanoseconds), 10**9)
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}{seconds}.{fraction:09d}".rstrip("0").rstrip(".").encode()


def _record(key: str, value: bytes) -> bytes:
    """Return a pax record, "LENGTH KEY=VALUE\\n": the length counts itself too."""
    rest = b" " + key.encode("utf-8", "surrogateescape") + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(rest) + len(str(length)) != length:
        length = len(rest) + len(str(length))
    return str(length).encode() + rest
