"""Answers of HTTP that come to an end: no head, and nothing between two chunks, is endless.

The standard library waits as long as a server sends something: `100 Continue` again and again, one
byte of a header each minute, or trailers behind the last chunk. Here lines are counted, and have a
time; content begins the count anew. Connections of urllib3 take answers of this kind.
"""

from __future__ import annotations

import io
import socket
import time
from http.client import HTTPException, HTTPResponse
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

_MOST = 1000
"""Lines in a row; the standard library takes at most 100 of one head."""


class _Timed(io.RawIOBase):
    """The bytes of a socket; while lines are read, for some time only."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.end = 0.0
        """Until when lines are read; 0: content is read."""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        found: int = self._source.fileno()
        return found

    def readinto(self, buffer: Buffer, /) -> int:
        if self.end and time.monotonic() > self.end:
            raise TimeoutError("the head of an answer takes too long")
        read: int = self._source.readinto(buffer)
        return read

    def close(self) -> None:
        self._source.close()
        super().close()


class _BoundedReader(io.BufferedReader):
    """What an answer is read from: lines, of which not too many come in a row, and content."""

    def __init__(self, source: Any, seconds: float) -> None:
        self._timed, self._seconds, self._count = _Timed(source), seconds, 0
        super().__init__(self._timed)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return a line. Raises HTTPException, TimeoutError."""
        self._count += 1
        if self._count > _MOST:
            raise HTTPException(f"more than {_MOST} lines without content")
        self._timed.end = self._timed.end or time.monotonic() + self._seconds
        return super().readline(-1 if size is None else size)

    def read(self, size: int | None = -1, /) -> bytes:
        """Return content."""
        self._content()
        return super().read(-1 if size is None else size)

    def read1(self, size: int = -1, /) -> bytes:
        """Return content."""
        self._content()
        return super().read1(size)

    def readinto(self, buffer: Buffer, /) -> int:
        """Read content."""
        self._content()
        return super().readinto(buffer)

    def _content(self) -> None:
        self._count, self._timed.end = 0, 0.0


class _Answer(HTTPResponse):
    """An answer whose head has twice the time that the next byte of it has."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        seconds = 2 * (sock.gettimeout() or 60)
        self.fp = _BoundedReader(self.fp.detach(), seconds)


class _Plain(HTTPConnection):
    response_class = _Answer


class _Secure(HTTPSConnection):
    response_class = _Answer


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


POOLS: dict[str, type[HTTPConnectionPool]] = {"http": _PlainPool, "https": _SecurePool}
"""For PoolManager.pool_classes_by_scheme."""
