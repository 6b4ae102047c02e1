"""Names by DNS, on a network that the user has made: who starts minirun:names, what it knows.

    minirun:names    a process on the host (minirun.net.nameserver), with sockets in the container's
                     network namespace, at 127.0.0.11, docker's address, which resolv.conf names
    table ip minirun of that namespace: port 53 of 127.0.0.11 is another one there, so that the
                     container can have a server of its own at 0.0.0.0:53
    ROOT/ID/network/names       what it knows: the neighbours; written anew as they come and go
    ROOT/ID/network/resolver    its process

Each container has its own: it ends with init, is asked by no other container, and asks what it does
not know from the container's own namespace, so that a wall around the container is one around it.
If it is killed, the next container that comes or goes on one of its networks starts it again.

The real stack: docker does it in the same place; its server is a part of dockerd. Podman's
aardvark-dns listens at each bridge's gateway: there a firewall of the host that drops what comes in
(ufw) drops the questions too, and a server of the host's own may have port 53.
"""

from __future__ import annotations

import os
import select
import socket

from minirun.common.network_request import DEFAULT
from minirun.core.errors import MinirunError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.visible import warn
from minirun.core.kernel import namespaces
from minirun.core.lazy import lazy
from minirun.net import firewall, helpers, names, set_up
from minirun.net.interfaces import network_of

with lazy:  # dnspython and asyncio, 150 ms: in the process, when it is asked
    from minirun.net import nameserver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.common.network_request import NetworkRequest
    from minirun.core.keeping.container_record import ContainerRecord, ProcessIdentity
    from minirun.net.helpers import StartingHelper
    from minirun.net.leases import Lease
    from minirun.net.network import Network

_PROCESS = "resolver"
_BACKLOG = 64
_WHY = "it answers the container's questions about names, at 127.0.0.11"
_LO_WHY = "init does it too, perhaps later: an answer comes from 127.0.0.11 only if lo is up"
_TABLE = "ip minirun"


class _Place:
    """The process, from its start until it is asked for the first time."""

    def __init__(self, folder: str, request: NetworkRequest, pid: int) -> None:
        self.folder, self.pid = folder, pid
        self.servers, self.are_of_host = names.upstream(request)

    def prepare(self) -> list[int]:
        """Listen in the container's network namespace, and be where to ask others from."""
        self.fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with network_of(self.pid):
            set_up("lo", why=_LO_WHY)
            self.udp, self.tcp = _listener(socket.SOCK_DGRAM), _listener(socket.SOCK_STREAM)
            why = "port 53 of 127.0.0.11 leads to minirun:names"
            numbers = (each.getsockname()[1] for each in (self.udp, self.tcp))
            firewall.transaction(redirection(*numbers), why)
        if not self.are_of_host:
            namespaces.enter(f"/proc/{self.pid}/ns/net", namespaces.CLONE_NEWNET)
        return [self.fd, self.udp.fileno(), self.tcp.fileno()]

    def serve(self, pidfd: int) -> None:
        """Wait for the first question, or init's end. Most containers ask few, and some none."""
        poll = select.poll()
        for fd in (pidfd, self.udp.fileno(), self.tcp.fileno()):
            poll.register(fd, select.POLLIN)
        if pidfd in (fd for fd, _ in poll.poll()):
            return
        lazy.load("minirun.net.nameserver")  # it may lie where only root can read
        helpers.give_up()
        nameserver.run(self.udp, self.tcp, self.fd, self.servers, pidfd)


def _listener(kind: int) -> socket.socket:
    """Return a socket that hears only what comes by lo, at 127.0.0.11. Raises OSError."""
    listener = socket.socket(socket.AF_INET, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    listener.bind((names.RESOLVER, 0))
    if kind == socket.SOCK_STREAM:
        listener.listen(_BACKLOG)
    return listener


def redirection(udp: int | str, tcp: int | str) -> list[str]:
    """Return nft's commands that lead port 53 of 127.0.0.11 to these ports; an earlier one goes."""
    rows = [f"add table {_TABLE}", f"delete table {_TABLE}", f"add table {_TABLE}"]
    rows.append(f"add chain {_TABLE} output {{ type nat hook output priority -100; }}")
    for protocol, number in (("udp", udp), ("tcp", tcp)):
        to = f"{protocol} dport 53 dnat to {names.RESOLVER}:{number}"
        rows.append(f"add rule {_TABLE} output ip daddr {names.RESOLVER} {to}")
    return rows


def begin(directory: str, request: NetworkRequest, pid: int) -> StartingHelper | None:
    """Start the process of a container with init `pid`, if it is to have one. Raises OSError."""
    if not names.asks_resolver(request):
        return None
    stop(directory)  # an earlier init's, which is about to end
    place = _Place(f"{directory}/{places.NETWORK_FILES}", request, pid)
    return helpers.begin("minirun:names", pid, place.prepare, place.serve, _WHY, reads=True)


def finish(begun: StartingHelper | None, directory: str, request: NetworkRequest) -> None:
    """Wait until it serves, and let resolv.conf name it. If it does not, hosts alone has names.

    A line says so. Raises OSError.
    """
    process = None
    try:
        process = helpers.ready(begun) if begun else None
    except MinirunError as error:
        warn(f"no names by DNS, only those of /etc/hosts: {error}")
    if process:
        file = _file(directory)
        state.replace(file, jsonlite.dumps(process), f"{file}.{os.getpid()}")
    names.follow(directory, request, by_resolver=bool(process))


def keep(record: ContainerRecord, request: NetworkRequest) -> None:
    """Start the process of a running container if it has none: it was killed, or is new.

    Raises OSError.
    """
    running = record.status in (state.CREATED, state.RUNNING, state.PAUSED)
    if running and names.asks_resolver(request) and not state.is_alive(_process(record.directory)):
        finish(begin(record.directory, request, record.pid), record.directory, request)


def stop(directory: str) -> None:
    """End the process of a container, and wait for its end. Raises OSError."""
    helpers.release(_process(directory))


def is_alive(directory: str) -> bool:
    """Return True if a container's process is there."""
    return state.is_alive(_process(directory))


def _process(directory: str) -> ProcessIdentity | None:
    """Return what is known of a container's process; None if it has none."""
    try:
        row = jsonlite.loads(state.read_text(_file(directory)))
        return {"pid": int(row["pid"]), "start": int(row["start"]), "boot": str(row["boot"])}
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _file(directory: str) -> str:
    return f"{directory}/{places.NETWORK_FILES}/{_PROCESS}"


def write(directory: str, own: list[tuple[Network, list[Lease]]]) -> None:
    """Write what a container's process answers: the names on its networks, in their order.

    `own`: its networks, and whose names it may know on each. The process is not root's, and has the
    folder open, which lies in one that only root enters. Do nothing if the container is gone.
    Raises OSError.
    """
    rows = [
        [net.name, _called(lease), lease.names, [lease.address, lease.address6]]
        for net, there in own if net.name != DEFAULT for lease in there
    ]  # fmt: skip
    leads_out = not own or any(not net.internal for net, _ in own)
    file = f"{directory}/{places.NETWORK_FILES}/{names.KNOWN}"
    next_file = f"{file}.{os.getpid()}"
    try:
        state.write(next_file, jsonlite.dumps({"rows": rows, "leads_out": leads_out}))
    except (FileNotFoundError, NotADirectoryError):
        return
    os.chmod(next_file, 0o644)
    os.rename(next_file, file)


def _called(lease: Lease) -> str:
    """Return what a reverse look-up gives, without the network: the container's name, as docker."""
    called = lease.called
    return called if called in lease.names else lease.names[0]
