"""Who is attached to a container that runs in the background: `attach`, and `start -a`.

The supervisor listens at attach.sock in the container's directory, which only its owner can reach.
The socket keeps messages apart (unix(7), SOCK_SEQPACKET); the first byte of one says what it is:

    to the supervisor    i   keys, or other input of the command; nothing more: the end of it
                         w   the window's size: rows and columns, two bytes each
    from it              h   the first message: from now on nothing is missed
                         o   what the command has written to standard output
                         e   what it has written to standard error
                         x   its exit status, one byte: the last message

What a client does not read holds the command up, as with docker: nothing is dropped.
"""

from __future__ import annotations

import os
import select
import struct

from minirun.core.keeping import places
from minirun.core.lazy import lazy
from minirun.oci import descriptors

with lazy:
    from minirun.oci.terminal import relay

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Iterator

INPUT, WINDOW, HELLO, OUTPUT, ERROR, STATUS = b"i", b"w", b"h", b"o", b"e", b"x"
LARGEST = 32 << 10
"""Bytes of one message: less than half of what a socket holds."""
_BACKLOG = 8
_LAST_SECONDS = 2.0
"""How long a client gets at the end to take what is left."""


class Attachee:
    """One process that is attached."""

    def __init__(self, connection: _socket.socket) -> None:
        self.socket = connection
        self.waiting: list[bytes] = []
        connection.setblocking(False)

    def send(self, message: bytes = b"") -> bool:
        """Send what it takes now; return False if it has gone."""
        if message:
            self.waiting.append(message)
        try:
            while self.waiting:
                self.socket.send(self.waiting[0])
                self.waiting.pop(0)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


class Attached:
    """The listening socket, and all clients."""

    def __init__(self, directory: str, stdin: int, master: int, once: bool) -> None:
        """Listen. `stdin`: the container's input or -1; `master`: its terminal or -1; `once`: the
        input ends with the first client's.

        Raises OSError.
        """
        self.path = f"{directory}/{places.ATTACH}"
        self.stdin = os.dup(master) if master >= 0 else stdin
        self.master = master
        self.once = once and master < 0
        self.ends = False
        """The input is to end as soon as all of it is written."""
        self.input = b""
        self.clients: dict[int, Attachee] = {}
        self.socket = descriptors.packets()
        try:
            os.unlink(self.path)  # of a run before
        except FileNotFoundError:
            pass
        descriptors.bind(self.socket, self.path)
        self.socket.listen(_BACKLOG)

    @property
    def is_full(self) -> bool:
        """Return True while a client has not taken all that it was sent."""
        return any(client.waiting for client in self.clients.values())

    def interests(self) -> Iterator[tuple[int, int]]:
        """Yield what poll(2) is to wait for."""
        yield self.socket.fileno(), select.POLLIN
        if self.input:
            yield self.stdin, select.POLLOUT
        for fd, client in self.clients.items():
            events = 0 if self.input else select.POLLIN
            yield fd, events | (select.POLLOUT if client.waiting else 0)

    def handle(self, fd: int) -> None:
        """Do what there is to do for a descriptor of :meth:`interests`.

        Its client may be gone: :meth:`show`, since poll(2), has found that out.
        """
        if fd == self.socket.fileno():
            self._accept()
        elif fd == self.stdin:
            self._write_input(b"")
        elif fd in self.clients:
            client = self.clients[fd]
            if not (client.send() and self._receive(client)):
                self.clients.pop(fd).socket.close()

    def _accept(self) -> None:
        try:
            client = Attachee(descriptors.accept(self.socket))
        except OSError:
            return  # it has gone, or there is no descriptor for it now
        if client.send(HELLO):
            self.clients[client.socket.fileno()] = client

    def _receive(self, client: Attachee) -> bool:
        """Take one message; return False if the client has gone."""
        if self.input:
            return True
        try:
            message = client.socket.recv(LARGEST + 1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if message[:1] == INPUT:
            self.ends = self.ends or (self.once and len(message) == 1)
            self._write_input(message[1:])
        elif message[:1] == WINDOW and self.master >= 0 and len(message) == 5:
            rows, columns = struct.unpack("<2H", message[1:])
            relay.set_size(self.master, rows, columns)
        return bool(message)

    def _write_input(self, data: bytes) -> None:
        """Give the command input; what it does not take yet waits, and so do the clients."""
        self.input += data
        if self.stdin < 0:
            self.input = b""
        try:
            while self.input:
                self.input = self.input[os.write(self.stdin, self.input) :]
        except BlockingIOError:
            pass
        except OSError:  # it has closed its standard input
            self.ends, self.input = True, b""
        if self.ends and not self.input and self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def show(self, name: str, data: bytes) -> None:
        """Send every client what the command has written to stdout or stderr."""
        kind = ERROR if name == "stderr" else OUTPUT
        for fd, client in list(self.clients.items()):
            parts = range(0, len(data), LARGEST)
            if not all(client.send(kind + data[at : at + LARGEST]) for at in parts):
                self.clients.pop(fd).socket.close()

    def end(self, status: int) -> None:
        """Tell every client the exit status, and listen no more. Raises OSError."""
        self.socket.close()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass  # of --rm the directory has gone
        for client in self.clients.values():
            client.socket.settimeout(_LAST_SECONDS)
            client.send(STATUS + bytes((status,)))
            client.socket.close()
        self.clients.clear()
