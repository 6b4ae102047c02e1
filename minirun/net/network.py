"""A network: its name, its bridge and its addresses, kept in the store.

    STORE/networks/                      its lock, flock(2): one command at a time changes networks
    STORE/networks/NAME/network.json     the network, as it was created
    STORE/networks/NAME/leases/ID        what one container has there: minirun.net.leases

A network's bridge, and its part of the firewall, are there while a container is on it: so nothing
of a network is lost when the machine starts anew.

The real stack: docker keeps networks in a database of libnetwork (and makes their bridges at once),
podman in /etc/containers/networks/NAME.json.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
from binascii import crc32
from collections.abc import Iterator
from contextlib import contextmanager

from minirun.common.network_request import DEFAULT as DEFAULT
from minirun.common.waiting import take_lock
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping import jsonlite, state, state_file
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy

with lazy:
    from minirun.core.rootfs import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RESERVED = ("none", "host", "default", "container", "pasta", "slirp4netns")
"""What --network means otherwise."""
LEASES = "leases"
"""The folder of a network's leases: minirun.net.leases."""
_FOLDER, _RECORD = "networks", "network.json"
_PATIENCE = 30.0
"""Seconds: how long a command waits in silence. Twenty starts at once take some."""
MARK, OF = "minirun network ", " of "
"""A bridge's alias is MARK, the network's name, OF, the store: minirun.net.links."""
_SHORT_PATIENCE = 5.0
"""Seconds: how long a command of another store is waited for."""
_WAITS = "waiting for another command that changes networks; a run that --step holds is one"
_DEFAULT_BRIDGE = "minirun0"
_LARGEST_MTU, _SMALLEST_MTU = 65535, 68
"""RFC 791: every link carries 68 bytes; an IPv4 packet has at most 65535."""
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


_NEVER = (
    ("0.0.0.0/8", "this host"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("::/8", "which has loopback, and IPv4 in IPv6"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
)
"""Addresses that are no host's on a network: RFC 6890, RFC 4291."""


class Network(Record):
    """One network. Addresses are texts: 10.88.0.0/16, 10.88.0.1."""

    name: str
    bridge: str
    """Its bridge's name as a link of the host."""
    subnet: str
    gateway: str
    """The bridge's own address."""
    subnet6: str = ""
    """The prefix of IPv6; empty if the network has none."""
    gateway6: str = ""
    ip_range: str = ""
    """The part of the subnet that addresses are chosen from; empty: all of it."""
    internal: bool = False
    """No way out of it."""
    mtu: int = 0
    """Bytes; 0: that of the host's way out."""
    labels: dict[str, str] = {}
    created: str = ""
    separate: bool = False
    """Its containers do not reach each other: docker's enable_icc=false."""
    own_subnet: bool = True
    """The user has chosen the subnet; so a container may choose its address in it."""
    id: str = ""
    """64 hex digits, made up when it was created."""


class NetworkError(MinirunError):
    """A network cannot be made, or used, as asked."""


def folder(store: str, name: str = "") -> str:
    """Return the folder of a network, or of all."""
    return f"{store}/{_FOLDER}/{name}" if name else f"{store}/{_FOLDER}"


@contextmanager
def locked(store: str) -> Iterator[None]:
    """Be the one command that changes networks of this store; say so if that takes long.

    A run that is held at one of its requests (`run --step`) is such a command. Raises OSError.
    """
    os.makedirs(folder(store), mode=0o700, exist_ok=True)
    fd = os.open(folder(store), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not take_lock(fd, fcntl.LOCK_EX, _PATIENCE):
            warn(_WAITS)
            fcntl.flock(fd, fcntl.LOCK_EX)
        with _locked_for_all_stores():
            yield
    finally:
        os.close(fd)


@contextmanager
def _locked_for_all_stores() -> Iterator[None]:
    """Be the one command of all stores that changes networks of this network namespace.

    Links and the firewall's table are all stores'. It is flock(2) on the namespace itself, which
    leaves nothing behind. Any user may hold that, so it is waited for, but not for long.
    """
    fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        take_lock(fd, fcntl.LOCK_EX, _SHORT_PATIENCE)
        yield
    finally:
        os.close(fd)


def names(store: str) -> list[str]:
    """Return the names of all networks that are in the store."""
    try:
        found = os.listdir(folder(store))
    except FileNotFoundError:
        return []
    return sorted(name for name in found if is_name(name))


def is_name(text: str) -> bool:
    """Return True if a text may be a network's name: docker's rule for names."""
    return bool(text) and set(text) <= _SAFE and text[0].isalnum() and len(text) <= 128


def named(store: str, text: str) -> str:
    """Return the name of the network that has this name, this id, or the only id that begins so.

    If there is none, the text. Raises NetworkError if several ids begin so.
    """
    there = names(store)
    if text in there or not text or text.strip("0123456789abcdef"):
        return text
    found = [name for name in there if id_of(store, name).startswith(text)]
    if len(found) > 1:
        raise NetworkError(f"network {text} may be {', '.join(found[:4])}", "type more of it", 1)
    return found[0] if found else text


def id_of(store: str, name: str) -> str:
    """Return a network's id; "" if its file is damaged."""
    try:
        return load(store, name).id
    except (MinirunError, OSError):
        return ""


def load(store: str, name: str) -> Network:
    """Return a network. Raises NetworkError if there is none, or its file is damaged; OSError."""
    hint = "minirun network ls; minirun network create NAME"
    if not is_name(name):
        raise UsageError(f"invalid network name {name!r}", hint)
    try:
        fd = state_file.open_directory(folder(store, name))
    except FileNotFoundError:
        raise NetworkError(f"network {name} not found", hint) from None
    try:
        row = jsonlite.loads(state_file.read_file(fd, _RECORD).decode())
        return _checked(Network(**row), name)
    except (ValueError, TypeError, FileNotFoundError) as error:
        path = f"{folder(store, name)}/{_RECORD}"
        raise NetworkError(f"{path} is damaged: {error}", f"minirun network rm {name}") from None
    finally:
        os.close(fd)


def _checked(network: Network, name: str) -> Network:
    """Return a network that was read. Raises ValueError if its file cannot be minirun's."""
    subnet = ipaddress.ip_network(network.subnet)
    if network.name != name or ipaddress.ip_address(network.gateway) not in subnet:
        raise ValueError("name and gateway are not this network's")
    if not is_bridge_of(network.bridge, name) or type(network.mtu) is not int:
        raise ValueError("its bridge is another's")
    if network.subnet6:
        ipaddress.IPv6Address(network.gateway6)
    if not state.is_made_up(network.id):  # minirun 0.2 gave it none: it has one of its name
        network = network._replace(id=id_by_name(name))
    return network


def id_by_name(name: str) -> str:
    """Return 64 hex digits for a network that has got none: always the same for a name."""
    return "".join(f"{crc32(f'{number} {name}'.encode()):08x}" for number in range(8))


def bridge_of(name: str) -> str:
    """Return the name of a network's bridge: at most 15 bytes, and no other network's."""
    if name == DEFAULT:
        return _DEFAULT_BRIDGE
    short = f"mr-{name}"
    if len(short) <= 15 and not name.startswith("veth"):
        return short
    return f"mr-{crc32(name.encode()):08x}"


def other_bridge_of(store: str, name: str) -> str:
    """Return the name of its bridge where another store's network has that of :func:`bridge_of`."""
    return f"mr-{crc32(os.fsencode(f'{store} {name}')):08x}"


def is_bridge_of(bridge: str, name: str) -> bool:
    """Return True if a network's bridge may be called so."""
    short = bridge.removeprefix("mr-")
    return bridge == bridge_of(name) or (len(bridge) == 11 and len(short) == 8 and is_name(short))


def save(store: str, network: Network) -> None:
    """Write a network's file; the caller holds the lock. Raises OSError."""
    path = folder(store, network.name)
    os.makedirs(f"{path}/{LEASES}", mode=0o700, exist_ok=True)
    text = jsonlite.dumps(network._asdict(), indent=2)
    state.replace(f"{path}/{_RECORD}", text, f"{path}/.{_RECORD}.{os.getpid()}")


def make(
    store: str, name: str, in_use: list[Any], *, subnet: str = "", gateway: str = "",
    ip_range: str = "", subnet6: str = "", gateway6: str = "", internal: bool = False,
    mtu: int = 0, labels: dict[str, str] | None = None, separate: bool = False,
) -> Network:  # fmt: skip
    """Return a new network, which is not saved yet; what is not given is chosen.

    `in_use`: ipaddress networks that the host has routes to. Raises UsageError, NetworkError.
    """
    taken = [*in_use, *_of_others(store, name)]
    chosen = _subnet(subnet) if subnet else _free(name, taken)
    for other in taken if subnet else ():
        if other.version == chosen.version and other.overlaps(chosen):
            hint = f"{other} is in use on this host: another --subnet"
            raise NetworkError(f"subnet {chosen} overlaps {other}", hint)
    own = _inside(gateway, chosen, "--gateway") if gateway else str(chosen[1])
    if ip_range and not _subnet(ip_range, "--ip-range").subnet_of(chosen):
        raise UsageError(f"ip range {ip_range} is not in the subnet {chosen}")
    own6 = ""
    if subnet6:
        prefix = _subnet(subnet6, "--subnet", 6)
        own6 = _inside(gateway6, prefix, "--gateway") if gateway6 else str(prefix[1])
        subnet6 = str(prefix)
    return Network(
        name, bridge_of(name), str(chosen), own, subnet6, own6, ip_range, internal, mtu,
        labels or {}, state.timestamp(), separate, bool(subnet), os.urandom(32).hex(),
    )  # fmt: skip


def check_mtu(mtu: int) -> None:
    """Raise UsageError if no link can have this MTU."""
    if not _SMALLEST_MTU <= mtu <= _LARGEST_MTU:
        raise UsageError(f"invalid mtu {mtu}", f"{_SMALLEST_MTU} to {_LARGEST_MTU} bytes")


def local_prefix(name: str) -> str:
    """Return an IPv6 prefix for a network: one of 2^40 that are for local use, RFC 4193."""
    random = os.urandom(5).hex()
    return f"fd{random[:2]}:{random[2:6]}:{random[6:10]}:{crc32(name.encode()) & 0xFFFF:x}::/64"


def forget(store: str, name: str) -> None:
    """Remove a network's folder, without leases; the caller holds the lock. Raises OSError."""
    tree.remove_tree(folder(store, name))


def _subnet(text: str, where: str = "--subnet", version: int = 4) -> Any:
    """Return an ipaddress network. Raises UsageError."""
    example = "10.99.0.0/24" if version == 4 else "fd00:99::/64"
    try:
        found = ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(f"invalid {where} {text!r}: {error}", f"{where} {example}") from None
    if found.version != version or "/" not in text or found.num_addresses < 4:
        raise UsageError(f"invalid {where} {text!r}: four addresses at least", example)
    for other, reason in _NEVER:
        if found.version == ipaddress.ip_network(other).version and found.overlaps(
            ipaddress.ip_network(other)
        ):
            what = f"invalid {where} {text!r}: no container can have an address of {other}"
            raise UsageError(f"{what}, {reason}", f"{where} {example}")
    return found


def _inside(text: str, subnet: Any, where: str) -> str:
    """Return an address that a host of `subnet` may have. Raises UsageError."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError as error:
        raise UsageError(f"invalid {where} {text!r}: {error}") from None
    if found not in subnet or found in (subnet.network_address, subnet.broadcast_address):
        raise UsageError(f"{where} {text} is no host's address in {subnet}")
    return str(found)


def _of_others(store: str, name: str) -> Iterator[Any]:
    """Yield the subnets of the store's other networks."""
    for other in names(store):
        try:
            network = load(store, other)
        except NetworkError:
            continue
        if other != name:
            yield ipaddress.ip_network(network.subnet)
            if network.subnet6:
                yield ipaddress.ip_network(network.subnet6)


def _free(name: str, taken: list[Any]) -> Any:
    """Return the first subnet of the pool that is not in use. Raises NetworkError."""
    used = [other for other in taken if other.version == 4]
    for subnet in _pool(name):
        if not any(subnet.overlaps(other) for other in used):
            return subnet
    raise NetworkError("no free subnet: all of 10.88.0.0 to 10.255.255.0 is in use", "--subnet")


def _pool(name: str) -> Iterator[Any]:
    """Yield 10.88.0.0/16 for the default network, then 10.89.0.0/24, 10.89.1.0/24 …: podman's."""
    if name == DEFAULT:
        yield ipaddress.ip_network("10.88.0.0/16")
    for second in range(89, 256):
        for third in range(256):
            yield ipaddress.ip_network((f"10.{second}.{third}.0", 24))
