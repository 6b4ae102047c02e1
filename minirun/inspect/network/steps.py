"""Single steps of a packet's way, which several ways have: each asks the kernel one thing.

A step's verdict is one of OK, PARTLY, STOPS and UNKNOWN: minirun.inspect.network.why.
"""

from __future__ import annotations

from minirun.core.keeping import state
from minirun.inspect.network import facts, inside
from minirun.inspect.network.why import OK, PARTLY, STOPS, UNKNOWN, Scene, WayStep
from minirun.net import ruleset
from minirun.net.leases import Lease
from minirun.net.network import Network
from minirun.net.ruleset import PacketFacts

AGAIN = "minirun rm -f ID, and run it again: its start makes all of it anew"


def forwarding(six: bool) -> WayStep:
    """Return the step that asks whether the host forwards packets of IPv4, or of IPv6."""
    path = "ipv6/conf/all/forwarding" if six else "ipv4/ip_forward"
    shown = f"net.{path.replace('/', '.')}"
    if facts.setting(path) == "1":
        return WayStep("forwarding", OK, f"{shown} is 1")
    text = f"{shown} is {facts.setting(path) or 'not there'}: the host is no router, and drops it"
    return WayStep("forwarding", STOPS, text, f"sysctl -w {shown}=1, and see what resets it")


def route(scene: Scene, net: Network, to: str) -> WayStep:
    """Return the step of the host's routing to a container."""
    link, via = facts.route_to(to)
    if link == net.bridge:
        return WayStep("route", OK, f"the host reaches {to} by {link}")
    if not link:
        return WayStep("route", STOPS, f"the host has no route to {to}", AGAIN)
    by = f"{link} via {via}" if via else link
    rows = [one for one in scene.host.routes if one.link == link and _covers(one.to, to)]
    text = f"the host sends {to} to {by}: route {rows[0].to if rows else '?'} overlaps the subnet"
    advice = f"a network of other addresses: minirun network create --subnet …; {net.name} has"
    return WayStep("route", STOPS, f"{text} {net.subnet}", f"{advice} {net.subnet}")


def _covers(subnet: str, address: str) -> bool:
    return subnet != "default" and ruleset.is_in(address, subnet)


def bridge(scene: Scene, net: Network) -> list[WayStep]:
    """Return the steps that ask whether a network's bridge is there, and up."""
    link = scene.host.link(net.bridge)
    if link is None:
        return [WayStep("bridge", STOPS, f"there is no link {net.bridge}", AGAIN)]
    if not link.is_up:
        advice = f"ip link set {net.bridge} up"
        return [WayStep("bridge", STOPS, f"{net.bridge} is down", advice)]
    if net.gateway not in [one.partition("/")[0] for one in link.addresses]:
        text = f"{net.bridge} has not the gateway's address {net.gateway}"
        advice = f"ip address add {net.gateway}/{net.subnet.rpartition('/')[2]} dev {net.bridge}"
        return [WayStep("bridge", STOPS, text, advice)]
    return [WayStep("bridge", OK, f"{net.bridge} is up and has {net.gateway}")]


def passes_in(scene: Scene, net: Network, to: str, protocol: str, port: int) -> WayStep:
    """Return the step of the firewall for a packet from outside, and for its answer."""
    out = scene.out_link.name if scene.out_link else ""
    packet = PacketFacts("", to, protocol, port, out, net.bridge, is_dnat=True)
    back = PacketFacts(to, "", protocol, 0, net.bridge, out, "established")
    return passes(scene, (packet, back), net)


def passes(scene: Scene, packets: tuple[PacketFacts, ...], net: Network) -> WayStep:
    """Return the step of the forward hook: every chain of every table has to accept."""
    name = "firewall"
    unknown = None
    for packet in packets:
        found = scene.rules.judge("forward", packet)
        if found.word == ruleset.DROP:
            text = f"{found.where} drops it: {found.rule}"
            return WayStep(name, STOPS, text, _let_through(found.where, net))
        if found.word == ruleset.UNKNOWN:
            unknown = unknown or found
    if unknown:
        text = f"{unknown.where} may stop it: {unknown.rule}"
        return WayStep(name, UNKNOWN, text, _let_through(unknown.where, net))
    if _has_legacy_rules(packets[0].version):
        text = "every chain of nftables lets it pass; the tables of iptables-legacy are not read"
        return WayStep(name, UNKNOWN, text, "iptables-legacy -S FORWARD")
    return WayStep(name, OK, "every chain of the forward hook lets it pass")


def _has_legacy_rules(version: int) -> bool:
    """Return True if iptables-legacy has a filter table, which nft does not list."""
    try:
        names = state.read_text(f"/proc/self/net/ip{'6' if version == 6 else ''}_tables_names")
    except OSError:  # no such module is loaded
        return False
    return "filter" in names.split()


def _let_through(where: str, net: Network) -> str:
    """Return what lets packets through a chain that drops them."""
    if "table inet minirun" in where:
        return f"minirun network connect {net.name} ID: so both are on one network; or -p"
    if "table ip filter" in where or "table ip6 filter" in where:
        rules = f"iptables -I FORWARD -i {net.bridge} -j ACCEPT, and the same with -o"
        return f"{rules} (beside docker: -I DOCKER-USER; ufw: ufw route allow in on {net.bridge})"
    return f"a rule there that accepts iifname and oifname {net.bridge}"


def cable(scene: Scene, net: Network, lease: Lease) -> list[WayStep]:
    """Return the steps of the veth pair and of the container's address."""
    outer, bridge = scene.host.link(lease.link), scene.host.link(net.bridge)
    if outer is None:
        return [WayStep("cable", STOPS, f"the host's end {lease.link} is not there", AGAIN)]
    if not bridge or outer.master != bridge.number:
        advice = f"ip link set {lease.link} master {net.bridge}"
        text = f"{lease.link} is not in the bridge {net.bridge}"
        return [WayStep("cable", STOPS, text, advice)]
    if not outer.is_up:
        advice = f"ip link set {lease.link} up"
        return [WayStep("cable", STOPS, f"the host's end {lease.link} is down", advice)]
    steps = [WayStep("cable", OK, f"{lease.link} is up, in {net.bridge}")]
    return [*steps, _end(facts.namespace(facts.pid_of(lease)), lease)]


def _end(there: facts.NamespaceLinks, lease: Lease) -> WayStep:
    name, link = f"{lease.interface} in {lease.id}", there.link(lease.interface)
    if link is None:
        return WayStep(name, STOPS, "the container's end is not there", AGAIN)
    if not link.is_up:
        return WayStep(name, STOPS, "it is down", f"in it: ip link set {lease.interface} up")
    if lease.address not in [one.partition("/")[0] for one in link.addresses]:
        text = f"it has not the address {lease.address}"
        advice = f"in it: ip address add {lease.address} dev {lease.interface}"
        return WayStep(name, STOPS, text, advice)
    return WayStep(name, OK, f"it is up and has {lease.address}")


def listens(pid: int, lease: Lease, protocol: str, port: int) -> list[WayStep]:
    """Return the step of the program in the container."""
    name, what = "listens", f"{protocol} port {port}"
    if protocol not in ("tcp", "udp"):
        return [WayStep(name, UNKNOWN, f"who listens on {what} is not looked at")]
    found = inside.listening(pid, protocol, port)
    if not found:
        text = f"nothing in {lease.id} listens on {what}"
        advice = f"see that its program runs (minirun logs {lease.id}), and on which port"
        return [WayStep(name, STOPS, text, advice)]
    if all(one.is_loopback for one in found):
        text = f"what listens on {what} takes {found[0].address} alone: its own container's"
        return [WayStep(name, STOPS, text, "let it listen on 0.0.0.0, or :: for IPv6 too")]
    taken = {
        at: any(one.takes(at) for one in found) for at in (lease.address, lease.address6) if at
    }
    shown = ", ".join(sorted({one.address for one in found}))
    if not any(taken.values()):
        text = f"what listens on {what} takes {shown}, not {lease.address}"
        return [WayStep(name, STOPS, text, "let it listen on 0.0.0.0, or :: for IPv6 too")]
    if not all(taken.values()):
        refused = next(at for at, is_taken in taken.items() if not is_taken)
        version = 6 if ":" in refused else 4
        text = f"IPv{version}: what listens on {what} takes {shown}, not {refused}"
        advice = "let it listen on ::, which takes IPv4 too; or use a network without IPv6"
        return [WayStep(name, PARTLY, text, advice)]
    return [WayStep(name, OK, f"a program takes {what} at {shown}")]


def way_back(scene: Scene, six: bool) -> WayStep:
    """Return the step that asks whether the container has a route for its answers."""
    name = "way back"
    if route := scene.inner.default(6 if six else 4):
        return WayStep(name, OK, route.shown)
    text = "the container has no default route: its answers to other hosts end in it"
    return WayStep(name, STOPS, text, default_route(scene))


def default_route(scene: Scene) -> str:
    """Return the command line that gives the container its default route again."""
    gateway = next((net.gateway for net, _ in scene.own if not net.internal), "")
    if not gateway:
        return f"minirun network connect bridge {scene.container.id}"
    return f"in its namespace: nsenter -t {scene.pid} -n ip route add default via {gateway}"
