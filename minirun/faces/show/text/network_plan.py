"""What `run --dry-run` says of networks: the run's own plan, as command lines, and none of it done.

The lines for links, addresses, routes, settings and rules are those that a person would write for
ip(8), bridge(8), sysctl(8) and nft(8). What only a living container has is in capitals: PID, and
PORT for a port that the kernel is to choose. Who has a port is read from /proc: none is bound.
"""

from __future__ import annotations

import os

from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.lazy import lazy

with lazy:
    from minirun.faces.inspect.network import inside
    from minirun.net import (
        attach,
        docker_user,
        firewall,
        firewalld,
        forwarding,
        links,
        names,
        neighbours,
        nft,
        plans,
        ports,
        rtnetlink,
        upkeep,
        userspace,
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from minirun.common.network_request import NetworkRequest
    from minirun.net.leases import Lease
    from minirun.net.network import Network
    from minirun.net.plans import LinkPlan
    from minirun.net.ports import Port


def lines(container: Container, pid: int) -> list[str]:
    """Return what a container with init `pid` gets of networks; nothing if it is to have none.

    Raises MinirunError, OSError, as the run would.
    """
    found = []
    if container.config.new_namespace("network"):
        found.append(f"{_inside(pid)}ip link set dev lo up")
    docker = docker_record.of(container.record)
    if not docker.network:
        return found
    asked = docker.network
    if asked.mode == "userspace":
        return [*found, *userspace.plan(asked, pid), *_names(container, asked, [])]
    if asked.mode != "networks":
        return [*found, *_names(container, asked, [])]
    try:
        return [*found, *_networks(container, asked, pid)]
    except (MinirunError, OSError) as error:
        if not asked.default:
            raise
        return [*found, attach.fall_back(error)]


def _inside(pid: int) -> str:
    return f"nsenter -t {pid} -n "


def _networks(container: Container, asked: NetworkRequest, pid: int) -> Iterator[str]:
    """Yield what stage 1 would do, in its order."""
    store = container.settings.store
    with rtnetlink.Route() as route:
        planned = plans.plan(route, store, container, asked, pid)
        settings = forwarding.plan(route, [each.network for each in planned])
        own = [(each.network, each.lease) for each in planned]
        chains = nft.run([*firewall.LIST.split()]).output
        networks = [each.network for each in planned]
        passes = docker_user.needed(route, store, networks, chains)
        sources = firewalld.needed(route, networks, chains)
        no_way_out = attach.why_no_way_out(route, container.name, own, chains, passes)
    for each in planned:
        yield from _of_network(each, pid)
    for change in links.default_routes([each.network for each in planned], set()):
        yield f"{_inside(pid)}{change.describe()}"
    for setting in settings:
        yield setting.describe()
    first = attach.publisher(own)
    if asked.ports and first is not None:
        chosen = [ports.Port(*row) for row in asked.ports]
        numbers = [_number(store, port) for port in chosen]
        net, lease = own[first]
        rows = [port.row(number) for port, number in zip(chosen, numbers, strict=True)]
        own[first] = (net, lease._replace(ports=tuple(rows)))
        for row in ports.shown(rows):
            yield f"bind {row.replace('->', f' for {lease.address}:')}, by minirun:ports"
    yield f"nft draws the table {firewall.TABLE}, or makes it whole"
    for net, lease in own:
        for name, what in [*firewall.elements(net), *_published(net, lease)]:
            yield f"nft add element {firewall.TABLE} {name} '{{ {what} }}'"
    for net, lease in own:
        if upkeep.on_loopback((lease,)):
            yield links.localnet(net, is_on=True).describe()
    for rule in passes:
        yield f"nft {rule.command()}"
    for subnet in sources:
        yield f"firewall-cmd {' '.join(firewalld.command('--add-source', subnet))}"
    if no_way_out and not sources:
        yield no_way_out
    yield from _names(container, asked, own)


def _published(net: Network, lease: Lease) -> list[tuple[str, str]]:
    return firewall.elements(net, (lease,)) if lease.ports else []


def _of_network(each: LinkPlan, pid: int) -> Iterator[str]:
    net, lease = each.network, each.lease
    subnets = ", ".join(filter(None, (net.subnet, net.subnet6)))
    yield f"network {net.name}: {subnets}{', to be made' * each.is_new}"
    for dead in each.dead:
        yield f"take back {dead.address} from {dead.called}, which does not run"
    addresses = ", ".join(filter(None, (lease.address, lease.address6)))
    yield f"lease {addresses} as {lease.interface}"
    for operation in each.outside:
        yield operation.describe()
    for operation in each.inside:
        yield f"{_inside(pid)}{operation.describe()}"


def _number(store: str, port: Port) -> int | str:
    """Return the port of the host that a run would get now. Raises PortInUse."""
    if not port.first:
        return "PORT"
    if port.protocol == "sctp":  # /proc does not say
        return port.first
    for number in range(port.first, port.last + 1):
        others = inside.listening(os.getpid(), port.protocol, number)
        if not any(not port.host_ip or other.takes(port.host_ip) for other in others):
            return number
    raise attach.by_container(store, ports.in_use(port, port.last))


def _names(
    container: Container, asked: NetworkRequest, own: list[tuple[Network, Lease]]
) -> Iterator[str]:
    """Yield what is written into hosts, hostname and resolv.conf."""
    store = container.settings.store
    hostname = container.config.raw.get("hostname") or container.id
    alone = names.hosts(asked, hostname, [], [])
    text = neighbours.hosts(store, container, asked, own) if own else alone
    by_resolver = names.asks_resolver(asked)
    resolv = names.resolv_conf(asked, by_resolver=by_resolver)
    if by_resolver:
        yield f"answer port 53 of {names.RESOLVER} in the container, by minirun:names"
    texts = (text, f"{hostname}\n", resolv)
    for name, content in zip(names.FILES, texts, strict=True):
        for row in content.splitlines():
            yield f"network/{name}: {' '.join(row.split())}"
    for net, _ in own:
        for other in neighbours.of(store, net):
            if other.container != container.directory:
                yield f"write anew hosts of {other.called}"
