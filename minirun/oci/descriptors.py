"""Descriptors that one process sends to another through a Unix socket: unix(7), SCM_RIGHTS."""

from __future__ import annotations

import _socket  # the C half of socket; the Python half costs 5 ms at import
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_RIGHTS = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
_MOST = 16
"""Descriptors of one message; the kernel's own limit is 253."""


def stream() -> _socket.socket:
    """Return a new socket (close-on-exec). Raises OSError."""
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)


def datagram() -> _socket.socket:
    """Return a new socket for datagrams (close-on-exec). Raises OSError."""
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)


def packets() -> _socket.socket:
    """Return a new socket that keeps messages apart (close-on-exec). Raises OSError."""
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)


def accept(socket: _socket.socket) -> _socket.socket:
    """Return the next connection, that keeps messages apart (close-on-exec). Raises OSError."""
    fd, _ = getattr(socket, "_accept")()  # noqa: B009  (typeshed does not know it)
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)


def connect(socket: _socket.socket, path: str) -> None:
    """Connect to the socket at `path`, which may be longer than sun_path (108 bytes, unix(7)).

    Raises OSError with the path.
    """
    _by_descriptor(socket.connect, path)


def bind(socket: _socket.socket, path: str) -> None:
    """Give `socket` the path `path`, of any length. Raises OSError with the path."""
    _by_descriptor(socket.bind, path)


def _by_descriptor(call: Callable[[str], None], path: str) -> None:
    directory = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        call(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(directory)


def send(socket: _socket.socket, data: bytes, descriptors: Sequence[int]) -> int:
    """Send `data`, at least one byte, with copies of `descriptors`.

    Return how many bytes were sent. Raises OSError.
    """
    rights = struct.pack(f"{len(descriptors)}i", *descriptors)
    return socket.sendmsg([data], [(*_RIGHTS, rights)])


def receive(socket: _socket.socket) -> tuple[bytes, list[int]]:
    """Return the next data, and the descriptors (close-on-exec) that came with it. Raises OSError.

    The data are empty if the other side has closed.
    """
    room = _socket.CMSG_SPACE(4 * _MOST)
    data, messages, _, _ = socket.recvmsg(4096, room, _socket.MSG_CMSG_CLOEXEC)
    return data, [
        descriptor
        for level, kind, rights in messages
        if (level, kind) == _RIGHTS
        for (descriptor,) in struct.iter_unpack("i", rights[: len(rights) // 4 * 4])
    ]
