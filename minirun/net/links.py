"""The links of a network: its bridge on the host, and a veth pair for each container.

A veth pair is a cable: what goes in at one end comes out at the other, veth(4). One end is plugged
into the bridge, the other one is in the container's network namespace, as eth0. The bridge is the
switch between them, and has the gateway's address: the host is the containers' router.

What the real stack does: docker's libnetwork and podman's netavark send the same requests. netavark
does it before podman calls the runtime, docker in a hook, CNI's plugins before containerd does;
minirun in stage 1, from outside, while init builds its root filesystem.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from binascii import crc32

from minirun.net.forwarding import NetworkSetting, kind
from minirun.net.interfaces import network_of
from minirun.net.network import MARK, OF, Network, NetworkError
from minirun.net.rtnetlink import NetlinkRequest, Route

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from minirun.net.leases import Lease

    NetworkStep = NetlinkRequest | NetworkSetting

_HAIRPIN = 1
_LOOSE = 2
"""rp_filter: a packet's source must be reachable, by whatever link: ip-sysctl."""
_DEFAULT_MTU = 1500
_AF_INET, _AF_INET6 = 2, 10
_EVERY_LINK = ("fe80", "ff")
"""What each link has a route of IPv6 to: link-local and multicast addresses."""
_UNICAST = 1
"""RTN_UNICAST, linux/rtnetlink.h."""
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
    return f"{MARK}{network.name}{OF}{store}"


def is_ours(link: Any, store: str, network: Network) -> bool:
    """Return True if a link is this network's own bridge, or one that it began to make.

    The alias is set by a second request: the kernel passes over it in the first one. A bridge
    without it is known by its hardware address, as long as it is down.
    """
    alias = link.get_attr("IFLA_IFALIAS")
    half_made = not alias and not link["flags"] & _IFF_UP
    own = bool(link.get_attr("IFLA_ADDRESS") == mac_of(network.gateway))
    return bool(alias == mark(store, network)) or (half_made and own)


def is_of_another_store(route: Route, store: str, network: Network) -> bool:
    """Return True if the link of its bridge's name is there, and another store's bridge."""
    index = route.index(network.bridge)
    alias = alias_of(route, index) if index else ""
    return alias.startswith(MARK) and alias != mark(store, network)


def in_use(route: Route, bridge: str = "") -> list[Any]:
    """Return the networks that the host has routes to, but for those by `bridge`."""
    own = route.index(bridge) if bridge else 0
    return [to for to, index in destinations(route) if index != own]


def destinations(route: Route) -> list[tuple[Any, int]]:
    """Return the networks that the host has routes to, each with its link's ifindex."""
    found = []
    for row in route.routes():
        to = row.get_attr("RTA_DST")
        if to and row["dst_len"] and row["type"] == _UNICAST:
            there = ipaddress.ip_network(f"{to}/{row['dst_len']}", strict=False)
            found.append((there, row.get_attr("RTA_OIF") or 0))
    return found


def alias_of(route: Route, index: int) -> str:
    """Return a link's alias, or its name if it has none."""
    link = route.link(index)
    return str(link.get_attr("IFLA_IFALIAS") or link.get_attr("IFLA_IFNAME"))


def way_out(route: Route) -> tuple[str, int]:
    """Return the link of the host's default route and its MTU; ("", 1500) if there is none."""
    rows = [row for row in route.routes() if not row["dst_len"] and row.get_attr("RTA_OIF")]
    if not rows:
        return "", _DEFAULT_MTU
    first = min(rows, key=lambda row: (row["family"], row.get_attr("RTA_PRIORITY") or 0))
    link = route.link(first.get_attr("RTA_OIF"))
    return str(link.get_attr("IFLA_IFNAME")), int(link.get_attr("IFLA_MTU"))


def ways_out(route: Route, family: str) -> list[str]:
    """Return the links by which the host reaches other hosts, sorted; `family`: ip or ip6.

    That is each that has a route, but for bridges: another program's containers are behind those.
    A bridge that the default route leads by is a way out too.
    """
    found = set()
    for row in route.routes():
        index, to = row.get_attr("RTA_OIF"), str(row.get_attr("RTA_DST") or "")
        is_there = row["family"] == (_AF_INET6 if family == "ip6" else _AF_INET)
        if index and is_there and row["type"] == _UNICAST and not to.startswith(_EVERY_LINK):
            link = route.link(index)
            if not row["dst_len"] or kind(link) != "bridge":
                found.add(str(link.get_attr("IFLA_IFNAME")))
    return sorted(found - {"lo"})


def bridge_plan(route: Route, store: str, network: Network) -> tuple[list[NetworkStep], int]:
    """Return what makes the network's bridge, if it is not there, and the network's MTU.

    Raises NetworkError if another program's link has its name, OSError.
    """
    mtu, name = network.mtu or way_out(route)[1], network.bridge
    found: list[NetworkStep] = []
    if index := route.index(name):
        link = route.link(index)
        if not is_ours(link, store, network):
            hint = f"ip link del {name}, if no program needs it"
            raise NetworkError(f"the link {name} is another program's", hint)
        if route.addresses(index) and link["flags"] & _IFF_UP:
            return [], int(link.get_attr("IFLA_MTU"))
        found.append(
            NetlinkRequest("link", "del", "a killed command has left it half made", {"dev": name})
        )
    words = {"ifname": name, "kind": "bridge", "mtu": mtu, "address": mac_of(network.gateway)}
    why = "a bridge is a switch: each container's cable ends in it"
    found.append(NetlinkRequest("link", "add", why, words))
    alias = {"dev": name, "ifalias": mark(store, network)}
    found.append(NetlinkRequest("link", "set", "by this `gc` knows it", alias))
    found += _bridge_settings(network)
    for address, subnet in _pairs(network.gateway, network):
        why = "the containers' gateway is the host, by this address"
        words = {"dev": name, "address": address, "prefixlen": subnet.prefixlen}
        found.append(NetlinkRequest("addr", "add", why, words))
    found.append(NetlinkRequest("link", "set", "a link is made down", {"dev": name, "state": "up"}))
    return found, mtu


def _pairs(address: str, network: Network, address6: str = "") -> list[tuple[str, Any]]:
    """Return the address, and that of IPv6, with the subnets they are in."""
    found = [(address, ipaddress.ip_network(network.subnet))]
    if network.subnet6:
        found.append((address6 or network.gateway6, ipaddress.ip_network(network.subnet6)))
    return found


def _bridge_settings(network: Network) -> list[NetworkSetting]:
    """Return what the kernel is to do with packets of the bridge: ip-sysctl."""
    v4, v6 = f"ipv4/conf/{network.bridge}", f"ipv6/conf/{network.bridge}"
    found = [
        NetworkSetting(f"{v4}/rp_filter", _LOOSE, "a container may be on several networks"),
        NetworkSetting(f"{v6}/accept_ra", 0, "no container tells the host its routes"),
    ]
    if network.subnet6:
        found.append(
            NetworkSetting(f"{v6}/accept_dad", 0, "no other host has the gateway's address")
        )
    if network.internal:
        found.append(NetworkSetting(f"{v4}/forwarding", 0, "no packet leaves an internal network"))
    return found


def localnet(network: Network, *, is_on: bool) -> NetworkSetting:
    """Return the setting by which a packet of the host from 127.0.0.1 may go to the bridge.

    It is on only while a port is published there: where the rules are flushed, it would let
    containers reach what listens on the host's 127.0.0.1.
    """
    path = f"ipv4/conf/{network.bridge}/route_localnet"
    if is_on:
        return NetworkSetting(path, 1, "127.0.0.1:PORT leads to published ports")
    return NetworkSetting(path, 0, "no port of 127.0.0.1 leads there any more")


def cable_plan(
    route: Route, network: Network, mtu: int, lease: Lease, pid: int
) -> list[NetworkStep]:
    """Return what makes the veth pair of a container, one end in the namespace of init `pid`.

    Raises OSError.
    """
    link: list[NetworkStep] = []
    if route.index(lease.link):
        why = "a killed command has left it"
        link.append(NetlinkRequest("link", "del", why, {"dev": lease.link}))
    peer = {"ifname": lease.interface, "net_ns_pid": pid, "address": lease.mac, "mtu": mtu}
    words = {"ifname": lease.link, "kind": "veth", "mtu": mtu, "master": network.bridge,
             "peer": peer}  # fmt: skip
    cable = f"a cable: one end in the bridge, the other in the container, as {lease.interface}"
    hairpin = "the bridge may send a packet back where it came from: a container's own port"
    alone = "the bridge passes nothing on to another container's end: enable_icc=false"
    return [
        *link, NetlinkRequest("link", "add", cable, words),
        NetlinkRequest("brport", "set", hairpin, {"dev": lease.link, "mode": _HAIRPIN}),
        *([NetlinkRequest("brport", "set", alone, {"dev": lease.link, "isolated": 1})]
          if network.separate else []),
        NetlinkRequest("link", "set", "the host's end", {"dev": lease.link, "state": "up"}),
    ]  # fmt: skip


def inside_plan(network: Network, lease: Lease) -> list[NetworkStep]:
    """Return what gives the container's end its addresses, in the container's namespace."""
    name = lease.interface
    v4, v6 = f"ipv4/conf/{name}", f"ipv6/conf/{name}"
    if network.subnet6:
        found: list[NetworkStep] = [
            NetworkSetting(f"{v6}/accept_dad", 0, "no other host has its address: no waiting"),
            NetworkSetting(f"{v6}/accept_ra", 0, "no neighbour tells it addresses and routes"),
        ]
    else:
        found = [NetworkSetting(f"{v6}/disable_ipv6", 1, "the network has no IPv6 prefix")]
    found.append(
        NetworkSetting(f"{v4}/arp_notify", 1, "neighbours learn at once who has the address")
    )
    for address, subnet in _pairs(lease.address, network, lease.address6):
        words = {"dev": name, "address": address, "prefixlen": subnet.prefixlen}
        found.append(NetlinkRequest("addr", "add", "the container's own address", words))
    up = {"dev": name, "state": "up"}
    return [*found, NetlinkRequest("link", "set", "the container's end", up)]


def default_routes(networks: list[Network], there: set[int]) -> list[NetlinkRequest]:
    """Return the default routes, one for each family: by the first network that leads out.

    `there`: the families, AF_INET and AF_INET6, that have theirs already.
    """
    found = []
    for family, to in ((_AF_INET, "0.0.0.0/0"), (_AF_INET6, "::/0")):
        gateways = [
            net.gateway if family == _AF_INET else net.gateway6
            for net in networks if not net.internal
        ]  # fmt: skip
        gateway = next(filter(None, gateways), "")
        if gateway and family not in there:
            why = "all else goes to the host, which forwards it"
            found.append(NetlinkRequest("route", "add", why, {"dst": to, "gateway": gateway}))
    return found


def carry_out(route: Route, plan: Sequence[NetworkStep]) -> None:
    """Do what a plan says, in the namespace of `route`. Raises OSError."""
    for operation in plan:
        operation.execute(route)


def carry_out_inside(plan: list[NetworkStep], networks: list[Network], pid: int) -> None:
    """Do what a plan says in the namespace of init `pid`, then add the default routes of networks.

    Raises OSError.
    """
    with network_of(pid), Route() as route:
        carry_out(route, plan)
        there = {row["family"] for row in route.routes() if not row["dst_len"]}
        carry_out(route, default_routes(networks, there))


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
    """Remove a link; one that is gone is fine. Raises OSError."""
    try:
        route.change("link", "del", why, index=index)
    except OSError as error:
        if error.errno != errno.ENODEV:  # the kernel was quicker
            raise
