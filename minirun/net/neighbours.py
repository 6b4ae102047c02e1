"""The hosts files of a network's containers: each has its neighbours, as they come and go.

They are rewritten in place (minirun.net.names). The caller holds the networks' lock.
"""

from __future__ import annotations

from minirun.common import docker_record
from minirun.core import events
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import state
from minirun.net import leases, names, network, request
from minirun.net.leases import Lease
from minirun.net.network import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.net.request import NetworkRequest


def introduce(
    store: str, container: Container, asked: NetworkRequest, own: list[tuple[Network, Lease]]
) -> None:
    """Write the container's hosts, and those of its neighbours. Raises OSError."""
    names.rewrite(container.directory, hosts(store, container, asked, own))
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
    """Write the hosts of all containers of a network anew, but that of one directory."""
    for lease in of(store, net):
        if lease.container != besides:
            write(store, lease)


def write(store: str, lease: Lease) -> None:
    """Write one container's hosts anew, from its record and all leases."""
    root, _, container_id = lease.container.rpartition("/")
    try:
        record = state.load(root, container_id)
        asked = request.from_json(docker_record.of(record).network or {})
        hostname = lease.names[0] if lease.names else container_id
        mine, others, gateway = [], [], ""
        for attachment in asked.networks:
            net = network.load(store, attachment.network)
            gateway = gateway or net.gateway
            for each in leases.all_of(store, net.name):
                if each.container == lease.container:
                    mine.append(each)
                elif net.name != network.DEFAULT and leases.is_live(each):
                    others.append(each)
        text = names.hosts(asked, hostname, mine, others, gateway)
        names.rewrite(lease.container, text)
    except (MinirunError, OSError, TypeError, LookupError) as error:
        events.emit("note", "hosts not written", {"id": container_id, "error": str(error)}, ret=-1)
