"""What a network's containers know of their neighbours, as they come and go: hosts, and DNS.

The hosts files are rewritten in place (minirun.net.names); what is answered by DNS lies in a file
beside them (minirun.net.resolver). The caller holds the networks' lock.
"""

from __future__ import annotations

from minirun.common import docker_record
from minirun.common.network_request import NetworkRequest
from minirun.core import events
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import state
from minirun.net import leases, names, network, resolver
from minirun.net.leases import Lease
from minirun.net.network import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import ContainerRecord


def introduce(
    store: str, container: Container, asked: NetworkRequest, own: list[tuple[Network, Lease]]
) -> None:
    """Write the container's hosts, and those of its neighbours. Raises OSError."""
    names.rewrite(container.directory, hosts(store, container, asked, own))
    if names.asks_resolver(asked):
        resolver.write(container.directory, [(net, of(store, net)) for net, _ in own])
    for net, _ in own:
        update(store, net, container.directory)


def hosts(
    store: str, container: Container, asked: NetworkRequest, own: list[tuple[Network, Lease]]
) -> str:
    """Return the text of a container's hosts, with its neighbours."""
    gateway = own[0][0].gateway
    hostname = container.config.raw.get("hostname") or ""
    mine = [lease for _, lease in own]
    others = [
        lease for net, _ in own for lease in of(store, net)
        if lease.container != container.directory
    ]  # fmt: skip
    return names.hosts(asked, hostname, mine, others, gateway)


def of(store: str, net: Network) -> list[Lease]:
    """Return the leases whose names a network's containers know: of the default one none."""
    if net.name == network.DEFAULT:
        return []
    return [lease for lease in leases.all_of(store, net.name) if leases.is_live(lease)]


def update(store: str, net: Network, besides: str = "") -> None:
    """Write anew what all containers of a network know, but that of one directory."""
    for lease in of(store, net):
        if lease.container != besides:
            write(store, lease)


def rename(store: str, record: ContainerRecord, old: str, new: str) -> None:
    """Let the neighbours of a container find it by its new name, and no more by the old one.

    Its hostname stays. Raises MinirunError, OSError.
    """
    asked = docker_record.of(record).attachments
    if not asked:
        return
    with network.locked(store):
        for attachment in asked:
            for lease in of(store, network.load(store, attachment.network)):
                if lease.container == record.directory and old in lease.names[1:]:
                    hostname, *others = lease.names
                    called = (hostname, *(new if each == old else each for each in others))
                    leases.save(store, lease._replace(names=tuple(dict.fromkeys(called))))
            update(store, network.load(store, attachment.network))


def write(store: str, lease: Lease) -> None:
    """Write anew what one container knows, from its record and all leases."""
    root, _, container_id = lease.container.rpartition("/")
    try:
        record = state.load(root, container_id)
        asked = docker_record.of(record).network or NetworkRequest()
        hostname = lease.names[0] if lease.names else container_id
        mine, others, gateway = [], [], ""
        own: list[tuple[Network, list[Lease]]] = []
        for attachment in asked.networks:
            net = network.load(store, attachment.network)
            gateway = gateway or net.gateway
            own.append((net, []))
            for each in leases.all_of(store, net.name):
                if each.container == lease.container:
                    mine.append(each)
                elif net.name != network.DEFAULT and leases.is_live(each):
                    others.append(each)
                else:
                    continue
                own[-1][1].append(each)
        text = names.hosts(asked, hostname, mine, others, gateway)
        names.rewrite(lease.container, text)
        if names.asks_resolver(asked):
            resolver.write(lease.container, own)
            resolver.keep(record, asked)
    except (MinirunError, OSError, TypeError, LookupError) as error:
        events.emit("note", "hosts not written", {"id": container_id, "error": str(error)}, ret=-1)
