"""The process minirun:ports: it listens on published ports where nftables cannot redirect.

These are connections by IPv6 to a container that has IPv4 alone, and those to ::1. Each TCP
connection becomes one to the container; each sender of UDP gets a socket of its own, until it has
been silent for a minute. It runs as a user of its own, knows one container's address, and ends with
init.

The real stack: docker-proxy does the same, one process a port, for the whole life of the port.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial

from minirun.core.keeping.record import Record

_CHUNK = 1 << 16
_SILENCE = 60.0
"""Seconds without a datagram after which a sender of UDP is forgotten; conntrack's is 30 to 120."""
_MOST = 1024
"""Connections, and senders, at once: more are refused."""


class Way(Record):
    """What comes to a bound socket goes to a port of the container."""

    bound: socket.socket
    protocol: str
    """tcp, udp or sctp. What comes by sctp has no way but the firewall's."""
    address: str
    port: int


def run(ways: list[Way], pidfd: int) -> None:
    """Serve until init, of `pidfd`, has ended."""
    asyncio.run(_serve(ways, pidfd))


async def _serve(ways: list[Way], pidfd: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    kept: list[object] = []
    for way in ways:
        way.bound.setblocking(False)
        to = (way.address, way.port)
        if way.protocol == "tcp":
            kept.append(await asyncio.start_server(_Connections(to).serve, sock=way.bound))
        elif way.protocol == "udp":
            senders = partial(_Senders, to)
            kept.append(await loop.create_datagram_endpoint(senders, sock=way.bound))
    await ended.wait()


class _Connections:
    """What has connected to one port."""

    count = 0

    def __init__(self, to: tuple[str, int]) -> None:
        self.to = to

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on, in both directions, until both are at their end."""
        if self.count >= _MOST:
            writer.close()
            return
        self.count += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.to)
        except OSError:
            writer.transport.abort()
            self.count -= 1
            return
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            for one in (writer, far_writer):
                one.close()
            self.count -= 1


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, and then end the other direction's half: shutdown(2)."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


class _Senders(asyncio.DatagramProtocol):
    """Those who send datagrams to one port, each with a socket to the container."""

    def __init__(self, to: tuple[str, int]) -> None:
        self.to = to
        self.known: dict[object, _Answers] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio at the start."""
        self.transport = transport

    def datagram_received(self, data: bytes, sender: object) -> None:
        """Called by asyncio for each datagram."""
        if sender not in self.known and len(self.known) < _MOST:
            self.known[sender] = _Answers(self, sender)
        if sender in self.known:
            self.known[sender].send(data)


class _Answers:
    """The container's side of one sender."""

    def __init__(self, senders: _Senders, sender: object) -> None:
        self.senders, self.sender = senders, sender
        self.loop = asyncio.get_running_loop()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.connect(senders.to)
        self.loop.add_reader(self.socket.fileno(), self._receive)
        self.timer = self.loop.call_later(_SILENCE, self._forget)

    def send(self, data: bytes) -> None:
        """Pass a datagram on to the container."""
        self._stay()
        try:
            self.socket.send(data)
        except OSError:  # as lost as any datagram may be
            pass

    def _receive(self) -> None:
        self._stay()
        try:
            data = self.socket.recv(_CHUNK)
        except OSError:  # the container's port is closed: ICMP
            return
        self.senders.transport.sendto(data, self.sender)  # type: ignore[attr-defined]

    def _stay(self) -> None:
        self.timer.cancel()
        self.timer = self.loop.call_later(_SILENCE, self._forget)

    def _forget(self) -> None:
        self.loop.remove_reader(self.socket.fileno())
        self.socket.close()
        self.senders.known.pop(self.sender, None)
