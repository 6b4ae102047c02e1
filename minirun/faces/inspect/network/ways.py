"""The ways of a packet: into a container by a published port, and out of it.

Their steps come in the order in which a packet meets them: NAT, routing, the chains of the
forward hook, the bridge, the cable, the container's link and address, the program that listens.
"""

from __future__ import annotations

import ipaddress

from minirun.core.keeping import state
from minirun.faces.inspect.network import facts, inside, routing, steps, walls
from minirun.faces.inspect.network.why import OK, PARTLY, STOPS, UNKNOWN, PacketWay, Scene, WayStep
from minirun.net import leases, names, network, resolver, ruleset
from minirun.net.leases import Lease
from minirun.net.network import Network
from minirun.net.ports import holder
from minirun.net.ruleset import PacketFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ADVICE_HOSTS = "run it again, or mend /etc/hosts in the container: another program wrote it"


def general(scene: Scene) -> list[PacketWay]:
    """Return the way in by each published port, and the way out. Raises MinirunError, OSError."""
    found = [
        way_in(scene, net, lease, port) for net, lease in scene.own for port in lease.ports
    ]  # fmt: skip
    return [*found, way_out(scene)]


def way_in(scene: Scene, net: Network, lease: Lease, port: dict[str, Any]) -> PacketWay:
    """Return the way to a published port. Raises MinirunError, OSError."""
    at, protocol, number = port["host_ip"], port["protocol"], port["host_port"]
    six, is_local = ":" in at, bool(at) and ipaddress.ip_address(at).is_loopback
    relayed = six and not lease.address6
    to = lease.address6 if six and not relayed else lease.address
    way = [*steps.paused(lease), _held(lease, port, relayed), *_published_at(scene, at)]
    if not relayed:
        way.append(_led(scene, port, to))
    if not (is_local or relayed):
        way.append(steps.forwarding(six))
    if is_local or relayed:
        way += steps.to_bridge(scene, net, to)
    else:
        out = scene.out_link.name if scene.out_link else ""
        way += steps.to_bridge(scene, net, to, routing.ANY6 if six else routing.ANY, out)
    way.append(
        walls.into(
            scene,
            _own_address(scene, 6 if six and not relayed else 4),
            net,
            lease,
            to,
            port,
            is_forwarded=not (is_local or relayed),
        )
    )
    way += steps.cable(scene, net, lease)
    way += steps.listens(scene.pid, lease, protocol, port["port"])
    if not (is_local or relayed) and not net.internal:
        way.append(steps.way_back(scene, six))
    title = f"in: {protocol} {number} of {at or 'every address'} to {to} port {port['port']}"
    return PacketWay(title, tuple(way))


def _held(lease: Lease, port: dict[str, Any], relayed: bool) -> WayStep:
    number, protocol = port["host_port"], port["protocol"]
    if lease.holder and state.is_alive(lease.holder):
        return WayStep("port held", OK, f"minirun:ports (pid {lease.holder['pid']}) has it")
    other, _ = holder(number, protocol) if protocol != "sctp" else ("", 0)
    who = f"{other} has it" if other else "no process has it"
    text = f"minirun:ports does not run, {who}: what comes to ::1, or only by IPv6, ends there"
    return WayStep("port held", STOPS if relayed else PARTLY, text, steps.AGAIN)


def _published_at(scene: Scene, at: str) -> list[WayStep]:
    """Return the step that says which addresses of the host answer."""
    name = "published at"
    if not at:
        return [WayStep(name, OK, "every address of the host")]
    address = ipaddress.ip_address(at)
    advice = "leave the address out: -p HOST:PORT answers on every address, IPv6 too"
    if address.is_loopback:
        text = f"{at} alone: other hosts are refused"
    elif any(at == one.partition("/")[0] for link in scene.host.links for one in link.addresses):
        text = f"{at} alone: the host's other addresses refuse, 127.0.0.1 too"
    else:
        return [WayStep(name, STOPS, f"{at} is no address of this host now", "ip -brief address")]
    other = "by IPv6 no process answers" if address.version == 4 else "by IPv4 no process answers"
    text += f"; {other}, and localhost may be {'::1' if address.version == 4 else '127.0.0.1'}"
    return [WayStep(name, PARTLY, text, advice)]


def _led(scene: Scene, port: dict[str, Any], to: str) -> WayStep:
    """Return the step of NAT: which container the host's port leads to."""
    name, at = "NAT", port["host_ip"]
    if not at:
        version = 6 if ":" in to else 4
        at = _own_address(scene, version)
    is_local = ipaddress.ip_address(at).is_loopback
    link = "" if is_local or not scene.out_link else scene.out_link.name
    packet = PacketFacts("", at, port["protocol"], port["host_port"], link, is_local=True)
    found = scene.rules.judge("output" if is_local else "prerouting", packet, "nat")
    wanted = f"{to}:{port['port']}"
    if found.word == ruleset.DNAT and found.to == wanted:
        return WayStep(name, OK, f"{found.where} leads it to {wanted}")
    if found.word == ruleset.DNAT:
        other = found.to or "another address"
        text = f"{found.where} leads it to {other} instead: {found.rule}"
        return WayStep(name, STOPS, text, "another port: -p OTHER:PORT; or take that rule away")
    if not any(chain.table == "minirun" for chain in scene.rules.chains.values()):
        text = "the table inet minirun is gone: another program has flushed the rules"
        return WayStep(name, STOPS, text, steps.AGAIN)
    return WayStep(
        name, STOPS, f"no rule leads it to {wanted}: its map has no such element", steps.AGAIN
    )


def _own_address(scene: Scene, version: int) -> str:
    """Return an address of the host by which others reach it; else that of loopback."""
    link = scene.out_link
    found = [ipaddress.ip_interface(one).ip for one in (link.addresses if link else ())]
    loopback = "::1" if version == 6 else "127.0.0.1"
    return next((str(one) for one in found if one.version == version), loopback)


def way_out(scene: Scene) -> PacketWay:
    """Return the way out in general. Raises MinirunError, OSError."""
    title = "out: to other hosts"
    if all(net.internal for net, _ in scene.own):
        text = "the container's networks are internal"
        advice = f"minirun network connect bridge {scene.container.name}"
        step = WayStep("default route", STOPS, text, advice)
        return PacketWay(title, (step, *_names(scene)))
    default = scene.inner.default()
    if default is None:
        text = "the container has none: nothing leaves its own network"
        step = WayStep("default route", STOPS, text, steps.default_route(scene))
        return PacketWay(title, (step, *resolvers(scene), *_names(scene)))
    way = [*steps.paused(scene.own[0][1])]
    way.append(steps.refused(scene, default) or WayStep("default route", OK, default.shown))
    way += to_gateway(scene, default.link, default.via)
    if own := scene.by_link(default.link):
        way += beyond(scene, *own, "", scene.out_link)
    way += [*resolvers(scene), *_names(scene)]
    return PacketWay(title, tuple(way))


def to_gateway(scene: Scene, link: str, via: str) -> list[WayStep]:
    """Return the steps to the host, which is the gateway."""
    own = scene.by_link(link)
    if own is None:
        return [WayStep("gateway", UNKNOWN, f"{link} is no link of minirun's")]
    net, lease = own
    way = steps.cable(scene, net, lease)[::-1] + steps.bridge(scene, net)
    if via and via not in (net.gateway, net.gateway6):
        text = f"{via} is not the host, which is {net.gateway}"
        return [*way, WayStep("gateway", STOPS, text, steps.default_route(scene))]
    return [*way, WayStep("gateway", OK, f"{via} is the host, by {net.bridge}")] if via else way


def beyond(
    scene: Scene, net: Network, lease: Lease, to: str, out: facts.LinkFacts | None,
    protocol: str = "", port: int = 0,
) -> list[WayStep]:  # fmt: skip
    """Return the steps from the bridge to the outside; `to`: an address, "" for any."""
    six = ":" in to
    source = lease.address6 if six else lease.address
    way = [steps.forwarding(six)]
    if out is None:
        text = f"the host has no route to {to}" if to else "the host has no default route"
        return [*way, WayStep("host's way out", STOPS, text, "ip route")]
    if not out.is_up:
        text = f"{out.name} is down"
        return [*way, WayStep("host's way out", STOPS, text, f"ip link set {out.name} up")]
    way.append(WayStep("host's way out", OK, f"{out.name}: {' '.join(out.addresses)}"))
    there = to or (routing.ANY6 if six else routing.ANY)
    if routing.look_up(there, 0, source, net.bridge)[0] != out.name and (
        because := routing.reason(there, 0, source, net.bridge)
    ):
        text = f"what comes from {source} does not take it: {because.text}"
        return [*way, WayStep("host's way out", STOPS, text, f"ip {because.undo}")]
    way.append(steps.route(scene, net, source, there, out.name))
    packet = PacketFacts(source, there, protocol, port, net.bridge, out.name)
    back = PacketFacts(there, source, protocol, 0, out.name, net.bridge, "established")
    met = walls.inside(scene, lease, back, packet)[2:]  # out, then the answer's way in
    met += walls.on_bridge(scene, lease, packet, comes=True)
    met += walls.through_host(scene, packet._replace(link_out=""), packet, back)
    met += walls.on_bridge(scene, lease, back, comes=False)
    met += walls.inside(scene, lease, back, packet)[:2]
    way.append(walls.step(scene, met, net))
    way.append(_masquerade(scene, packet))
    return [*way, _mtu(scene, lease, out)]


def _masquerade(scene: Scene, packet: PacketFacts) -> WayStep:
    found = scene.rules.judge("postrouting", packet, "nat")
    if found.word == ruleset.MASQUERADE:
        return WayStep("masquerade", OK, f"{found.where}: by the address of {packet.link_out}")
    text = f"no rule masquerades it: other hosts cannot reply to {packet.source}"
    verdict = UNKNOWN if found.word == ruleset.UNKNOWN else STOPS
    return WayStep("masquerade", verdict, text, steps.AGAIN)


def _mtu(scene: Scene, lease: Lease, out: facts.LinkFacts) -> WayStep:
    inner = scene.inner.link(lease.interface)
    if inner is None or inner.mtu <= out.mtu:
        return WayStep("MTU", OK, f"{out.name} carries {out.mtu} bytes")
    text = f"{out.name} carries {out.mtu} bytes, {lease.interface} in the container sends up to"
    advice = f"minirun network create --opt mtu={out.mtu} NAME, and run it with --network NAME"
    more = f"{inner.mtu}: small packets pass, large ones may hang (TLS)"
    return WayStep("MTU", PARTLY, f"{text} {more}", advice)


def resolvers(scene: Scene) -> list[WayStep]:
    """Return the step of the container's DNS servers."""
    name, servers = "DNS servers", inside.name_servers(scene.pid)
    advice = "run it with --dns ADDRESS: a server that other hosts reach too"
    if not servers:
        text = "resolv.conf names none: look-ups go to 127.0.0.1, which is the container"
        return [WayStep(name, STOPS, text, advice)]
    dead = [server for server in servers if _is_dead(scene, server)]
    if not dead and (stopped := _asking_the_host(scene, servers)):
        return [stopped]
    if not dead:
        return [WayStep(name, OK, ", ".join(servers))]
    text = f"{', '.join(dead)} is the container's own loopback, and nothing listens there"
    verdict = STOPS if dead == servers else PARTLY
    if names.RESOLVER in dead:  # minirun:names was killed
        advice = "minirun network reload"
    return [WayStep(name, verdict, text, advice)]


def _asking_the_host(scene: Scene, servers: list[str]) -> WayStep | None:
    """Return the step of a rule that stops questions to a server that is the host itself."""
    for net, lease in scene.own:
        for server in servers:
            if routing.look_up(server)[0] == "lo" and not ipaddress.ip_address(server).is_loopback:
                source = lease.address6 if ":" in server else lease.address
                packet = PacketFacts(source, server, "udp", 53, net.bridge, is_local=True)
                found = walls.step(scene, walls.of_host(scene, lease, packet), net)
                if found.verdict == STOPS:
                    return WayStep("DNS servers", STOPS, f"{server}: {found.text}", found.advice)
    return None


def _is_dead(scene: Scene, server: str) -> bool:
    """Return True for a server on the container's loopback that is not there."""
    if server == names.RESOLVER and resolver.is_alive(scene.container.directory):
        return False
    if not ipaddress.ip_address(server).is_loopback:
        return False
    return not any(
        one.takes(server) or one.address == server for one in inside.listening(scene.pid, "udp", 53)
    )


def _names(scene: Scene) -> list[WayStep]:
    """Return the step of the container's hosts: it says what the networks' records say."""
    there, own = inside.hosts(scene.pid), [lease for _, lease in scene.own]
    stale = []
    for lease in known(scene):
        first = [lease.called] if lease.called in lease.names else []
        called = lease.names[:1] if lease in own else dict.fromkeys([*first, *lease.names])
        stale += [text for one in called if (text := _stale(one, lease, there))][:1]
    if not stale:
        return [WayStep("hosts file", OK, "its names are those of the networks")]
    return [WayStep("hosts file", STOPS, f"it is stale: {'; '.join(stale)}", ADVICE_HOSTS)]


def _stale(name: str, lease: Lease, there: list[tuple[str, tuple[str, ...]]]) -> str:
    """Return what a container's hosts says wrongly of a name; "" if it is right."""
    said = [address for address, names in there if name in names]
    if not said:
        return f"it has no {name}, which is {lease.address}"
    is_right = {lease.address, lease.address6} & set(said)
    return "" if is_right else f"it says {name} is {said[0]}, which is {lease.address}"


def known(scene: Scene) -> list[Lease]:
    """Return the leases whose names the container's hosts has to have: its own, neighbours'."""
    found = []
    hostname = scene.container.config.raw.get("hostname") or ""
    for net, lease in scene.own:
        found += [lease] if hostname in lease.names[:1] else []
        if net.name != network.DEFAULT:
            others = leases.all_of(scene.store, net.name)
            found += [one for one in others if one != lease and leases.is_live(one)]
    return found
