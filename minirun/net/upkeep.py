"""What keeps networks whole: the rules of all live containers, and the end of those that are gone.

Another program may flush the firewall (a reload of nftables.service does), and a container may be
killed. So whichever container comes or goes draws the rules of all; `gc` and `network reload` do
the same without one, and take back the leases of containers that are gone.

    elements of inet minirun, rules in DOCKER-USER, sources of firewalld's zone, route_localnet

The real stack: podman has `network reload` for this; docker draws its rules when its daemon starts.
"""

from __future__ import annotations

import ipaddress

from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.net import leases, network
from minirun.net.leases import Lease
from minirun.net.network import Network

with lazy:  # pyroute2: 130 ms, and gc mostly finds nothing to do
    from minirun.net import (
        conntrack,
        docker_user,
        firewall,
        firewalld,
        forwarding,
        helpers,
        links,
        neighbours,
        rtnetlink,
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.net.rtnetlink import Route

    LiveNetwork = tuple[Network, tuple[Lease, ...]]


def live(store: str, without: Lease | None = None) -> list[LiveNetwork]:
    """Return the networks that live containers are on, with their leases.

    `without`: a lease that does not count. A damaged network is none. Raises OSError.
    """
    found = []
    for name in network.names(store):
        kept = tuple(
            one for one in leases.all_of(store, name)
            if not (without and one.network == name and one.container == without.container)
            and leases.is_live(one)
        )  # fmt: skip
        try:
            found += [(network.load(store, name), kept)] if kept else []
        except network.NetworkError:
            continue
    return found


def rows(there: list[LiveNetwork]) -> list[tuple[str, str]]:
    """Return the elements of the firewall's table for networks with their leases."""
    found = []
    for net, kept in there:
        found += [*firewall.elements(net), *firewall.elements(net, kept)]
    return found


def draw(route: Route, store: str) -> str:
    """Draw the rules of all live containers; return the chains of all tables.

    The caller holds the lock. Raises NetworkError, OSError.
    """
    there = live(store)
    chains = firewall.draw(rows(there))
    _around(route, store, there, chains)
    return chains


def _around(route: Route, store: str, there: list[LiveNetwork], chains: str) -> None:
    """Set what belongs to the rules: route_localnet of each bridge, other programs' chains."""
    for net, kept in there:
        links.carry_out(route, [links.localnet(net, is_on=on_loopback(kept))])
    networks = [net for net, _ in there]
    docker_user.keep(route, store, networks, chains)
    firewalld.keep(route, store, networks, chains)


def on_loopback(kept: tuple[Lease, ...]) -> bool:
    """Return True if a port of these leases is published at the host's 127.0.0.1."""
    at = (port["host_ip"] for lease in kept for port in lease.ports)
    return any(not one or (":" not in one and ipaddress.ip_address(one).is_loopback) for one in at)


def is_whole(store: str) -> bool:
    """Return True if the rules of all live containers are there. Raises NetworkError, OSError."""
    there = live(store)
    return not there or not firewall.missing(firewall.listing(), rows(there))


def reload(store: str) -> list[str]:
    """Make whole what other programs have taken away; return the networks that are in use.

    Raises MinirunError, OSError.
    """
    with network.locked(store), rtnetlink.Route() as route:
        there = live(store)
        if there:
            forwarding.switch_on(route, store, [net for net, _ in there])
            draw(route, store)
            for net, _ in there:
                neighbours.update(store, net)
        else:
            _around(route, store, [], "")
    return [net.name for net, _ in there]


def take_back(store: str, net: Network, lease: Lease) -> None:
    """Remove what a lease names, the lease last. With the last lease, the bridge goes.

    The caller holds the lock. Raises NetworkError, OSError.
    """
    helpers.release(lease.holder)
    others = [one for one in leases.all_of(store, net.name) if one.container != lease.container]
    gone = firewall.elements(net, (lease,)) if lease.ports else []
    gone += [] if others else firewall.elements(net)
    there = live(store, lease)
    with rtnetlink.Route() as route:
        if gone:
            firewall.remove(gone, rows(there))
        _around(route, store, there, "")
        forget_earlier(route, lease)
        links.unplug(route, lease)
        if not others:
            links.remove_bridge(route, store, net)
        leases.remove(store, lease)
        if not any(leases.all_of(store, name) for name in network.names(store)):
            forwarding.switch_off(route, store)
    neighbours.update(store, net)


def forget_earlier(route: Route, lease: Lease) -> None:
    """Let no packet go where a port of UDP led before. Raises OSError."""
    if any(port["protocol"] == "udp" for port in lease.ports):
        conntrack.forget(route, lease)


def take_back_all(store: str, name: str) -> None:
    """Take back all leases of a network, whose containers are gone; the caller holds the lock."""
    for lease in leases.all_of(store, name):
        take_back(store, network.load(store, name), lease)


def take_back_dead(store: str, *, but: str = "") -> None:
    """Take back the leases of containers that are gone; the caller holds the lock.

    `but`: the directory of the container whose leases stay. Raises MinirunError, OSError.
    """
    for name in network.names(store):
        dead = [one for one in leases.all_of(store, name) if not leases.is_live(one)]
        try:
            for lease in dead:
                if lease.container != but:
                    take_back(store, network.load(store, name), lease)
        except network.NetworkError as error:  # a damaged network: this container is on another
            warn(f"the network {name} is left for gc: {error}")


def sweep(store: str, *, dry: bool) -> list[str]:
    """Take back the leases of containers that are gone; return "network NETWORK: ID".

    With `dry` nothing is changed. Raises MinirunError, OSError.
    """
    found = []
    with network.locked(store):
        for name in network.names(store):
            for lease in leases.all_of(store, name):
                if not leases.is_live(lease):
                    if not dry:
                        take_back(store, network.load(store, name), lease)
                    found.append(f"network {name}: {lease.called}")
    return found
