"""The process minirun:names answers: DNS, RFC 1035, by UDP and TCP, with EDNS, RFC 6891.

    a name of the container's networks        its addresses, in random order; also NAME.NETWORK
    an address of one, as a name (PTR)        NAME.NETWORK
    such a name, of another type              no records: the name exists, and is nothing else
    all else                                  as the host's servers answer, or those of --dns

All that comes in a packet is a stranger's: dnspython reads it, sizes and counts are checked before
that, and a packet that is itself an answer gets none. It goes on only as dnspython writes it anew,
from a port and with a number that cannot be guessed; of what comes back only the header and the
question are read, and have to be those of the query.

Where we simplify: docker's server also knows swarm's services (SRV); nothing is remembered here.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import json
import os
import random
import secrets
import socket
import struct
from functools import partial
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.OPT  # these by name: dnspython itself imports them at their first use
import dns.rdtypes.ANY.PTR
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA
import dns.reversename
import dns.rrset

from minirun.net.names import KNOWN

_PORT = 53
_HEADER = struct.Struct("!6H")
"""Number, flags, and how many questions, answers, authorities, others: RFC 1035, 4.1.1."""
_OPERATION = 0x7800
"""The bits of OPCODE in its flags; 0 is a query."""
_EXTRA = 2
"""Records that a query may carry after its question: OPT, and one more."""
_LARGEST_QUERY, _LARGEST = 4096, 65535
"""Bytes; a query is a name of 255 at most, and options."""
_PLAIN, _OFFERED = 512, 1232
"""Bytes of an answer by UDP: without EDNS, and what it offers with it (DNS flag day 2020)."""
_TTL = 1
"""Seconds: a container that is started again has another address. docker's is 600."""
_PATIENCE = 4.0
"""Seconds for all servers together: resolv.conf(5) waits 5, and is to hear that none answers."""
_IDLE = 10.0
"""Seconds for which a connection may be silent, or take nothing."""
_MOST, _CONNECTIONS = 256, 64
"""Questions by UDP, and connections, at once; more are dropped."""
_ZONES = (dns.rdatatype.AXFR, dns.rdatatype.IXFR)
"""Whole zones, in many packets: not passed on."""


class NotAQuery(Exception):
    """A packet that gets no answer."""


def query_of(data: bytes) -> tuple[dns.message.Message, int]:
    """Return the query in a packet and NOERROR; or the begin of an answer, and its error.

    Raises NotAQuery for a packet that is none, such as an answer: two servers would talk for ever.
    """
    if len(data) < _HEADER.size or data[2] & 0x80:
        raise NotAQuery
    number, flags, questions, answers, authorities, others = _HEADER.unpack_from(data)
    empty = dns.message.QueryMessage(id=number)
    empty.flags = flags & dns.flags.RD
    if flags & _OPERATION:
        return empty, dns.rcode.NOTIMP
    if len(data) > _LARGEST_QUERY or questions != 1 or answers or authorities or others > _EXTRA:
        return empty, dns.rcode.FORMERR
    try:
        query = dns.message.from_wire(data)
        query.to_wire()
    except Exception:  # dnspython's own, and whatever else strange bytes lead to
        return empty, dns.rcode.FORMERR
    asked = query.question[0]
    if asked.rdclass != dns.rdataclass.IN or asked.rdtype in _ZONES:
        return query, dns.rcode.REFUSED
    return query, dns.rcode.BADVERS if query.edns > 0 else dns.rcode.NOERROR


def answer(
    query: dns.message.Message, rcode: int = dns.rcode.NOERROR, kind: str = "",
    texts: list[str] | None = None, limit: int = _LARGEST, *, is_cut: bool = False,
) -> bytes:  # fmt: skip
    """Return the packet that answers a query: with records of a type, if there are `texts`.

    What is above `limit` bytes is left out, and the packet says so (TC): RFC 1035, 4.2.1. `is_cut`:
    it says so anyway.
    """
    made = dns.message.QueryMessage(id=query.id)
    made.flags = dns.flags.QR | dns.flags.RA | (query.flags & dns.flags.RD)
    made.flags |= dns.flags.TC if is_cut else 0
    made.question = list(query.question)
    if query.edns >= 0:
        made.use_edns(0, payload=_OFFERED)
    made.set_rcode(dns.rcode.Rcode(rcode))
    left = list(texts or ())
    while True:
        made.answer = []
        if left:
            name = query.question[0].name
            made.answer = [dns.rrset.from_text_list(name, _TTL, "IN", kind, left)]
        try:
            wire: bytes = made.to_wire(max_size=limit)
            return wire
        except dns.exception.TooBig:
            made.flags |= dns.flags.TC
            left = left[: len(left) // 2]


class KnownNames:
    """What the file says: the names on the container's networks."""

    def __init__(self, rows: list[Any], *, leads_out: bool) -> None:
        self.leads_out = leads_out
        self.names: dict[str, dict[str, list[str]]] = {}
        """Name → network → addresses."""
        self.addresses: dict[str, str] = {}
        for network, called, names, addresses in rows:
            there = [address for address in addresses if address]
            for name in dict.fromkeys(str(each).lower() for each in names):
                for full in (name, f"{name}.{network}".lower()):
                    self.names.setdefault(full, {}).setdefault(network, []).extend(there)
            for address in there:
                self.addresses.setdefault(address, f"{called}.{network}.")

    def of_name(self, name: str) -> list[str] | None:
        """Return the addresses of a name on the first network that has it; None if none has."""
        return next(iter(self.names.get(name.lower(), {}).values()), None)


def read(folder: int) -> KnownNames:
    """Return what the file in an open folder says. Raises OSError, ValueError, LookupError."""
    fd = os.open(KNOWN, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with open(fd, "rb") as file:
        row = json.load(file)
    return KnownNames(row["rows"], leads_out=row["leads_out"])


def own_answer(known: KnownNames, query: dns.message.Message, limit: int) -> bytes:
    """Return the answer to a query about the container's networks; empty if it is about others."""
    asked = query.question[0]
    if asked.rdtype == dns.rdatatype.PTR and (name := _reverse(known, asked.name)):
        return answer(query, dns.rcode.NOERROR, "PTR", [name], limit)
    addresses = known.of_name(asked.name.to_text(omit_final_dot=True))
    if addresses is None:
        return b""
    version = {dns.rdatatype.A: 4, dns.rdatatype.AAAA: 6}.get(asked.rdtype)
    fitting = [each for each in addresses if ipaddress.ip_address(each).version == version]
    random.shuffle(fitting)
    kind = dns.rdatatype.to_text(asked.rdtype)
    return answer(query, dns.rcode.NOERROR, kind, fitting, limit)


def _reverse(known: KnownNames, name: dns.name.Name) -> str:
    """Return the name of an address that is written as a name; empty if it has none here."""
    try:
        address = str(ipaddress.ip_address(dns.reversename.to_address(name)))
    except (dns.exception.DNSException, ValueError):
        return ""
    return known.addresses.get(address, "")


class NameAnswers:
    """What is answered to one container."""

    def __init__(self, folder: int, servers: list[str]) -> None:
        self.folder, self.servers = folder, servers

    async def to(self, data: bytes, *, by_tcp: bool) -> bytes:
        """Return the answer to a packet; empty if it gets none."""
        try:
            query, rcode = query_of(data)
        except NotAQuery:
            return b""
        limit = _LARGEST if by_tcp else max(query.payload, _PLAIN)
        if rcode:
            return answer(query, rcode)
        try:
            known = read(self.folder)
        except (OSError, ValueError, LookupError, TypeError):
            return answer(query, dns.rcode.SERVFAIL)
        if own := own_answer(known, query, limit):
            return own
        found = await self._of_servers(query, by_tcp=by_tcp) if known.leads_out else b""
        if not found:
            return answer(query, dns.rcode.SERVFAIL)
        return found if len(found) <= limit else answer(query, is_cut=True)

    async def _of_servers(self, query: dns.message.Message, *, by_tcp: bool) -> bytes:
        """Return what the first server says that answers; empty if none does."""
        number, query.id = query.id, secrets.randbelow(1 << 16)
        wire, kept = query.to_wire(), b""
        for server in self.servers:
            try:
                async with asyncio.timeout(_PATIENCE / len(self.servers)):
                    found = await (_by_tcp if by_tcp else _by_udp)(server, wire, query)
            except (OSError, EOFError):  # its time is over, it refuses, it ends
                continue
            kept = struct.pack("!H", number) + found[2:]
            if found[3] & 0xF not in (dns.rcode.SERVFAIL, dns.rcode.REFUSED):
                break
        query.id = number
        return kept


def is_answer(query: dns.message.Message, data: bytes) -> bool:
    """Return True if a packet answers a query: its number and its question are the same."""
    try:
        return bool(query.is_response(dns.message.from_wire(data, question_only=True)))
    except Exception:  # as in query_of
        return False


async def _by_udp(server: str, wire: bytes, query: dns.message.Message) -> bytes:
    """Return a server's answer; packets that are none are passed over. Raises OSError."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asking:
        asking.connect((server, _PORT))
        await loop.sock_sendall(asking, wire)
        while not is_answer(query, found := await loop.sock_recv(asking, _LARGEST)):
            pass
        return found


async def _by_tcp(server: str, wire: bytes, query: dns.message.Message) -> bytes:
    """Return a server's answer. Raises OSError, EOFError."""
    reader, writer = await asyncio.open_connection(server, _PORT)
    try:
        writer.write(_framed(wire))
        found = await _frame(reader)
        if not is_answer(query, found):
            raise EOFError
        return found
    finally:
        writer.transport.abort()


def _framed(data: bytes) -> bytes:
    """Return a packet as it goes by TCP, after its length: RFC 1035, 4.2.2."""
    return struct.pack("!H", len(data)) + data


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next packet of a connection. Raises EOFError, OSError."""
    return await reader.readexactly(*struct.unpack("!H", await reader.readexactly(2)))


class _QuestionsByUdp(asyncio.DatagramProtocol):
    """Questions by UDP."""

    def __init__(self, answers: NameAnswers) -> None:
        self.answers = answers
        self.tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio at the start."""
        self.transport = transport

    def datagram_received(self, data: bytes, sender: object) -> None:
        """Called by asyncio for each datagram."""
        if len(self.tasks) < _MOST:
            task = asyncio.get_running_loop().create_task(self._answer(data, sender))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _answer(self, data: bytes, sender: object) -> None:
        if found := await self.answers.to(data, by_tcp=False):
            self.transport.sendto(found, sender)  # type: ignore[attr-defined]


class _QuestionsByTcp:
    """Questions by TCP."""

    count = 0

    def __init__(self, answers: NameAnswers) -> None:
        self.answers = answers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer what comes by one connection, until it ends or is silent."""
        self.count += 1
        try:
            while self.count <= _CONNECTIONS:
                async with asyncio.timeout(_IDLE):
                    data = await _frame(reader)
                if not (found := await self.answers.to(data, by_tcp=True)):
                    break
                writer.write(_framed(found))
                async with asyncio.timeout(_IDLE):
                    await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            self.count -= 1
            writer.transport.abort()


def run(
    udp: socket.socket, tcp: socket.socket, folder: int, servers: list[str], pidfd: int
) -> None:
    """Answer until init, of `pidfd`, has ended."""
    gc.freeze()  # what came with the copy stays shared with the runtime: a collection writes to it
    gc.enable()  # the launcher has switched it off
    asyncio.run(_serve(udp, tcp, NameAnswers(folder, servers), pidfd))


async def _serve(udp: socket.socket, tcp: socket.socket, answers: NameAnswers, pidfd: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    kept = (
        await loop.create_datagram_endpoint(partial(_QuestionsByUdp, answers), sock=udp),
        await asyncio.start_server(_QuestionsByTcp(answers).serve, sock=tcp),
    )
    await ended.wait()
    del kept
