"""What a container gets of each network, as a whole, before any of it is done.

A run carries a plan out (minirun.net.attach), `run --dry-run` prints it. To plan changes nothing:
the kernel, the store and the leases are read.
"""

from __future__ import annotations

import ipaddress

from minirun.core.container import Container
from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.net import leases, links, network
from minirun.net.leases import Lease
from minirun.net.network import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.common.network_request import Attachment, NetworkRequest
    from minirun.net.links import NetworkStep
    from minirun.net.rtnetlink import Route


class LinkPlan(Record):
    """What a container gets of one network, as a whole before any of it is done."""

    network: Network
    is_new: bool
    """The network is not in the store yet: the default one, at its first use."""
    lease: Lease
    is_next: bool
    """Its address is the next one, and not one that was asked for."""
    dead: tuple[Lease, ...]
    """Leases of containers that are gone: they are taken back first."""
    outside: list[NetworkStep]
    """The bridge, if it is not there, and the veth pair."""
    inside: list[NetworkStep]
    """In the container's network namespace."""


def plan(
    route: Route, store: str, container: Container, asked: NetworkRequest, pid: int
) -> list[LinkPlan]:
    """Return what a container with init `pid` gets of each network. Nothing is changed.

    The caller holds the lock, if the plan is to be carried out. Raises MinirunError, OSError.
    """
    return [
        of_one(route, store, container, attachment, f"eth{number}", pid)
        for number, attachment in enumerate(asked.networks)
    ]


def of_one(
    route: Route, store: str, container: Container, attachment: Attachment, interface: str, pid: int
) -> LinkPlan:
    """Return what it gets of one network, as `interface`. Raises MinirunError, OSError."""
    net, is_new = _network(route, store, attachment)
    there = leases.all_of(store, net.name)
    dead = tuple(
        lease
        for lease in there
        if not leases.is_live(lease) and lease.container != container.directory
    )
    taken = [lease for lease in there if lease not in dead]
    lease = _lease(store, container, net, attachment, interface, taken)
    bridge, mtu = links.bridge_plan(route, store, net)
    cable = links.cable_plan(route, net, mtu, lease, pid)
    return LinkPlan(
        net, is_new, lease, not attachment.address, dead, [*bridge, *cable],
        links.inside_plan(net, lease),
    )  # fmt: skip


def _network(route: Route, store: str, attachment: Attachment) -> tuple[Network, bool]:
    """Return a network, and True if it is to be saved: the default one at its first use.

    Another store of this host may have a bridge of that name, or the addresses: then the default
    network gets others, and one that was created another bridge. Raises MinirunError, OSError.
    """
    name = attachment.network
    try:
        net = network.load(store, name)
    except network.NetworkError:
        if name != network.DEFAULT or name in network.names(store):
            raise
        bridge = network.bridge_of(name)
        net = network.make(store, name, links.in_use(route, bridge))
        is_new = True
    else:
        is_new = False
    if links.is_of_another_store(route, store, net):
        net = net._replace(bridge=network.other_bridge_of(store, name))
        is_new = True
    if leases.all_of(store, name) or not (others := _overlapping(route, net)):
        return net, is_new
    if name == network.DEFAULT:
        made = network.make(store, name, links.in_use(route, net.bridge))
        return made._replace(bridge=net.bridge), True
    if any(link.startswith(network.MARK) for link in others):
        text = f"the subnet {net.subnet} of network {name} is in use by {others[0]}"
        raise network.NetworkError(text, f"minirun network rm {name}, and create it anew")
    return net, is_new


def _overlapping(route: Route, net: Network) -> list[str]:
    """Return the links, or their aliases, by which the host has a route to these addresses."""
    subnet, own = ipaddress.ip_network(net.subnet), route.index(net.bridge)
    return [
        links.alias_of(route, index) for other, index in links.destinations(route)
        if index != own and other.version == subnet.version and other.overlaps(subnet)
    ]  # fmt: skip


def check_address(net: Network, attachment: Attachment) -> None:
    """Raise NetworkError, in docker's words, if no container may choose its address there."""
    if attachment.address and not net.own_subnet:
        text = "user specified IP address is supported only when connecting to networks with user"
        hint = f"minirun network create --subnet 10.99.0.0/24; {net.name} has {net.subnet}"
        raise network.NetworkError(f"{text} configured subnets", hint)


def _lease(
    store: str, container: Container, net: Network, attachment: Attachment, interface: str,
    taken: list[Lease],
) -> Lease:  # fmt: skip
    """Return the lease of a container that is on no such network yet; it is not saved.

    `taken`: the leases whose addresses it cannot have. Raises MinirunError.
    """
    check_address(net, attachment)
    address, address6 = leases.addresses(store, net, taken, attachment.address, attachment.address6)
    hostname = container.config.raw.get("hostname") or ""
    called = (hostname, container.name, state.short(container.id), *attachment.aliases)
    return Lease(
        container.directory, net.name, interface,
        links.link_of(container.directory, net.name), address,
        attachment.mac or links.mac_of(address), address6,
        tuple(dict.fromkeys(filter(None, called))),
    )  # fmt: skip
