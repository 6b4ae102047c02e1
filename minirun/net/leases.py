"""What a container has on a network: its address, its end of a veth pair, its ports, its names.

A lease is a file of its own, written before the things that it names are made: so what a killed
command has left is found by it, and removed (minirun.net.attach.sweep). It ends with its container:
a lease whose container is gone, or has stopped, is taken back by the next command that needs an
address.

    STORE/networks/NAME/leases/ID[.CRC32]      CRC32: of the state root, if that is not the store's

Addresses are given in turn, the next after the last one: neighbours keep in mind which hardware
address an address had, arp(7), and one that was given back just now would lead them astray.
"""

from __future__ import annotations

import ipaddress
import os
from binascii import crc32

from minirun.common import docker_record
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping import jsonlite, places, state, state_file
from minirun.core.keeping.record import Record
from minirun.net.network import LEASES, Network, NetworkError, folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from minirun.core.keeping.container_record import ContainerRecord, ProcessIdentity

_LAST = ".last"
"""In the folder of leases: the address that was given last."""


class Lease(Record):
    """What one container has on one network."""

    container: str
    """Its directory, ROOT/ID."""
    network: str
    interface: str
    """The link's name in the container: eth0."""
    link: str
    """The name of the other end, on the host."""
    address: str
    mac: str
    address6: str = ""
    names: tuple[str, ...] = ()
    """What its neighbours call it: hostname, name, the begin of its id, aliases."""
    ports: tuple[dict[str, Any], ...] = ()
    """Published ports, minirun.net.ports.Port of each, with the number that the host has for it."""
    holder: ProcessIdentity | None = None
    """The process that holds these ports: minirun.net.ports."""

    @property
    def id(self) -> str:
        """The container's id."""
        return self.container.rpartition("/")[2]

    @property
    def called(self) -> str:
        """What the container is called now; its id if it is gone, or has no other name."""
        return state.name_of(self.container)


def file_name(container: str, store: str) -> str:
    """Return the name of a container's lease; `container` is its directory."""
    root, _, container_id = container.rpartition("/")
    own = root == f"{store}/{places.CONTAINERS}"
    return container_id if own else f"{container_id}.{crc32(os.fsencode(root)):08x}"


def path(store: str, lease: Lease) -> str:
    """Return the path of a lease's file."""
    name = file_name(lease.container, store)
    return f"{folder(store, lease.network)}/{LEASES}/{name}"


def all_of(store: str, network: str) -> list[Lease]:
    """Return all leases of a network, dead ones too. A damaged file is no lease."""
    directory = f"{folder(store, network)}/{LEASES}"
    try:
        fd = state_file.open_directory(directory)
    except FileNotFoundError:
        return []
    try:
        return [lease for lease in _read(fd) if lease.network == network]
    finally:
        os.close(fd)


def _read(fd: int) -> Iterator[Lease]:
    """Yield the leases of a folder; files that are no leases are passed over."""
    for name in sorted(os.listdir(fd)):
        if name.startswith("."):
            continue
        try:
            row = jsonlite.loads(state_file.read_file(fd, name).decode())
            row["names"], row["ports"] = tuple(row["names"]), tuple(row["ports"])
            yield Lease(**row)
        except (ValueError, TypeError, LookupError, FileNotFoundError):
            continue


def published(store: str, record: ContainerRecord) -> list[dict[str, Any]]:
    """Return the ports of a container, by its leases, or by the program of a user without root.

    A port of every address has two rows, as with docker: 0.0.0.0, and :: where the kernel has IPv6.
    """
    docker = docker_record.of(record)
    if docker.network and docker.network.mode == "userspace":
        return list(docker.network.published)
    found = (lease for each in docker.attachments for lease in all_of(store, each.network))
    own = (lease for lease in found if lease.container == record.directory)
    return [each for lease in own for port in lease.ports for each in _answering(port)]


def _answering(port: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a published port for each address by which it answers; SCTP is not passed on to ::."""
    if port["host_ip"]:
        return [port]
    by_six = os.path.exists("/proc/net/if_inet6") and port["protocol"] != "sctp"
    return [port | {"host_ip": at} for at in ("0.0.0.0", *(["::"] if by_six else ()))]


def is_live(lease: Lease) -> bool:
    """Return True if the container of a lease is being made, or its init runs."""
    root, _, container_id = lease.container.rpartition("/")
    try:
        record = state.load(root, container_id)
    except (StateError, OSError):
        return False
    return record.status != state.STOPPED


def save(store: str, lease: Lease) -> None:
    """Write a lease; the caller holds the lock. Raises OSError."""
    file = path(store, lease)
    base, _, name = file.rpartition("/")
    state.replace(file, jsonlite.dumps(lease._asdict()), f"{base}/.{name[:200]}.{os.getpid()}")


def remove(store: str, lease: Lease) -> None:
    """Give a lease back. Do nothing if it was given back. Raises OSError."""
    try:
        os.unlink(path(store, lease))
    except FileNotFoundError:
        pass


def addresses(
    store: str, network: Network, taken: list[Lease], asked: str = "", asked6: str = ""
) -> tuple[str, str]:
    """Return the addresses for one more container, IPv4 and IPv6 (empty without a prefix).

    `taken`: the leases that count; `asked`: what --ip and --ip6 say. The caller holds the lock, and
    saves the lease and the address (`save_last`). Raises UsageError, NetworkError.
    """
    used = {lease.address for lease in taken} | {network.gateway}
    subnet = ipaddress.ip_network(network.subnet)
    address = _given(asked, subnet, used) if asked else _next(store, network, used)
    if not network.subnet6:
        if asked6:
            raise UsageError(f"network {network.name} has no IPv6 prefix", "network create --ipv6")
        return address, ""
    subnet6 = ipaddress.ip_network(network.subnet6)
    used6 = {lease.address6 for lease in taken} | {network.gateway6}
    if asked6:
        return address, _given(asked6, subnet6, used6)
    number = int(ipaddress.ip_address(address)) - int(subnet.network_address)
    address6 = str(subnet6[number % subnet6.num_addresses])
    while address6 in used6:  # one that was asked for by name
        number += 1
        address6 = str(subnet6[number % subnet6.num_addresses])
    return address, address6


def _given(text: str, subnet: Any, used: set[str]) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise UsageError(f"invalid address {text!r}: {error}", "--ip 10.89.0.7") from None
    if address not in subnet or address in (subnet.network_address, subnet.broadcast_address):
        raise UsageError(f"address {text} is no host's address in {subnet}")
    if str(address) in used:
        raise NetworkError(f"address {text} is in use", "minirun network inspect shows by whom")
    return str(address)


def _next(store: str, network: Network, used: set[str]) -> str:
    """Return the next free address after the one that was given last. Raises NetworkError."""
    pool = ipaddress.ip_network(network.ip_range or network.subnet)
    first, size = int(pool.network_address), pool.num_addresses
    try:
        last = int(ipaddress.ip_address(state.read_text(_last(store, network)).strip())) - first
    except (OSError, ValueError):
        last = 0
    subnet = ipaddress.ip_network(network.subnet)
    edges = {str(subnet.network_address), str(subnet.broadcast_address)}
    for step in range(1, size + 1):
        address = str(ipaddress.ip_address(first + (last + step) % size))
        if address not in used and address not in edges:
            return address
    raise NetworkError(f"network {network.name} has no free address left in {pool}")


def save_last(store: str, network: Network, address: str) -> None:
    """Note which address was given last: the next one follows it. Raises OSError."""
    file = _last(store, network)
    state.replace(file, address, f"{file}.{os.getpid()}")


def _last(store: str, network: Network) -> str:
    """Return the path of the file that keeps the address given last."""
    return f"{folder(store, network.name)}/{LEASES}/{_LAST}"
