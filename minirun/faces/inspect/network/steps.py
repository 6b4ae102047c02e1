"""Single steps of a packet's way, which several ways have: each asks the kernel one thing.

A step's verdict is one of OK, PARTLY, STOPS and UNKNOWN: minirun.faces.inspect.network.why.
"""

from __future__ import annotations

from minirun.core.keeping import state
from minirun.faces.inspect.network import facts, inside, routing
from minirun.faces.inspect.network.why import OK, PARTLY, STOPS, UNKNOWN, Scene, WayStep
from minirun.net import ruleset
from minirun.net.leases import Lease
from minirun.net.network import Network

AGAIN = "minirun rm -f ID, and run it again: its start makes all of it anew"


def forwarding(six: bool) -> WayStep:
    """Return the step that asks whether the host forwards packets of IPv4, or of IPv6."""
    path = "ipv6/conf/all/forwarding" if six else "ipv4/ip_forward"
    shown = f"net.{path.replace('/', '.')}"
    if facts.setting(path) == "1":
        return WayStep("forwarding", OK, f"{shown} is 1")
    text = f"{shown} is {facts.setting(path) or 'not there'}: the host is no router, and drops it"
    return WayStep("forwarding", STOPS, text, f"sysctl -w {shown}=1, and see what resets it")


def route(scene: Scene, net: Network, to: str, source: str = "", link_in: str = "") -> WayStep:
    """Return the step of the host's routing to a container, of a packet that came so."""
    link, via = routing.look_up(to, 0, source, link_in)
    if link == net.bridge:
        return WayStep("route", OK, f"the host reaches {to} by {link}")
    if because := routing.reason(to, 0, source, link_in):
        text = f"the host does not send {to} to {net.bridge}: {because.text}"
        return WayStep("route", STOPS, text, f"ip {because.undo}")
    if not link:
        return WayStep("route", STOPS, f"the host has no route to {to}", AGAIN)
    by = f"{link} via {via}" if via else link
    rows = [one for one in scene.host.routes if one.link == link and _covers(one.to, to)]
    text = f"the host sends {to} to {by}: route {rows[0].to if rows else by} overlaps the subnet"
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


def to_bridge(
    scene: Scene, net: Network, to: str, source: str = "", link_in: str = ""
) -> list[WayStep]:
    """Return the steps of the host's routing and of the bridge: one that is down has no route."""
    there = bridge(scene, net)
    if there[-1].verdict == STOPS:
        return there
    return [route(scene, net, to, source, link_in), *there]


def paused(lease: Lease) -> list[WayStep]:
    """Return the step of a container whose processes are frozen; none if they are not."""
    root, _, container_id = lease.container.rpartition("/")
    if state.load(root, container_id).status != state.PAUSED:
        return []
    text = f"{lease.called} is paused: it takes packets, and nothing in it answers or asks"
    return [WayStep("paused", STOPS, text, f"minirun unpause {lease.called}")]


def neighbours(scene: Scene, net: Network, lease: Lease, pid: int) -> list[WayStep]:
    """Return the steps of hardware addresses that were written by hand, and are wrong."""
    there, bridge = facts.namespace(pid).link(lease.interface), scene.host.link(net.bridge)
    found = []
    rows = (
        (lease.address, there, net.bridge, 0, ""),
        (net.gateway, bridge, lease.interface, pid, f"nsenter -t {pid} -n "),
    )
    for address, owner, link, where, enter in rows:
        wrong = owner and routing.wrong_neighbour(address, owner.mac, link, where)
        if owner and wrong:
            whose = f"{lease.called} takes {address}" if where else f"the host takes {address}"
            text = f"{whose} to be at {wrong}, which was written by hand: it is at {owner.mac}"
            advice = f"{enter}ip neigh del {address} dev {link}"
            found.append(WayStep("neighbour entry", STOPS, text, advice))
    return found


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
    pid = facts.pid_of(lease)
    end = _end(facts.namespace(pid), lease, net, f"nsenter -t {pid} -n")
    return [*steps, end, *(neighbours(scene, net, lease, pid) if end.verdict == OK else [])]


def _end(there: facts.NamespaceLinks, lease: Lease, net: Network, enter: str) -> WayStep:
    name, link = f"{lease.interface} in {lease.called}", there.link(lease.interface)
    if link is None:
        return WayStep(name, STOPS, "the container's end is not there", AGAIN)
    if not link.is_up:
        return WayStep(name, STOPS, "it is down", f"{enter} ip link set {lease.interface} up")
    if lease.address not in [one.partition("/")[0] for one in link.addresses]:
        text = f"it has not the address {lease.address}"
        whole = f"{lease.address}/{net.subnet.rpartition('/')[2]}"
        advice = f"{enter} ip address add {whole} dev {lease.interface}"
        return WayStep(name, STOPS, text, advice)
    return WayStep(name, OK, f"it is up and has {lease.address}")


def listens(pid: int, lease: Lease, protocol: str, port: int) -> list[WayStep]:
    """Return the step of the program in the container."""
    name, what = "listens", f"{protocol} port {port}"
    if protocol not in ("tcp", "udp"):
        return [WayStep(name, UNKNOWN, f"who listens on {what} is not looked at")]
    found = inside.listening(pid, protocol, port)
    if not found:
        text = f"nothing in {lease.called} listens on {what}"
        advice = f"see that its program runs (minirun logs {lease.called}), and on which port"
        return [WayStep(name, STOPS, text, advice)]
    if stopped := inside.stopped(pid, found):
        number, program = stopped
        text = f"{program} (pid {number}) listens on {what}, and is stopped: it answers nothing"
        return [WayStep(name, STOPS, text, f"kill -CONT {number}")]
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
        return refused(scene, route) or WayStep(name, OK, route.shown)
    text = "the container has no default route: its answers to other hosts end in it"
    return WayStep(name, STOPS, text, default_route(scene))


def default_route(scene: Scene) -> str:
    """Return the command line that gives the container its default route again."""
    gateway = next((net.gateway for net, _ in scene.own if not net.internal), "")
    if not gateway:
        return f"minirun network connect bridge {scene.container.name}"
    return f"nsenter -t {scene.pid} -n ip route replace default via {gateway}"


def refused(scene: Scene, route: facts.RouteFacts) -> WayStep | None:
    """Return the step of a rule or a route in the container that takes what its default route
    should; None if there is none."""
    to = routing.ANY6 if ":" in route.via else routing.ANY
    own = scene.by_link(route.link)
    source = (own[1].address6 if ":" in to else own[1].address) if own else ""
    link, _ = routing.look_up(to, scene.pid, source)
    if link == route.link:
        return None
    because = routing.reason(to, scene.pid, source)
    text = f"the container has {route.shown}, and what leaves it does not take it"
    if because is None:
        return WayStep("default route", UNKNOWN, text, f"nsenter -t {scene.pid} -n ip rule")
    advice = f"nsenter -t {scene.pid} -n ip {because.undo}"
    return WayStep("default route", STOPS, f"{text}: {because.text}", advice)
