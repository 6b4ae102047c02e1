"""A tar archive read as it lies: which bytes of it are which file.

It is never extracted: its headers are read once, and a member is then a range of bytes. A
compressed one, or one from a pipe, is first copied to a temporary file that has no name, so nothing
is left of it whatever happens.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
import tempfile
from typing import BinaryIO, cast

from minirun.core.errors import ImageError
from rootfs_tools.compression import DAMAGED, decompressed
from rootfs_tools.tar.sparse import SparseBody
from rootfs_tools.tar.stream import members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

_CHUNK = 1 << 18
_ZEROS = bytes(_CHUNK)
_MOST_NAMES = 1 << 16
_LONGEST_NAME = 1024
_MOST_LINKS = 8


class Archive:
    """A tar archive: where each member's bytes lie in it."""

    def __init__(self, name: str, fd: int) -> None:
        """Read the archive's headers. Raises ImageError, OSError."""
        self.name = name
        self._places: dict[str, tuple[int, int]] = {}
        """Name → offset and size."""
        self._links: dict[str, str] = {}
        source = io.BufferedReader(io.FileIO(fd, closefd=False), _CHUNK)
        try:
            self._fd = self._as_it_lies(source, fd)
            try:
                self._read_headers()
            except BaseException:
                os.close(self._fd)
                raise
        except DAMAGED as error:
            raise ImageError(f"{name} is damaged: {error}") from None
        except ImageError as error:
            raise ImageError(f"{name}: {error}", error.hint) from None

    def _as_it_lies(self, source: io.BufferedReader[io.FileIO], fd: int) -> int:
        """Return a descriptor of the plain archive."""
        plain = decompressed(source)
        if plain is source and stat.S_ISREG(os.fstat(fd).st_mode):
            return os.dup(fd)
        with tempfile.TemporaryFile(buffering=0) as copy:
            while chunk := plain.read(_CHUNK):
                if chunk == _ZEROS[: len(chunk)]:
                    copy.seek(len(chunk), os.SEEK_CUR)  # a hole: zeros cost no space
                else:
                    os.write(copy.fileno(), chunk)
            copy.truncate(copy.tell())
            return os.dup(copy.fileno())

    def _read_headers(self) -> None:
        stream = io.BufferedReader(_Range(self._fd, 0, os.fstat(self._fd).st_size), _CHUNK)
        for member, body in members(stream):
            name = posixpath.normpath(member.name)
            if len(name) > _LONGEST_NAME or member.kind == "dir":
                continue  # no file of an image has such a name
            if name in self._places or name in self._links:
                raise ImageError(f"{name!r} is there twice")
            if len(self._places) + len(self._links) == _MOST_NAMES:
                raise ImageError(f"more than {_MOST_NAMES} files: this is no image")
            if isinstance(body, SparseBody):  # it does not lie in the archive as it is
                raise ImageError(f"{name!r} is a sparse file", "make it without --sparse")
            if member.kind == "file":
                self._places[name] = (stream.tell(), member.size)
            elif member.kind == "link" and len(member.target) <= _LONGEST_NAME:
                self._links[name] = member.target

    def has(self, name: str) -> bool:
        """Return True if there is a file of that name."""
        return self._resolve(name) in self._places

    def open(self, name: str, offset: int = 0) -> BinaryIO:
        """Open a member; a link is followed inside the archive (docker's old ones have them)."""
        start, size = self._place(name)
        offset = min(offset, size)
        return cast(BinaryIO, io.BufferedReader(_Range(self._fd, start + offset, size - offset)))

    def size(self, name: str) -> int:
        """Return the bytes of a member."""
        return self._place(name)[1]

    def close(self) -> None:
        """Close the archive."""
        os.close(self._fd)

    def _place(self, name: str) -> tuple[int, int]:
        try:
            return self._places[self._resolve(name)]
        except KeyError:
            raise ImageError(f"{self.name}: {name!r} is missing in the archive") from None

    def _resolve(self, name: str) -> str:
        name = posixpath.normpath(name)
        for _ in range(_MOST_LINKS):
            if name not in self._links:
                break
            name = posixpath.normpath(posixpath.join(posixpath.dirname(name), self._links[name]))
        return name


class _Range(io.RawIOBase):
    """Some bytes of a file, read at their place: several may be read at the same time."""

    def __init__(self, fd: int, start: int, size: int) -> None:
        self._fd, self._start, self._size = fd, start, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)[: max(self._size - self._at, 0)]
        count = os.preadv(self._fd, [view], self._start + self._at) if view.nbytes else 0
        self._at += count
        return count
