"""Published ports: the words of -p, and the traffic that nftables cannot redirect.

    [IP:][HOST]:CONTAINER[/tcp|udp|sctp]        docker's; HOST and CONTAINER may be ranges 8000-8003

The firewall leads packets to the container (minirun.net.firewall); it holds no port: another
program could bind the same one, and neither would notice. So a process of its own, minirun:ports,
binds the ports while the container lives. It also passes on what comes by IPv6 to a container that
has IPv4 alone, and what comes to ::1, which the kernel does not route: so `localhost`, which is ::1
for many programs first, answers too.

The real stack: docker has a process docker-proxy for each port; with podman conmon holds the
sockets, and passes nothing on.
"""

from __future__ import annotations

import errno
import os
import socket

from minirun.common.ports import MOST, PROTOCOLS, host_span, span
from minirun.common.processes import pids
from minirun.core.errors import UsageError, reason
from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy
from minirun.net import helpers
from minirun.net.network import NetworkError

with lazy:
    import ipaddress

    from minirun.net import relay  # asyncio: 40 ms, in the process that holds the ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from minirun.core.keeping.container_record import ProcessIdentity

_SCTP = 132
"""IPPROTO_SCTP, in.h."""


class Port(Record):
    """One published port of a container."""

    port: int
    """In the container."""
    protocol: str = "tcp"
    host_ip: str = ""
    """Which address of the host answers; empty: each."""
    first: int = 0
    """The port of the host, or the first of several that will do; 0: the kernel chooses."""
    last: int = 0
    """The last of them."""

    def row(self, number: int | str) -> dict[str, Any]:
        """Return what a lease keeps of it; `number`: the host's port."""
        return {
            "port": self.port, "protocol": self.protocol, "host_ip": self.host_ip,
            "host_port": number,
        }  # fmt: skip


def parse(text: str) -> list[Port]:
    """Return what one -p means. Raises UsageError, in docker's words."""
    hint = "-p 8080:80, -p 127.0.0.1:8080:80/udp, -p 8000-8003:8000-8003, -p 80"
    text = _short(text, hint) if "=" in text else text
    rest, _, protocol = text.partition("/")
    protocol = protocol.lower() or "tcp"
    if protocol not in PROTOCOLS:
        raise UsageError(f"invalid proto: {protocol}", f"port {text!r}: {', '.join(PROTOCOLS)}")
    host_ip, rest = _address(rest, text, hint)
    host, colon, inside = rest.rpartition(":")
    if ":" in host or (host_ip and not colon and rest != inside):
        raise UsageError(f"invalid publish opts format: {text!r}", hint)
    first, last = _range(inside, text, "containerPort", hint)
    if not host:
        return [Port(port, protocol, host_ip) for port in range(first, last + 1)]
    low, high = _range(host, text, "hostPort", hint, host_span)
    if not high:
        return [Port(port, protocol, host_ip) for port in range(first, last + 1)]
    if first == last:
        return [Port(first, protocol, host_ip, low, high)]
    if high - low != last - first:
        what = f"invalid ranges specified for container and host Ports: {inside} and {host}"
        raise UsageError(what, hint)
    return [Port(first + n, protocol, host_ip, low + n, low + n) for n in range(high - low + 1)]


def _short(text: str, hint: str) -> str:
    """Return docker's long form, published=8080,target=80,protocol=tcp, in the short one."""
    given = dict(field.partition("=")[::2] for field in text.split(","))
    if "target" not in given or set(given) - {"target", "published", "protocol", "mode"}:
        form = "published=8080,target=80,protocol=tcp"
        raise UsageError(f"invalid publish opts format: {text!r}", f"{form}; {hint}")
    host = f"{given['published']}:" if "published" in given else ""
    return f"{host}{given['target']}/{given.get('protocol', 'tcp')}"


def _address(rest: str, text: str, hint: str) -> tuple[str, str]:
    """Return the address before the ports, and the ports."""
    if rest.startswith("["):
        given, bracket, after = rest[1:].partition("]:")
        if not bracket:
            raise UsageError(f"invalid publish opts format: {text!r}", hint)
    elif rest.count(":") == 2:
        given, _, after = rest.partition(":")
    else:
        return "", rest
    if not given:
        return "", after
    try:
        found = ipaddress.ip_address(given)
    except ValueError:
        raise UsageError(f"invalid IP address: {given}", f"port {text!r}; {hint}") from None
    return "" if found.is_unspecified else str(found), after


def _range(
    words: str, text: str, what: str, hint: str, read: Callable[[str], range | None] = span
) -> tuple[int, int]:
    found = read(words)
    if found is None:
        raise UsageError(f"invalid {what}: {words!r} of port {text!r}", f"1 to {MOST}; {hint}")
    if not found:
        raise UsageError(f"invalid {what}: {words}: the first is larger than the last", hint)
    return found[0], found[-1]


def shown(ports: list[dict[str, Any]]) -> list[str]:
    """Return published ports as docker's `ps` has them: 0.0.0.0:8080->80/tcp."""
    rows = []
    for port in ports:
        at = port["host_ip"] or "0.0.0.0"
        at = f"[{at}]" if ":" in at else at
        rows.append(f"{at}:{port['host_port']}->{port['port']}/{port['protocol']}")
    return rows


class Held(Record):
    """A port that is bound."""

    port: Port
    number: int
    """The one that the host has for it."""
    bound: socket.socket


def bind(port: Port) -> Held:
    """Bind a port on the host, so that no other program has it. Raises NetworkError, OSError."""
    for number in range(port.first, port.last + 1):
        try:
            bound = _bind(port, number)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and number < port.last:
                continue
            raise _refusal(port, number, error) from None
        return Held(port, bound.getsockname()[1], bound)
    raise NetworkError("no port")


def _bind(port: Port, number: int) -> socket.socket:
    kind = socket.SOCK_DGRAM if port.protocol == "udp" else socket.SOCK_STREAM
    protocol = _SCTP if port.protocol == "sctp" else 0
    family = socket.AF_INET if port.host_ip and ":" not in port.host_ip else socket.AF_INET6
    try:
        bound = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
    except OSError as error:
        if error.errno != errno.EAFNOSUPPORT or port.host_ip:
            raise
        family = socket.AF_INET  # a kernel without IPv6
        bound = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
    try:
        if kind == socket.SOCK_STREAM:  # what an earlier container had may be in TIME_WAIT
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        any_address = "::" if family == socket.AF_INET6 else "0.0.0.0"
        if family == socket.AF_INET6 and not port.host_ip:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((port.host_ip or any_address, number))
        if kind == socket.SOCK_STREAM:
            bound.listen(128)
    except OSError:
        bound.close()
        raise
    return bound


class PortInUse(NetworkError):
    """Another program has a port; `pid` is its process, 0 if it cannot be seen."""

    def __init__(self, where: str, other: int, user: str, pid: int) -> None:
        self.where, self.other, self.pid = where, other, pid
        has = f" by {user}" if user else ""
        what = f"failed to bind host port {where}: address already in use{has}"
        super().__init__(what, f"another one, such as {other}")

    def by(self, user: str) -> PortInUse:
        """Return the same error with another name of who has it."""
        return PortInUse(self.where, self.other, user, self.pid)


def _refusal(port: Port, number: int, error: OSError) -> NetworkError:
    """Return docker's words for a port that cannot be had, and who has it."""
    where = f"{port.host_ip or '0.0.0.0'}:{number}/{port.protocol}"
    if error.errno == errno.EADDRINUSE:
        return in_use(port, number)
    if error.errno == errno.EADDRNOTAVAIL:
        return NetworkError(f"{port.host_ip} is no address of this host", "ip -brief address")
    text = reason(error)
    return NetworkError(f"failed to bind host port {where}: {text}")


def in_use(port: Port, number: int) -> PortInUse:
    """Return the error that says who has a port of the host."""
    where = f"{port.host_ip or '0.0.0.0'}:{number}/{port.protocol}"
    return PortInUse(where, number % MOST + 1, *holder(number, port.protocol))


def holder(number: int, protocol: str) -> tuple[str, int]:
    """Return who has a port of this host, "nginx (pid 812)", and its pid; ("", 0) if unseen."""
    inodes = set()
    for file in (f"/proc/self/net/{protocol}", f"/proc/self/net/{protocol}6"):
        try:
            rows = state.read_text(file).splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if int(fields[1].rpartition(":")[2], 16) == number:
                inodes.add(f"socket:[{fields[9]}]")
    for pid in pids():
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") in inodes:
                    name = state.read_text(f"/proc/{pid}/comm").strip()
                    return f"{name} (pid {pid})", pid
        except OSError:
            continue
    return "", 0


def hold(held: list[Held], address: str, init_pid: int) -> ProcessIdentity:
    """Start the process that holds the ports while init lives; return what it is known by.

    `address`: the container's, of IPv4.

    The caller closes its own copies of the sockets. Raises NetworkError, OSError.
    """
    ways = [relay.Way(each.bound, each.port.protocol, address, each.port.port) for each in held]
    begun = helpers.begin(
        "minirun:ports", init_pid, lambda: [way.bound.fileno() for way in ways],
        lambda pidfd: relay.run(ways, pidfd), "it holds the published ports while init lives",
    )  # fmt: skip
    return helpers.ready(begun)
