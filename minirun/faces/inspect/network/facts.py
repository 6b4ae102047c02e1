"""A network as the kernel has it: by rtnetlink(7) on the host and in each container's namespace,
and by the list of nftables' table. minirun's records say only where to look.

What a record names and the kernel does not have is `missing`; what the kernel has there and no
record names is `foreign`.
"""

from __future__ import annotations

from contextlib import nullcontext

from pyroute2 import IPRoute

from minirun.common import descriptors
from minirun.core.errors import StateError
from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.faces.inspect.network import inside
from minirun.net import firewall, leases, network, ruleset
from minirun.net.interfaces import ROUTE, network_of
from minirun.net.leases import Lease
from minirun.net.network import Network
from minirun.net.rule_words import expression_words, rule_words
from minirun.net.ruleset import Ruleset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAIN = 254
"""RT_TABLE_MAIN, linux/rtnetlink.h."""
_UNICAST, _KERNEL, _UP, _LINK_SCOPE = 1, 2, 1, 253
"""RTN_UNICAST, RTPROT_KERNEL, IFF_UP, RT_SCOPE_LINK."""
_NAT = ("publish", "prerouting", "output", "postrouting")


class LinkFacts(Record):
    """One link of a network namespace."""

    number: int
    """The kernel's ifindex."""
    name: str
    kind: str
    """bridge, veth …; empty for hardware and lo."""
    is_up: bool
    mac: str
    mtu: int
    master: int
    """The ifindex of the bridge that it is plugged into; 0: none."""
    peer: int
    """Of a veth: the ifindex of the other end, in its own namespace; 0: none."""
    addresses: tuple[str, ...]
    """Of more than this link: 10.88.0.2/16."""


class RouteFacts(Record):
    """One route of the main table."""

    to: str
    """10.88.0.0/16; default."""
    via: str
    link: str
    by_kernel: bool
    """It came with an address."""

    @property
    def shown(self) -> str:
        """The route as ip-route(8) writes it."""
        via = f" via {self.via}" if self.via else ""
        return f"{self.to}{via} dev {self.link}"


class NamespaceLinks(Record):
    """Links and routes of one network namespace."""

    links: tuple[LinkFacts, ...]
    routes: tuple[RouteFacts, ...]

    def link(self, name: str) -> LinkFacts | None:
        """Return the link of a name."""
        return next((one for one in self.links if one.name == name), None)

    def default(self, version: int = 4) -> RouteFacts | None:
        """Return the default route, of IPv4 or IPv6."""
        sign = ":" if version == 6 else "."
        found = (one for one in self.routes if one.to == "default")
        return next((one for one in found if sign in one.via or not one.via), None)


class EndFacts(Record):
    """What one container has on one network, on both sides of its cable."""

    lease: Lease
    pid: int
    """Of its init; 0 if it does not run."""
    outside: LinkFacts | None
    """The host's end."""
    inside: LinkFacts | None
    """The container's."""
    routes: tuple[RouteFacts, ...]
    """Those by this link."""
    names: tuple[tuple[str, tuple[str, ...]], ...]
    """Its hosts file, but for loopback and multicast."""
    missing: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


class NetworkPicture(Record):
    """One network."""

    network: Network
    way_out: RouteFacts | None
    out_link: LinkFacts | None
    forwards: bool
    """net.ipv4.ip_forward."""
    bridge: LinkFacts | None
    ends: tuple[EndFacts, ...]
    rules: tuple[tuple[str, str, str], ...]
    """Of NAT: chain, rule, comment; those that can meet a packet of this network."""
    ports: tuple[tuple[str, str, str], ...]
    """Map, key and value: what leads to this network's containers."""
    missing: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def namespace(pid: int = 0) -> NamespaceLinks:
    """Return links and routes of the network namespace of `pid`; 0: this one. Raises OSError."""
    descriptors.need(ROUTE)
    with network_of(pid) if pid else nullcontext(), IPRoute() as route:
        rows, addresses = list(route.get_links()), list(route.get_addr())
        routes = list(route.get_routes(table=_MAIN))
    names = {row["index"]: _name(row.get_attr("IFLA_IFNAME")) for row in rows}
    links = tuple(sorted(_link(row, addresses) for row in rows))
    return NamespaceLinks(links, tuple(_route(row, names) for row in routes if _is_plain(row)))


def _name(name: str | bytes) -> str:
    """Return a link's name, which a container may choose, as text."""
    return name if isinstance(name, str) else name.rstrip(b"\0").decode(errors="replace")


def _link(row: Any, addresses: list[Any]) -> LinkFacts:
    info = row.get_attr("IFLA_LINKINFO")
    own = [one for one in addresses if one["index"] == row["index"]]
    return LinkFacts(
        row["index"], _name(row.get_attr("IFLA_IFNAME")),
        str(info.get_attr("IFLA_INFO_KIND")) if info else "", bool(row["flags"] & _UP),
        row.get_attr("IFLA_ADDRESS") or "", int(row.get_attr("IFLA_MTU") or 0),
        int(row.get_attr("IFLA_MASTER") or 0), int(row.get_attr("IFLA_LINK") or 0),
        tuple(
            f"{one.get_attr('IFA_LOCAL') or one.get_attr('IFA_ADDRESS')}/{one['prefixlen']}"
            for one in own if one["scope"] != _LINK_SCOPE
        ),
    )  # fmt: skip


def _is_plain(row: Any) -> bool:
    to = str(row.get_attr("RTA_DST") or "")
    return row["type"] == _UNICAST and not to.startswith(("fe80:", "ff00:"))


def _route(row: Any, names: dict[int, str]) -> RouteFacts:
    to, length = row.get_attr("RTA_DST"), row["dst_len"]
    hops = row.get_attr("RTA_MULTIPATH") or ()
    first = hops[0] if hops else row
    index = first["oif"] if hops else row.get_attr("RTA_OIF")
    return RouteFacts(
        f"{to}/{length}" if to and length else "default", first.get_attr("RTA_GATEWAY") or "",
        names.get(index or 0, ""), row["proto"] == _KERNEL,
    )  # fmt: skip


def pid_of(lease: Lease) -> int:
    """Return the pid of the init of a lease's container; 0 if it does not run."""
    root, _, container_id = lease.container.rpartition("/")
    try:
        record = state.load(root, container_id)
    except (StateError, OSError):
        return 0
    return record.pid if record.pid and state.is_alive(record.init) else 0


def setting(path: str) -> str:
    """Return what net.PATH is set to in this network namespace; empty if there is no such."""
    try:
        return state.read_text(f"/proc/sys/net/{path}").strip()
    except OSError:
        return ""


def read(store: str, names: list[str]) -> list[NetworkPicture]:
    """Return the networks of these names as they are. Raises MinirunError, OSError."""
    networks = [network.load(store, name) for name in names]
    host = namespace()
    table = ruleset.read(*firewall.TABLE.split()) or Ruleset([])
    return [_picture(store, net, host, table) for net in networks]


def _picture(store: str, net: Network, host: NamespaceLinks, table: Ruleset) -> NetworkPicture:
    bridge = host.link(net.bridge)
    given = leases.all_of(store, net.name)
    ends = tuple(_end(store, net, one, host, bridge, table) for one in given)
    is_used = any(end.pid for end in ends)
    out = host.default()
    missing, foreign = _of_bridge(net, bridge, table) if is_used else ([], [])
    if bridge and not given:
        foreign.append(f"the bridge {net.bridge}: no container is on this network")
    known = {lease.link for lease in given}
    plugged = [one for one in host.links if bridge and one.master == bridge.number]
    foreign += [f"{one.name} is in the bridge" for one in plugged if one.name not in known]
    ports = tuple(_ports(net, given, table))
    own = {_words(row) for lease in given for row in firewall.elements(net, (lease,))}
    foreign += [
        f"{name}: {key} leads to {value}" for name, key, value in ports
        if (name, f"{key} : {value}") not in own
    ]  # fmt: skip
    return NetworkPicture(
        net, out, host.link(out.link) if out else None, setting("ipv4/ip_forward") == "1",
        bridge, ends, tuple(_rules(net, table)), ports, tuple(missing), tuple(foreign),
    )  # fmt: skip


def _words(row: tuple[str, str]) -> tuple[str, str]:
    return row[0], row[1].replace('"', "")


def _of_bridge(
    net: Network, bridge: LinkFacts | None, table: Ruleset
) -> tuple[list[str], list[str]]:
    """Return what is missing of a network that a container is on, and what is there besides."""
    missing = [
        f"element {what} of the set {name}" for name, what in map(_words, firewall.elements(net))
        if what not in map(expression_words, table.elements(name))
    ]  # fmt: skip
    if bridge is None:
        return [f"the bridge {net.bridge}", *missing], []
    length, length6 = (text.rpartition("/")[2] for text in (net.subnet, net.subnet6))
    own = [f"{net.gateway}/{length}"] + [f"{net.gateway6}/{length6}"] * bool(net.subnet6)
    missing += [f"address {one} of {net.bridge}" for one in own if one not in bridge.addresses]
    foreign = [f"address {one} of {net.bridge}" for one in bridge.addresses if one not in own]
    return missing, foreign


def _end(
    store: str, net: Network, lease: Lease, host: NamespaceLinks, bridge: LinkFacts | None,
    table: Ruleset,
) -> EndFacts:  # fmt: skip
    """Return what one container has; what it has only in records is missing."""
    pid, outside = pid_of(lease), host.link(lease.link)
    if not pid:
        gone = f"its container does not run: minirun gc takes back {lease.address}"
        return EndFacts(lease, 0, outside, None, (), (), (gone,))
    try:
        there = namespace(pid)
    except (FileNotFoundError, ProcessLookupError):
        gone = "its container has ended meanwhile"
        return EndFacts(lease, 0, outside, None, (), (), (gone,))
    inner = there.link(lease.interface)
    missing, foreign = _of_cable(net, lease, outside, inner, bridge)
    for name, what in map(_words, firewall.elements(net, (lease,)) if lease.ports else ()):
        kind = "map" if " : " in what else "set"
        elements = {
            " : ".join(map(expression_words, row if kind == "map" else (row,)))
            for row in table.elements(name)
        }
        missing += [f"element {what} of the {kind} {name}"] * (what not in elements)
    routes = tuple(one for one in there.routes if one.link == lease.interface)
    gateways = {net.gateway, net.gateway6}
    for one in routes:
        if not one.by_kernel and not (one.to == "default" and one.via in gateways):
            foreign.append(f"route {one.shown}")
    known = {"lo", *_interfaces(store, lease)}
    foreign += [f"link {one.name}" for one in there.links if one.name not in known]
    return EndFacts(
        lease, pid, outside, inner, routes, tuple(_names(pid)), tuple(missing), tuple(foreign)
    )


def _of_cable(
    net: Network, lease: Lease, outside: LinkFacts | None, inner: LinkFacts | None,
    bridge: LinkFacts | None,
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Return what the veth pair lacks of the lease, and what it has besides."""
    missing: list[str] = []
    foreign: list[str] = []
    if outside is None:
        missing.append(f"the host's end {lease.link}")
    elif not bridge or outside.master != bridge.number:
        missing.append(f"{lease.link} is not in the bridge {net.bridge}")
    if inner is None:
        return [*missing, f"the container's end {lease.interface}"], foreign
    own = [f"{lease.address}/{net.subnet.rpartition('/')[2]}"]
    own += [f"{lease.address6}/{net.subnet6.rpartition('/')[2]}"] if lease.address6 else []
    missing += [f"address {one}" for one in own if one not in inner.addresses]
    foreign += [f"address {one}" for one in inner.addresses if one not in own]
    if inner.mac != lease.mac:
        missing.append(f"hardware address {lease.mac}")
    return missing, foreign


def _interfaces(store: str, lease: Lease) -> set[str]:
    """Return the names of all links that minirun gave to a lease's container."""
    found = (one for name in network.names(store) for one in leases.all_of(store, name))
    return {one.interface for one in found if one.container == lease.container}


def _names(pid: int) -> list[tuple[str, tuple[str, ...]]]:
    hidden = ("127.", "::1", "fe00:", "ff0")
    return [row for row in inside.hosts(pid) if not row[0].startswith(hidden)]


def _ports(net: Network, given: list[Lease], table: Ruleset) -> list[tuple[str, str, str]]:
    """Return the elements of the maps that lead to this network's addresses."""
    addresses = {one for lease in given for one in (lease.address, lease.address6) if one}
    found = []
    for kind, name, _ in firewall.SETS:
        for key, value in table.elements(name) if kind == "map" else ():
            target = expression_words(value)
            to = target.partition(" . ")[0]
            if to in addresses or ruleset.is_in(to, net.subnet) or (
                net.subnet6 and ruleset.is_in(to, net.subnet6)
            ):  # fmt: skip
                found.append((name, expression_words(key), target))
    return found


def _rules(net: Network, table: Ruleset) -> list[tuple[str, str, str]]:
    """Return the rules of NAT but for those whose family, or whose maps, have nothing of it."""
    found = []
    for name in _NAT:
        chain = table.chains.get((*firewall.TABLE.split(), name))  # type: ignore[arg-type]
        for rule in chain.rules if chain else ():
            words = rule_words(rule)
            if "ip6" in words and not net.subnet6:
                continue
            used = [word[1:] for word in words.split() if word.startswith("@ports")]
            if all(table.elements(one) for one in used):
                found.append((name, words, rule.get("comment", "")))
    return found
