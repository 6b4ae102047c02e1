"""What a container's network needs of this machine: the bridge, which is the default of root's.

Links and rules are made in a network namespace of the attempt's own, and end with it; of the host
itself things are only read.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from minirun.core.keeping import state
from minirun.core.kernel import namespaces
from minirun.faces.doctor.attempts import Lacking, Workplace
from minirun.net import attach, docker_user, firewall, firewalld, links, names, network, nft
from minirun.net import forwarding as switch
from minirun.net.leases import Lease
from minirun.net.network import Network, NetworkError
from minirun.net.rtnetlink import Route

_NETWORK = Network(network.DEFAULT, network.bridge_of(network.DEFAULT), "10.88.0.0/16", "10.88.0.1")
_FORWARD = "/proc/sys/net/ipv4/ip_forward"


def bridge(place: Workplace) -> str:
    """A bridge and a veth pair, made as stage 1 makes them, in a namespace of their own."""
    namespaces.unshare(namespaces.CLONE_NEWNET)
    lease = Lease(place.scratch, _NETWORK.name, "eth0", "veth0", "10.88.0.2", "02:42:0a:58:00:02")
    with Route() as route:
        plan, mtu = links.bridge_plan(route, place.store, _NETWORK)
        links.carry_out(route, plan)
        links.carry_out(route, links.cable_plan(route, _NETWORK, mtu, lease, os.getpid()))
        links.carry_out(route, links.inside_plan(_NETWORK, lease))
        if not (route.index(_NETWORK.bridge) and route.index(lease.link)):
            raise Lacking("the kernel made no bridge, and said nothing")
    return "a bridge with a veth pair in it"


def firewall_table(place: Workplace) -> str:
    """nft, and a kernel that takes the table of minirun's networks: NAT, sets and maps."""
    namespaces.unshare(namespaces.CLONE_NEWNET)
    try:
        firewall.transaction(firewall.drawing())
    except NetworkError as error:
        raise Lacking(str(error), error.hint if str(error) == nft.MISSING else "") from None
    version = nft.run(["--version"]).output.split("(")[0].strip()
    return f"{nft.find()}, {version}: the table {firewall.TABLE} can be made"


def forwarding(place: Workplace) -> str:
    """net.ipv4.ip_forward: the host is the containers' router."""
    if state.read_text(_FORWARD).strip() == "1":
        ours = switch.is_ours(place.store)
        end = "set by minirun, until its last container ends" if ours else "not set by minirun"
        return f"net.ipv4.ip_forward is 1, {end}"
    os.close(os.open(_FORWARD, os.O_WRONLY | os.O_CLOEXEC))
    return "net.ipv4.ip_forward is 0: the first container on a network sets it, the last one resets"


def forwarded(place: Workplace) -> str:
    """The forward hook: every table has to let a container's packets pass."""
    try:
        chains = nft.run([*firewall.LIST.split()])
    except NetworkError as error:
        raise Lacking(str(error), error.hint or "") from None
    if chains.status:
        raise Lacking(chains.output.strip())
    bridges = [_NETWORK, *_known(place.store)]
    with Route() as route:
        passes = docker_user.needed(route, place.store, bridges, chains.output)
        sources = firewalld.needed(route, bridges, chains.output)
        for each in bridges if not sources else ():
            lease = Lease("", each.name, "eth0", "", str(each.gateway), "")
            own = [(each, lease)]
            if text := attach.why_no_way_out(route, "ID", own, chains.output, passes):
                raise Lacking(text.partition("; ")[0])
    if passes:
        return "docker's policy drops them: while a network is up its rules stand in DOCKER-USER"
    if sources:
        return "firewalld drops them: while a network is up its addresses are in zone trusted"
    others = [" ".join(each) for each in firewall.others(chains.output)]
    return (
        f"tables {', '.join(others)} let them pass"
        if others
        else "no other table filters forwarded packets"
    )


def names_by_dns(place: Workplace) -> str:
    """dnspython, by which minirun:names reads packets on a network that the user has made."""
    if not (path := names.library()):
        raise Lacking("dnspython is not installed")
    return f"{path}: containers on a network of `network create` ask {names.RESOLVER}"


def _known(store: str) -> list[Network]:
    found = []
    for name in network.names(store):
        try:
            found.append(network.load(store, name))
        except NetworkError:
            continue
    return found


Attempt = Callable[[Workplace], str]
_NEEDS = "without it a container has lo alone, or --network host"
_OTHERS = "iptables -I FORWARD -i BRIDGE -j ACCEPT, and -o (ufw: ufw route allow in on BRIDGE)"
_HOSTS = "without it neighbours' names are in /etc/hosts alone"
ABILITIES: tuple[tuple[str, Attempt, str], ...] = (
    ("bridge", bridge, f"CAP_NET_ADMIN, and a kernel with bridges and veth; {_NEEDS}"),
    ("firewall", firewall_table, f"a kernel with nf_tables, NAT and fib; {_NEEDS}"),
    ("forwarding", forwarding, "sysctl -w net.ipv4.ip_forward=1, where /proc/sys is writable"),
    ("forwarded packets", forwarded, _OTHERS),
    ("names by DNS", names_by_dns, f"apt install python3-dnspython; {_HOSTS}"),
)
"""Name, attempt, and what to do if it fails."""
