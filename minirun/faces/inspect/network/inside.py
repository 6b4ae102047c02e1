"""What a container's own namespaces say: who listens in them, its hosts, its DNS servers.

/proc/PID/net has the sockets of the process's network namespace: proc_pid_net(5). hosts and
resolv.conf are read below the container's root, as any file of a container (Root), since it may
have put others there.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from contextlib import closing

from minirun.common.processes import pids
from minirun.core.errors import reason
from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.core.rootfs.inroot import Root
from minirun.net.interfaces import network_of

_LISTENS = {"tcp": "0A", "udp": "07"}
"""TCP_LISTEN, and for UDP a socket that is not connected: include/net/tcp_states.h."""
_LARGEST = 1 << 20
_DNS_WAIT = 2.0
"""Seconds for the answer of one DNS server; a resolver waits 5, resolv.conf(5)."""
_A, _AAAA, _IN, _RECURSE = 1, 28, 1, 0x0100
"""Types and class of RFC 1035, 3.2, and the flag "recursion desired"."""


class ListeningSocket(Record):
    """A socket that takes what comes to a port."""

    protocol: str
    address: str
    port: int
    inode: str = ""
    """Of the socket: what /proc/PID/fd calls it by."""

    @property
    def is_loopback(self) -> bool:
        """It can be reached from its own namespace alone."""
        return ipaddress.ip_address(self.address).is_loopback

    def takes(self, address: str) -> bool:
        """Return True if it takes what comes to an address. :: takes IPv4 too, ipv6(7)."""
        if self.address == "::":
            return True
        return self.address in (address, "::" if ":" in address else "0.0.0.0")


def listening(pid: int, protocol: str, port: int) -> list[ListeningSocket]:
    """Return the sockets that listen on a port in the network namespace of `pid`. Raises OSError.

    `protocol`: tcp or udp.
    """
    found = []
    for file in (protocol, f"{protocol}6"):
        try:
            rows = state.read_text(f"/proc/{pid}/net/{file}").splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for row in (line.split() for line in rows):
            address, _, number = row[1].partition(":")
            if int(number, 16) == port and row[3] == _LISTENS[protocol]:
                found.append(ListeningSocket(protocol, _decoded(address), port, row[9]))
    return found


def stopped(pid: int, sockets: list[ListeningSocket]) -> tuple[int, str] | None:
    """Return pid and name of a program that has one of these sockets, if all that have one are
    stopped by a signal (state T of proc_pid_stat(5)); None otherwise. `pid`: where they are."""
    wanted = {f"socket:[{one.inode}]" for one in sockets}
    own = os.stat(f"/proc/{pid}/ns/net").st_ino
    found = []
    for each in pids():
        try:
            if os.stat(f"/proc/{each}/ns/net").st_ino != own or not _has(each, wanted):
                continue
            head, _, rest = state.read_text(f"/proc/{each}/stat").rpartition(")")
        except OSError:  # it has ended
            continue
        if rest.split()[0] not in "Tt":
            return None
        found.append((each, head.partition("(")[2]))
    return found[0] if found else None


def _has(pid: int, wanted: set[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(f"{folder}/{fd}") in wanted for fd in os.listdir(folder))


def _decoded(text: str) -> str:
    """Return an address of /proc/net/tcp: words of 32 bits, each as the machine has it."""
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _lines(pid: int, path: str) -> list[list[str]]:
    """Return the words of each line of a file of the container; none if it cannot be read."""
    try:
        with closing(Root.at(f"/proc/{pid}/root")) as root:
            text = root.read(path, _LARGEST).decode(errors="replace")
    except OSError:
        return []
    return [line.partition("#")[0].split() for line in text.splitlines()]


def hosts(pid: int) -> list[tuple[str, tuple[str, ...]]]:
    """Return address and names of each line of the container's hosts(5)."""
    found = []
    for words in _lines(pid, "/etc/hosts"):
        try:
            found.append((str(ipaddress.ip_address(words[0])), tuple(words[1:])))
        except (IndexError, ValueError):
            continue
    return found


def name_servers(pid: int) -> list[str]:
    """Return the DNS servers of the container's resolv.conf(5): addresses."""
    found = []
    for words in _lines(pid, "/etc/resolv.conf"):
        if words[:1] == ["nameserver"] and len(words) > 1:
            try:
                found.append(str(ipaddress.ip_address(words[1].partition("%")[0])))
            except ValueError:
                continue
    return found


def ask_dns(pid: int, server: str, name: str) -> list[str] | None:
    """Ask a DNS server for a name's addresses, from the network namespace of `pid`: RFC 1035.

    None if it does not answer; an empty list if it knows none. Raises UnicodeError for a name that
    is none.
    """
    answered, found = False, []
    for kind in (_A, _AAAA):
        with network_of(pid):
            family = socket.AF_INET6 if ":" in server else socket.AF_INET
            asking = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        with asking:
            try:
                asking.settimeout(_DNS_WAIT)
                asking.connect((server, 53))
                number = os.urandom(2)
                asking.send(_question(number, name, kind))
                data = asking.recv(4096)
            except OSError:
                continue
            if data[:2] == number:
                answered = True
                found += _answers(data)
    return found if answered else None


def _question(number: bytes, name: str, kind: int) -> bytes:
    labels = [label.encode("idna") for label in name.rstrip(".").split(".")]
    text = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    counts = (_RECURSE, 1, 0, 0, 0)
    head = number + b"".join(one.to_bytes(2, "big") for one in counts)
    return head + text + kind.to_bytes(2, "big") + _IN.to_bytes(2, "big")


def _answers(data: bytes) -> list[str]:
    """Return the addresses of an answer; none if it is damaged. Aliases are passed over."""
    found = []
    try:
        at = 12
        for _ in range(int.from_bytes(data[4:6], "big")):
            at = _after_name(data, at) + 4
        for _ in range(int.from_bytes(data[6:8], "big")):
            at = _after_name(data, at)
            kind, size = (int.from_bytes(data[n : n + 2], "big") for n in (at, at + 8))
            value = data[at + 10 : at + 10 + size]
            if (kind, len(value)) in ((_A, 4), (_AAAA, 16)):
                found.append(str(ipaddress.ip_address(value)))
            at += 10 + size
    except IndexError:
        return []
    return found


def _after_name(data: bytes, at: int) -> int:
    """Return where a name ends: labels, or a pointer of two bytes. Raises IndexError."""
    while data[at]:
        if data[at] & 0xC0:
            return at + 2
        at += data[at] + 1
    return at + 1


def connects(pid: int, address: str, port: int, seconds: float = 3.0) -> str:
    """Try a TCP connection from the network namespace of `pid`; return "" or why there is none."""
    with network_of(pid):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        trying = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with trying:
        trying.settimeout(seconds)
        try:
            trying.connect((address, port))
        except TimeoutError:
            return f"no answer in {seconds:g} seconds"
        except OSError as error:
            return reason(error)
    return ""
