"""Which chains of nftables a packet meets on its way, and the first that drops it.

On the host: prerouting, forward, postrouting, or input if it is for the host itself; on the bridge,
whose ports are the host's ends of the cables, those of family bridge; in the container's own
namespace input and output. The picture of Netfilter's hooks has them in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.faces.inspect.network import routing
from minirun.faces.inspect.network.why import OK, STOPS, UNKNOWN, Scene, WayStep
from minirun.net import ruleset
from minirun.net.leases import Lease
from minirun.net.network import Network
from minirun.net.ruleset import Judgement, PacketFacts, Ruleset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
_DSTNAT = -100
"""The priority at which a packet's destination is rewritten: nft(8), "dstnat"."""
_ANSWER = "established"


class MetHook(Record):
    """A hook that a packet meets."""

    rules: Ruleset
    hook: str
    packet: PacketFacts
    match: str
    """What nft(8) calls this packet, for a rule that lets it pass."""
    family: str = ""
    """bridge, or empty for the packet's own: inet, and ip or ip6."""
    first: int | None = None
    last: int | None = None
    """Priorities of the chains that count."""
    pid: int = 0
    """In whose network namespace; 0: the host's."""


def inside(scene: Scene, lease: Lease, to_it: PacketFacts, from_it: PacketFacts) -> list[MetHook]:
    """Return the hooks of the container's own namespace; links are filled in here."""
    return _inside(scene.inner_rules, scene.pid, lease, to_it, from_it)


def of_neighbour(pid: int, lease: Lease, packet: PacketFacts) -> list[MetHook]:
    """Return the hooks in another container's namespace, for a packet to it and the answer."""
    back = PacketFacts(lease.address, "", packet.protocol, 0, state=_ANSWER)
    return _inside(ruleset.read_of(pid), pid, lease, packet, back)


def _inside(
    rules: Ruleset, pid: int, lease: Lease, to_it: PacketFacts, from_it: PacketFacts
) -> list[MetHook]:
    comes = to_it._replace(link_in=lease.interface, link_out="", is_local=True, is_dnat=False)
    goes = from_it._replace(link_in="", link_out=lease.interface, is_local=False, is_dnat=False)
    rows = (("prerouting", comes), ("input", comes), ("output", goes), ("postrouting", goes))
    return [MetHook(rules, hook, one, _match(one, hook), pid=pid) for hook, one in rows]


def on_bridge(scene: Scene, lease: Lease, packet: PacketFacts, *, comes: bool) -> list[MetHook]:
    """Return the hooks of family bridge, for a packet between the host and a container."""
    if comes:  # from the container
        one = packet._replace(link_in=lease.link, link_out="")
        return [_on_bridge(scene, hook, one) for hook in ("prerouting", "input")]
    one = packet._replace(link_in="", link_out=lease.link)
    return [_on_bridge(scene, hook, one) for hook in ("output", "postrouting")]


def across(scene: Scene, lease: Lease, other: Lease, packet: PacketFacts) -> list[MetHook]:
    """Return the hooks of family bridge, for a packet from one container to another."""
    one = packet._replace(link_in=lease.link, link_out=other.link)
    return [_on_bridge(scene, hook, one) for hook in ("prerouting", "forward", "postrouting")]


def _on_bridge(scene: Scene, hook: str, packet: PacketFacts) -> MetHook:
    links = PacketFacts("", "", "", 0, packet.link_in, packet.link_out)  # so that ARP passes too
    return MetHook(scene.rules, hook, packet, _match(links, hook), "bridge")


def to_host(scene: Scene, packet: PacketFacts) -> list[MetHook]:
    """Return the hooks of the host for a packet to an address of its own."""
    match = _match(packet, "input")
    return [MetHook(scene.rules, hook, packet, match) for hook in ("prerouting", "input")]


def through_host(
    scene: Scene, before: PacketFacts, packet: PacketFacts, back: PacketFacts
) -> list[MetHook]:
    """Return the hooks of the host for a packet that it forwards, and for the answer.

    `before`: the packet as it comes, before a rule gives it another destination.
    """
    comes = packet._replace(link_out="")
    return [
        MetHook(scene.rules, "prerouting", before, _match(before), last=_DSTNAT - 1),
        MetHook(scene.rules, "prerouting", comes, _match(comes), first=_DSTNAT),
        MetHook(scene.rules, "forward", packet, _match(packet, "forward")),
        MetHook(scene.rules, "postrouting", packet, _match(packet, "postrouting")),
        MetHook(scene.rules, "prerouting", (comes := back._replace(link_out="")), _match(comes)),
        MetHook(scene.rules, "forward", back, _match(back, "forward")),
        MetHook(scene.rules, "postrouting", back, _match(back, "postrouting")),
    ]


def into(
    scene: Scene,
    address: str,
    net: Network,
    lease: Lease,
    to: str,
    port: dict[str, Any],
    *,
    is_forwarded: bool,
) -> WayStep:
    """Return the step of all rules that a packet to a published port meets, and its answer.

    `address`: the host's, to which it comes if the port is published at every one.
    """
    out = scene.out_link.name if scene.out_link and is_forwarded else ""
    protocol, number = port["protocol"], port["port"]
    anywhere = routing.ANY6 if ":" in to else routing.ANY
    packet = PacketFacts("", to, protocol, number, out, net.bridge, is_dnat=is_forwarded)
    back = PacketFacts(to, anywhere, protocol, 0, net.bridge, out, "established")
    met = []
    if is_forwarded:
        at = port["host_ip"] or address
        before = PacketFacts("", at, protocol, port["host_port"], out, is_local=True)
        met = through_host(scene, before, packet, back)
    met += on_bridge(scene, lease, packet, comes=False)
    met += inside(scene, lease, packet, back)
    return step(scene, [*met, *on_bridge(scene, lease, back, comes=True)], net)


def of_host(scene: Scene, lease: Lease, packet: PacketFacts) -> list[MetHook]:
    """Return the hooks that a packet from the container to the host meets, and its answer."""
    back = PacketFacts(packet.to, packet.source, packet.protocol, 0, state="established")
    met = inside(scene, lease, back, packet._replace(is_local=False))[2:]
    met += on_bridge(scene, lease, packet, comes=True)
    met += to_host(scene, packet)
    met += on_bridge(scene, lease, back, comes=False)
    return [*met, *inside(scene, lease, back, packet)[:2]]


def _match(packet: PacketFacts, hook: str = "prerouting") -> str:
    """Return what nft(8) calls a packet, as far as it is known."""
    ip, words = "ip6" if packet.version == 6 else "ip", []
    if packet.link_in and hook not in ("output", "postrouting"):
        words.append(f"iifname {packet.link_in}")
    if packet.link_out and hook not in ("prerouting", "input"):
        words.append(f"oifname {packet.link_out}")
    unknown = ("", routing.ANY, routing.ANY6)
    words += [f"{ip} saddr {packet.source}"] * (packet.source not in unknown)
    words += [f"{ip} daddr {packet.to}"] * (packet.to not in unknown)
    if packet.protocol in ("tcp", "udp", "sctp") and packet.port:
        words.append(f"{packet.protocol} dport {packet.port}")
    return " ".join(words)


def step(scene: Scene, met: Sequence[MetHook], net: Network) -> WayStep:
    """Return the step of all hooks: every chain of every table has to accept."""
    unknown = None
    for one in met:
        found = one.rules.judge(one.hook, one.packet, "filter", one.family, one.first, one.last)
        where = f"{found.where} in the container" if one.pid else found.where
        if found.word == ruleset.DROP:
            text = f"{where} drops it: {found.rule}"
            return WayStep("firewall", STOPS, text, _let_through(found, one, net))
        if found.word == ruleset.UNKNOWN and not unknown:
            text = f"{where} may stop it: {found.rule}"
            unknown = WayStep("firewall", UNKNOWN, text, _let_through(found, one, net))
    if unknown:
        return unknown
    if _has_legacy_rules(met[0].packet.version):
        text = "every chain of nftables lets it pass; the tables of iptables-legacy are not read"
        return WayStep("firewall", UNKNOWN, text, "iptables-legacy -S FORWARD")
    what = "every chain of the forward hook" if any(m.hook == "forward" for m in met) else "every"
    return WayStep("firewall", OK, f"{what}{' chain' * (what == 'every')} lets it pass")


def _let_through(found: Judgement, met: MetHook, net: Network) -> str:
    """Return what lets packets through a chain that drops them."""
    name, _, _, family, table = found.where.split()[1:]
    if f"{family} {table}" == "inet minirun" and not met.pid:
        return f"minirun network connect {net.name} ID: so both are on one network; or -p"
    if f"{family} {table} {name}" in ("ip filter FORWARD", "ip6 filter FORWARD") and not met.pid:
        rules = f"iptables -I FORWARD -i {net.bridge} -j ACCEPT, and the same with -o"
        return f"{rules} (beside docker: -I DOCKER-USER; ufw: ufw route allow in on {net.bridge})"
    enter = f"nsenter -t {met.pid} -n " if met.pid else ""
    return f"{enter}nft insert rule {family} {table} {name} {met.match} accept"


def _has_legacy_rules(version: int) -> bool:
    """Return True if iptables-legacy has a filter table, which nft does not list."""
    try:
        names = state.read_text(f"/proc/self/net/ip{'6' if version == 6 else ''}_tables_names")
    except OSError:  # no such module is loaded
        return False
    return "filter" in names.split()


__all__ = [
    "MetHook", "across", "inside", "into", "of_host", "of_neighbour", "step", "through_host",
]  # fmt: skip
