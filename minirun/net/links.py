"""The links of a network: its bridge on the host, and a veth pair for each container.

A veth pair is a cable: what goes in at one end comes out at the other, veth(4). One end is plugged
into the bridge, the other one is in the container's network namespace, as eth0. The bridge is the
switch between them, and has the gateway's address: the host is the containers' router.

What the real stack does: docker's libnetwork and podman's netavark send the same requests. netavark
does it before podman calls the runtime, docker in a hook, CNI's plugins before containerd does;
minirun in stage 1, from outside, while init builds its root filesystem.
"""

from __future__ import annotations

import ipaddress
import os
from binascii import crc32

from minirun.net.forwarding import sysctl
from minirun.net.interfaces import network_of
from minirun.net.network import Network, NetworkError
from minirun.net.rtnetlink import Route

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.net.leases import Lease

_HAIRPIN = 1
_LOOSE = 2
"""rp_filter: a packet's source must be reachable, by whatever link: ip-sysctl."""
_DEFAULT_MTU = 1500
_AF_INET, _AF_INET6 = 2, 10
_IFF_UP = 0x1


def mac_of(address: str) -> str:
    """Return the hardware address that belongs to an IPv4 address: 02:42 and its four bytes.

    So when an address goes to another container, its neighbours' ARP tables stay right.
    """
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x42, *ipaddress.ip_address(address).packed))


def link_of(container: str, network: str) -> str:
    """Return the name of the host's end for a container's directory: at most 15 bytes."""
    return f"veth{crc32(os.fsencode(f'{container} {network}')):08x}"


def mark(store: str, network: Network) -> str:
    """Return what a bridge of minirun's has as its alias, and no other program's has."""
    return f"minirun network {network.name} of {store}"


def is_ours(link: Any, store: str, network: Network) -> bool:
    """Return True if a link is this network's own bridge, or one that it began to make.

    The alias is set by a second request: the kernel passes over it in the first one. A bridge
    without it is known by its hardware address, as long as it is down.
    """
    alias = link.get_attr("IFLA_IFALIAS")
    half_made = not alias and not link["flags"] & _IFF_UP
    own = bool(link.get_attr("IFLA_ADDRESS") == mac_of(network.gateway))
    return bool(alias == mark(store, network)) or (half_made and own)


def in_use(route: Route, bridge: str = "") -> list[Any]:
    """Return the networks that the host has routes to, but for those by `bridge`."""
    own = route.index(bridge) if bridge else 0
    found = []
    for row in route.routes():
        to = row.get_attr("RTA_DST")
        if to and row["dst_len"] and row.get_attr("RTA_OIF") != own and row["type"] == 1:
            found.append(ipaddress.ip_network(f"{to}/{row['dst_len']}", strict=False))
    return found


def way_out(route: Route) -> tuple[str, int]:
    """Return the link of the host's default route and its MTU; ("", 1500) if there is none."""
    rows = [row for row in route.routes() if not row["dst_len"] and row.get_attr("RTA_OIF")]
    if not rows:
        return "", _DEFAULT_MTU
    first = min(rows, key=lambda row: (row["family"], row.get_attr("RTA_PRIORITY") or 0))
    link = route.link(first.get_attr("RTA_OIF"))
    return str(link.get_attr("IFLA_IFNAME")), int(link.get_attr("IFLA_MTU"))


def make_bridge(route: Route, store: str, network: Network) -> tuple[int, int]:
    """Make the network's bridge, if it is not there; return its ifindex and the network's MTU.

    Raises NetworkError if another program's link has its name, OSError.
    """
    mtu = network.mtu or way_out(route)[1]
    if index := route.index(network.bridge):
        link = route.link(index)
        if not is_ours(link, store, network):
            hint = f"ip link del {network.bridge}, if no program needs it"
            raise NetworkError(f"the link {network.bridge} is another program's", hint)
        if route.addresses(index) and link["flags"] & _IFF_UP:
            return index, int(link.get_attr("IFLA_MTU"))
        route.change("link", "del", "a killed command has left it half made", index=index)
    route.change(
        "link", "add", "a bridge is a switch: each container's cable ends in it",
        ifname=network.bridge, kind="bridge", mtu=mtu, address=mac_of(network.gateway),
    )  # fmt: skip
    index = route.index(network.bridge)
    route.change("link", "set", "by this `gc` knows it", index=index, ifalias=mark(store, network))
    _set_bridge(network)
    for address, subnet in _pairs(network.gateway, network):
        route.change(
            "addr", "add", "the containers' gateway is the host, by this address",
            index=index, address=address, prefixlen=subnet.prefixlen,
        )  # fmt: skip
    route.change("link", "set", "a link is made down", index=index, state="up")
    return index, mtu


def _pairs(address: str, network: Network, address6: str = "") -> list[tuple[str, Any]]:
    """Return the address, and that of IPv6, with the subnets they are in."""
    found = [(address, ipaddress.ip_network(network.subnet))]
    if network.subnet6:
        found.append((address6 or network.gateway6, ipaddress.ip_network(network.subnet6)))
    return found


def _set_bridge(network: Network) -> None:
    """Set what the kernel does with packets of the bridge: ip-sysctl."""
    name = network.bridge
    sysctl(f"ipv4/conf/{name}/route_localnet", 1, "127.0.0.1:PORT leads to published ports")
    sysctl(f"ipv4/conf/{name}/rp_filter", _LOOSE, "a container may be on several networks")
    sysctl(f"ipv6/conf/{name}/accept_ra", 0, "no container tells the host its routes")
    if network.subnet6:
        sysctl(f"ipv6/conf/{name}/accept_dad", 0, "no other host has the gateway's address")
    if network.internal:
        sysctl(f"ipv4/conf/{name}/forwarding", 0, "no packet leaves an internal network")


def plug_in(route: Route, network: Network, bridge: tuple[int, int], lease: Lease, pid: int) -> int:
    """Make the veth pair of a container, one end in the namespace of init `pid`; return the
    ifindex of the host's end. `bridge`: its ifindex and MTU. Raises OSError.
    """
    master, mtu = bridge
    if stale := route.index(lease.link):
        route.change("link", "del", "a killed command has left it", index=stale)
    route.change(
        "link", "add", f"a cable: one end in the bridge, the other in the container, as "
        f"{lease.interface}", ifname=lease.link, kind="veth", mtu=mtu, master=master,
        peer={"ifname": lease.interface, "net_ns_pid": pid, "address": lease.mac, "mtu": mtu},
    )  # fmt: skip
    index = route.index(lease.link)
    why = "the bridge may send a packet back where it came from: a container's own port"
    route.change("brport", "set", why, index=index, mode=_HAIRPIN)
    route.change("link", "set", "the host's end", index=index, state="up")
    return index


def set_up_inside(network: Network, lease: Lease, pid: int) -> None:
    """Give the container's end its addresses, in the namespace of init `pid`.

    Raises OSError.
    """
    with network_of(pid), Route() as route:
        name = lease.interface
        index = route.index(name)
        if network.subnet6:
            sysctl(f"ipv6/conf/{name}/accept_dad", 0, "no other host has its address: no waiting")
            sysctl(f"ipv6/conf/{name}/autoconf", 0, "its address is given, not made up")
        else:
            sysctl(f"ipv6/conf/{name}/disable_ipv6", 1, "the network has no IPv6 prefix")
        sysctl(f"ipv4/conf/{name}/arp_notify", 1, "neighbours learn at once who has the address")
        for address, subnet in _pairs(lease.address, network, lease.address6):
            route.change(
                "addr", "add", "the container's own address",
                index=index, address=address, prefixlen=subnet.prefixlen,
            )  # fmt: skip
        route.change("link", "set", "the container's end", index=index, state="up")


def add_default_routes(networks: list[Network], pid: int) -> None:
    """Lead all else by the first of the networks that leads out, one for IPv4 and one for IPv6.

    A family that has its default route in the namespace of init `pid` keeps it. Raises OSError.
    """
    with network_of(pid), Route() as route:
        there = {row["family"] for row in route.routes() if not row["dst_len"]}
        for family, to in ((_AF_INET, "0.0.0.0/0"), (_AF_INET6, "::/0")):
            gateways = [
                net.gateway if family == _AF_INET else net.gateway6
                for net in networks if not net.internal
            ]  # fmt: skip
            gateway = next(filter(None, gateways), "")
            if gateway and family not in there:
                why = "all else goes to the host, which forwards it"
                route.change("route", "add", why, dst=to, gateway=gateway)


def unplug(route: Route, lease: Lease) -> None:
    """Remove a container's veth pair, unless it went with its namespace. Raises OSError."""
    if index := route.index(lease.link):
        _delete(route, index, "both ends go")


def remove_bridge(route: Route, store: str, network: Network) -> None:
    """Remove the network's bridge, if it is there and its own. Raises OSError."""
    index = route.index(network.bridge)
    if index and is_ours(route.link(index), store, network):
        _delete(route, index, "no container is on this network any more")


def _delete(route: Route, index: int, why: str) -> None:
    try:
        route.change("link", "del", why, index=index)
    except OSError as error:
        if error.errno != 19:  # ENODEV: the kernel was quicker
            raise
