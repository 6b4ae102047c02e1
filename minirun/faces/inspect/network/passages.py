"""What a packet meets between networks, and between them and other hosts: a wall, or a way.

The kernel's rules are asked, those of every table, as `nft -j list ruleset` has them: minirun's own
and those of others, such as docker's. A packet here is the first one of a connection.
"""

from __future__ import annotations

from minirun.core.keeping.record import Record
from minirun.faces.inspect.network import facts
from minirun.net import ruleset
from minirun.net.ruleset import DROP, PacketFacts, Ruleset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.network.facts import NetworkPicture

OTHER_HOSTS = ""
"""The name of what is outside, in place of a network's."""
_ANYWHERE = "198.51.100.0"
"""An address of another host: RFC 5737."""


class Passage(Record):
    """What becomes of a packet from one network to another, or to or from other hosts."""

    source: str
    """A network's name, or OTHER_HOSTS."""
    to: str
    word: str
    """accept, drop or unknown: minirun.net.ruleset."""
    rule: str = ""
    """What stops it, as nft writes it; a sysctl's name and value."""
    where: str = ""
    """The rule's chain and table."""
    masquerade: str = ""
    """The rule by which it leaves with the host's own address; empty if there is none."""


class PublishedWay(Record):
    """A port of the host, and where the kernel's rules lead a packet to it."""

    network: str
    address: str
    """A container's."""
    port: int
    said: str
    """tcp 8080, or with the host's address in front: 192.0.2.2 tcp 8080."""


def read(pictures: list[NetworkPicture]) -> tuple[Passage, ...]:
    """Return what is between these networks, in both directions. Raises NetworkError, OSError.

    A network without a bridge has no packets.
    """
    there = [one for one in pictures if one.bridge]
    rules = ruleset.read() or Ruleset([])
    found = []
    for one in there:
        found += [_judged(rules, one, None), _judged(rules, None, one)]
        found += [_judged(rules, one, other) for other in there if other is not one]
    return tuple(found)


def _judged(rules: Ruleset, one: NetworkPicture | None, other: NetworkPicture | None) -> Passage:
    """Return what a packet of one network to another meets; None: other hosts."""
    source, to = (each.network.name if each else OTHER_HOSTS for each in (one, other))
    links = [_link(one or other, one), _link(one or other, other)]
    if not links[1]:
        return Passage(source, to, DROP, "no default route", "the host's routes")
    for path in ("ip_forward", *([f"conf/{links[0]}/forwarding"] if links[0] else [])):
        if (value := facts.setting(f"ipv4/{path}")) != "1":
            what = f"net.ipv4.{path.replace('/', '.')} is {value or 'not there'}"
            return Passage(source, to, DROP, what, "the host's routing")
    packet = PacketFacts(_address(one), _address(other), "", 0, links[0], links[1])
    forward = rules.judge("forward", packet)
    if forward.word == DROP or other is not None:
        return Passage(source, to, forward.word, forward.rule, forward.where)
    last = rules.judge("postrouting", packet, "nat")
    hidden = last.rule if last.word == ruleset.MASQUERADE else ""
    return Passage(source, to, forward.word, forward.rule, forward.where, hidden)


def _link(known: NetworkPicture | None, one: NetworkPicture | None) -> str:
    """Return the link to a network; to other hosts that of the default route, which may be none."""
    if one:
        return one.network.bridge
    return known.out_link.name if known and known.out_link else ""


def _address(one: NetworkPicture | None) -> str:
    """Return an address of a network: a container's, else the next one after the bridge's."""
    if one is None:
        return _ANYWHERE
    return one.ends[0].lease.address if one.ends else one.network.gateway


def published(picture: NetworkPicture) -> list[PublishedWay]:
    """Return where the host's ports lead, by the kernel's maps: one for IPv4 and IPv6 together."""
    four = {one.lease.address6: one.lease.address for one in picture.ends if one.lease.address6}
    found = []
    for _, key, value in picture.ports:
        *at, protocol, number = key.split(" . ")
        address, _, port = value.partition(" . ")
        said = " ".join((*at, protocol, number))
        found.append(
            PublishedWay(picture.network.name, four.get(address, address), int(port), said)
        )
    return list(dict.fromkeys(found))
