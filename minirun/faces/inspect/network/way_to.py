"""The way of a TCP connection from a container to one host and port: a name, an address, an answer.

The address is the container's own, the host's, a neighbour's, or of a host elsewhere; of the steps
to the last, ways has those beyond the gateway.
"""

from __future__ import annotations

import ipaddress
import os

from minirun.faces.inspect.network import facts, inside, routing, steps, walls, ways
from minirun.faces.inspect.network.why import OK, STOPS, UNKNOWN, PacketWay, Scene, WayStep
from minirun.net import leases, ruleset
from minirun.net.leases import Lease
from minirun.net.network import Network
from minirun.net.ruleset import PacketFacts


def way_to(scene: Scene, host: str, port: int) -> PacketWay:
    """Return the way of a TCP connection to a host and a port. Raises MinirunError, OSError."""
    title = f"out: to {host} port {port}"
    way, addresses = _look_up(scene, host)
    way = [*steps.paused(scene.own[0][1]), *way]
    for address in addresses[:1]:
        way += _to(scene, address, port)
        if not any(step.verdict == STOPS for step in way):
            way.append(_answers(scene, address, port))
    return PacketWay(title, tuple(way))


def _answers(scene: Scene, address: str, port: int) -> WayStep:
    why_not = inside.connects(scene.pid, address, port)
    if not why_not:
        return WayStep("answer", OK, f"{address} takes a connection to port {port}")
    text = f"{address} port {port}: {why_not}"
    return WayStep("answer", STOPS, text, "the way there is free as far as this host can see")


def _look_up(scene: Scene, host: str) -> tuple[list[WayStep], list[str]]:
    """Return the step of the name, and its addresses, IPv4 first: hosts, then DNS."""
    name = "name"
    try:
        return [WayStep(name, OK, "it is an address")], [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    there = [address for address, names in inside.hosts(scene.pid) if host in names]
    owners = [one for one in ways.known(scene) if host in one.names]
    if owners:
        right = [at for one in owners for at in (one.address, one.address6) if at]
        if not there or not set(there) & set(right):
            said = f"says {there[0]}" if there else "has no such name"
            text = f"the container's hosts file is stale: it {said}, {host} is {right[0]}"
            return [WayStep("hosts file", STOPS, text, ways.ADVICE_HOSTS)], []
    if there:
        return [WayStep(name, OK, f"{there[0]}, by the container's hosts file")], _sorted(there)
    return _by_dns(scene, host)


def _by_dns(scene: Scene, host: str) -> tuple[list[WayStep], list[str]]:
    way = ways.resolvers(scene)
    if way[0].verdict == STOPS:
        return way, []
    silent = []
    for server in inside.name_servers(scene.pid):
        try:
            found = inside.ask_dns(scene.pid, server, host)
        except UnicodeError:
            return [WayStep("name", STOPS, f"{host} can be no name")], []
        if found:
            return [*way, WayStep("name", OK, f"{found[0]}, by {server}")], _sorted(found)
        if found is not None:
            text = f"{server} knows no address of {host}"
            return [*way, WayStep("name", STOPS, text, "see that the name is right")], []
        silent.append(server)
    text = f"no DNS server answers: {', '.join(silent)}"
    advice = f"minirun network why {scene.container.name} {silent[0]}:53; or --dns ADDRESS"
    return [*way, WayStep("name", STOPS, text, advice)], []


def _sorted(addresses: list[str]) -> list[str]:
    return sorted(addresses, key=lambda one: ":" in one)


def _to(scene: Scene, address: str, port: int) -> list[WayStep]:
    """Return the steps from the container to an address."""
    link, via = routing.look_up(address, scene.pid)
    if because := None if link else routing.reason(address, scene.pid):
        advice = f"nsenter -t {scene.pid} -n ip {because.undo}"
        text = f"the container sends nothing to {address}: {because.text}"
        return [WayStep("route", STOPS, text, advice)]
    if not link:
        six = ":" in address
        if six and not any(net.subnet6 for net, _ in scene.own):
            text = "no network of the container has IPv6"
            advice = "minirun network create --ipv6 NAME, and run it with --network NAME"
            return [WayStep("route", STOPS, text, advice)]
        text = f"the container has no route to {address}, and no default route"
        return [WayStep("default route", STOPS, text, steps.default_route(scene))]
    if link == "lo":
        return [_own_port(scene, address, port)]
    way = [WayStep("route", OK, f"{address} by {link}{f' via {via}' if via else ''}")]
    own = scene.by_link(link)
    if own is None:
        return [*way, WayStep("link", UNKNOWN, f"{link} is no link of minirun's")]
    net, lease = own
    host_link, _ = routing.look_up(address)
    if via or host_link == "lo":
        way += ways.to_gateway(scene, link, via)
    if host_link == "lo":
        return [*way, _on_the_host(scene, net, lease, address, port)]
    if not via:
        return [*way, *_to_neighbour(scene, net, lease, address, port)]
    out = scene.host.link(host_link)
    return [*way, *ways.beyond(scene, net, lease, address, out, "tcp", port)]


def _own_port(scene: Scene, address: str, port: int) -> WayStep:
    """Return the step for an address of the container itself."""
    found = [one for one in inside.listening(scene.pid, "tcp", port)
             if one.takes(address) or one.address == address]  # fmt: skip
    if found:
        return WayStep("listens", OK, f"{address} is the container's own, and it listens there")
    text = f"{address} is the container itself, not the host, and it does not listen on {port}"
    gateway = scene.own[0][0].gateway
    return WayStep("listens", STOPS, text, f"the host is {gateway} (--add-host NAME:host-gateway)")


def _on_the_host(scene: Scene, net: Network, lease: Lease, address: str, port: int) -> WayStep:
    """Return the step for a port of the host: a published one, or a program's."""
    source = lease.address6 if ":" in address else lease.address
    packet = PacketFacts(source, address, "tcp", port, net.bridge, is_local=True)
    led = scene.rules.judge("prerouting", packet, "nat")
    if led.word == ruleset.DNAT:
        return WayStep("NAT", OK, f"{led.where} leads it to {led.to}")
    stopped = walls.step(scene, walls.of_host(scene, lease, packet), net)
    if stopped.verdict == STOPS:
        advice = f"{stopped.advice} (ufw: ufw allow in on {net.bridge})"
        return WayStep("firewall", STOPS, stopped.text, advice)
    found = inside.listening(os.getpid(), "tcp", port)
    if stopped_by := inside.stopped(os.getpid(), found):
        number, program = stopped_by
        text = f"{program} (pid {number}) listens on the host's port {port}, and is stopped"
        return WayStep("listens", STOPS, text, f"kill -CONT {number}")
    if any(one.takes(address) or one.address == address for one in found):
        return WayStep("listens", OK, f"the host listens on port {port}")
    if found:
        text = f"what listens on the host's port {port} takes {found[0].address} alone"
        return WayStep("listens", STOPS, text, f"let it listen on {address}, or on 0.0.0.0")
    return WayStep("listens", STOPS, f"nothing on the host listens on port {port}")


def _to_neighbour(
    scene: Scene, net: Network, lease: Lease, address: str, port: int
) -> list[WayStep]:
    """Return the steps to another container of the same network."""
    others = leases.all_of(scene.store, net.name)
    found = [one for one in others if address in (one.address, one.address6)]
    pid = facts.pid_of(found[0]) if found else 0
    if not pid:
        text = f"no container has {address}: it is in the subnet of {net.name}, {net.subnet}"
        advice = "for a host elsewhere of that address: a network with another --subnet"
        return [WayStep("neighbour", STOPS, text, advice)]
    way = [WayStep("neighbour", OK, f"{address} is container {found[0].called}")]
    family = "ip6" if ":" in address else "ip"
    if facts.setting(f"bridge/bridge-nf-call-{family}tables") == "1":  # br_netfilter
        both = PacketFacts("", address, "tcp", port, net.bridge, net.bridge)
        way.append(walls.step(scene, walls.through_host(scene, both, both, both)[2:3], net))
    other = found[0]
    way += steps.paused(other)
    source = lease.address6 if ":" in address else lease.address
    packet = PacketFacts(source, address, "tcp", port)
    back = PacketFacts(address, source, "tcp", 0, state="established")
    met = walls.inside(scene, lease, back, packet)
    met += walls.across(scene, lease, other, packet) + walls.across(scene, other, lease, back)
    walled = walls.step(scene, [*met, *walls.of_neighbour(pid, other, packet)], net)
    way += [walled] if walled.verdict != OK else []
    return [*way, *steps.cable(scene, net, found[0]), *steps.listens(pid, found[0], "tcp", port)]
