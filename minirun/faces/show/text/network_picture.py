"""A network as a picture of text: the host's way out, the bridge, each cable, each container.

    network bridge
    host
    |   way out     e0 (2): 192.0.2.2/24, default via 192.0.2.1, MTU 1500
    |-- bridge minirun0 (3): 10.88.0.1/16, up, MTU 1500
    |   |-- veth1a2b3c4d (4) === eth0 (2) in container web

The numbers in brackets are the kernel's ifindex. It is ASCII where the locale is not UTF-8.
"""

from __future__ import annotations

from minirun.core.keeping.visible import clean
from minirun.net.network import DEFAULT
from minirun.net.ruleset import ACCEPT, DROP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.network.facts import EndFacts, LinkFacts, NetworkPicture
    from minirun.faces.inspect.network.passages import Passage

_SIGNS = {True: ("├── ", "│   ", " ═══ ", "→"), False: ("|-- ", "|   ", " === ", "->")}
"""In Unicode, or in ASCII: a branch, a trunk, a cable, an arrow."""
_COLUMN = 11
OTHERS = "other hosts"
MISSING, FOREIGN = "missing", "not minirun's record"


def title(picture: NetworkPicture) -> str:
    """Return the network's name and addresses."""
    net = picture.network
    subnets = ", ".join(filter(None, (net.subnet, net.subnet6)))
    return f"network {net.name}: {subnets}{', internal: no way out' if net.internal else ''}"


def way_out(picture: NetworkPicture) -> str:
    """Return the link that the host's default route is by."""
    route, link = picture.way_out, picture.out_link
    if route is None or link is None:
        return "none: the host has no default route"
    via = f", default via {route.via}" if route.via else ", default"
    return f"{end(link)}: {' '.join(link.addresses) or 'no address'}{via}, MTU {link.mtu}"


def bridge(picture: NetworkPicture) -> list[str]:
    """Return the bridge's name, and what it has."""
    link = picture.bridge
    if link is None:
        return [f"bridge {picture.network.bridge}: not there"]
    state = f"{'up' if link.is_up else 'DOWN'}, MTU {link.mtu}, {link.mac}"
    return [f"bridge {end(link)}", f"{' '.join(link.addresses) or 'no address'}, {state}"]


def end(link: LinkFacts) -> str:
    """Return a link's name with its ifindex."""
    return f"{link.name} ({link.number})"


def cable(one: EndFacts) -> tuple[str, str]:
    """Return both ends of a container's veth pair: the host's, the container's."""
    outer = end(one.outside) if one.outside else f"{one.lease.link} (-)"
    inner = end(one.inside) if one.inside else f"{one.lease.interface} (-)"
    return outer, f"{inner} in container {one.lease.called}"


def details(one: EndFacts, known: set[str], arrow: str = "→") -> list[tuple[str, str]]:
    """Return name and value of what one container has; `known`: lines of hosts that are said."""
    rows: list[tuple[str, str]] = []
    for link, where in ((one.outside, "the host's end"), (one.inside, "the container's end")):
        if link and not link.is_up:
            rows.append(("DOWN", where))
    if one.outside and one.inside and one.inside.peer != one.outside.number:
        rows.append(("peer", f"of {one.inside.name} is link {one.inside.peer} of the host"))
    if one.inside:
        rows.append(("address", " ".join(one.inside.addresses) or "none"))
        rows.append(("MAC", f"{one.inside.mac}, MTU {one.inside.mtu}"))
    rows += [("route", route.shown) for route in one.routes]
    rows += [("hosts", row) for row in own_names(one, known)]
    for port in one.lease.ports:
        at = port["host_ip"] or "any address"
        words = f"{at}, {port['protocol']} {port['host_port']} {arrow} {port['port']}"
        rows.append(("published", words))
    return rows + differences(one.missing, one.foreign)


def names(picture: NetworkPicture) -> list[str]:
    """Return what the containers' hosts files say of this network's addresses, each once.

    In its own file a container is called by its host name alone, which is made of its id if none
    was given. On a user's network others find it by its name, too: that stands first.
    """
    leases = {at: one.lease for one in picture.ends for at in _addresses(one)}
    order = list(leases)
    said = {row for one in picture.ends for row in one.names if row[0] in leases}
    shown: dict[str, None] = {}
    for address, called in sorted(said, key=lambda row: (order.index(row[0]), row)):
        lease = leases[address]
        known = called if picture.network.name == DEFAULT else (*lease.names, *called)
        first = (lease.called,) if lease.called in known else ()
        shown[f"{address} {' '.join(dict.fromkeys((*first, *called)))}"] = None
    return [row for row in shown if not _is_said(row, {*shown} - {row})]


def _addresses(one: EndFacts) -> list[str]:
    return [address for address in (one.lease.address, one.lease.address6) if address]


def own_names(one: EndFacts, known: set[str]) -> list[str]:
    """Return what a container's hosts file has besides what is `known` of networks."""
    rows = [f"{address} {' '.join(called)}" for address, called in one.names]
    return [row for row in rows if not _is_said(row, known)]


def _is_said(row: str, others: set[str]) -> bool:
    """Return True if one of the other rows has this row's address, and all of its names."""
    return any(set(row.split()) <= set(other.split()) for other in others)


def differences(missing: tuple[str, ...], foreign: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return rows for what only the records have, and what only the kernel has."""
    return [(f"{MISSING}:", each) for each in missing] + [(f"{FOREIGN}:", e) for e in foreign]


def rules(picture: NetworkPicture, arrow: str = "→") -> list[tuple[str, str]]:
    """Return the rules of NAT, chain by chain, and the elements of its maps."""
    rows = []
    for chain, words, comment in picture.rules:
        rows.append((chain, f"{words}{f'   # {comment}' if comment else ''}"))
    for name, key, value in picture.ports:
        rows.append((name, f"{key} {arrow} {value}"))
    return rows


def lines(
    picture: NetworkPicture, *, unicode: bool = True, with_rules: bool = True, is_first: bool = True
) -> list[str]:
    """Return the picture; without the rules it ends with the containers.

    `is_first`: what is the host's alone is said with the first of several networks.
    """
    branch, trunk, between, arrow = _SIGNS[unicode]
    forwards = "yes" if picture.forwards else "NO"
    found = [title(picture), "host" if is_first else "host, as above"]
    if is_first:
        found += [f"{trunk}{_row('way out', way_out(picture), unicode)}"]
        found += [f"{trunk}{_row('forwards', f'{forwards}: net.ipv4.ip_forward', unicode)}", trunk]
    name, *rest = bridge(picture)
    found.append(f"{branch}{clean(name, unicode)}")
    found += [f"{trunk}{trunk}{_row('address', each, unicode)}" for each in rest]
    known = names(picture)
    found += _rows([("name", row) for row in known], trunk * 2, unicode)
    found += _rows(differences(picture.missing, picture.foreign), trunk * 2, unicode)
    for one in picture.ends:
        ends = between.join(clean(each, unicode) for each in cable(one))
        found += [trunk * 2, f"{trunk}{branch}{ends}"]
        found += _rows(details(one, {*known}, arrow), trunk * 2, unicode)
    if not with_rules:
        return [line.rstrip() for line in found]
    found += [trunk, f"{branch}table inet minirun: NAT"]
    found += _rows(rules(picture, arrow) or [("none", "")], trunk, unicode)
    return [line.rstrip() for line in found]


def between(passages: tuple[Passage, ...], *, unicode: bool = True) -> list[str]:
    """Return what a packet meets from one network to another, and to and from other hosts."""
    arrow, found = _SIGNS[unicode][3], ["what the first packet of a connection meets"]
    for one in passages:
        way = f"{one.source or OTHERS} {arrow} {one.to or OTHERS}"
        found.append(f"    {clean(way, unicode):<32} {clean(met(one), unicode)}")
    return found


def met(one: Passage) -> str:
    """Return what a packet meets: the rule that stops it, or how it passes."""
    if one.word == DROP:
        return f"stopped: {one.rule}"
    if one.word != ACCEPT:
        return f"not known: {one.rule}"
    if one.to:
        return "passes"
    return "passes, by the host's address" if one.masquerade else "passes, by its own address"


def _rows(rows: list[tuple[str, str]], before: str, unicode: bool) -> list[str]:
    return [f"{before}{_row(*row, unicode)}" for row in rows]


def _row(name: str, value: str, unicode: bool) -> str:
    return f"{name:<{_COLUMN}} {clean(value, unicode)}" if name else clean(value, unicode)
