"""What docker's `inspect` says of networks: NetworkSettings, and some fields of HostConfig."""

from __future__ import annotations

from typing import Any

from minirun.common import docker_record
from minirun.common.network_request import NetworkRequest
from minirun.common.ports import exposed as split_ports
from minirun.core.errors import StateError
from minirun.core.keeping import state
from minirun.faces.show.template.values import Fields, NilList, NilMap
from minirun.net import leases, network, ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from minirun.common.docker_record import DockerRecord
    from minirun.core.container import Container
    from minirun.net.leases import Lease
    from minirun.net.ports import Port


def network_mode(container: Container) -> str:
    """Return docker's NetworkMode: bridge, a network's name, host, none, container:ID."""
    docker = docker_record.of(container.record)
    asked, path = docker.network, container.config.namespaces.get("network")
    if path is None or (asked and asked.mode == "host"):
        return "host"
    if path:
        other = docker.joined.get("network")
        return f"container:{other}" if other else path
    if not asked:
        return "none"
    return asked.networks[0].network if asked.networks else asked.program or "none"


def names_of(container: Container) -> dict[str, Any]:
    """Return the fields of HostConfig that --dns and --add-host set."""
    asked = docker_record.of(container.record).network or NetworkRequest()
    hosts = [f"{name}:{address}" for name, address in asked.hosts]
    return {
        "Dns": list(asked.dns), "DnsOptions": list(asked.dns_options),
        "DnsSearch": list(asked.dns_search), "ExtraHosts": hosts or NilList(),
    }  # fmt: skip


def bindings(container: Container) -> dict[str, list[Fields]]:
    """Return the ports that -p has asked for: (port, protocol, address, first, last) of each."""
    found: dict[str, list[Fields]] = {}
    docker = docker_record.of(container.record)
    own = docker.network.ports if docker.network else ()
    # with --network none and host they are discarded, and no request has them
    for port, protocol, address, first, last in own or _published(docker):
        number = "" if not first else str(first) if first == last else f"{first}-{last}"
        row = Fields(HostIp=address, HostPort=number)
        found.setdefault(f"{port}/{protocol}", []).append(row)
    return found


def _published(docker: DockerRecord) -> Iterator[Port]:
    """Yield what -p said: port, protocol, address, first, last."""
    for text in docker.asked.get("publish", ()):
        yield from ports.parse(text)


def exposed(container: Container) -> list[str]:
    """Return the ports that the image or a flag names, as 80/tcp."""
    declared = (docker_record.of(container.record).declared or {}).get("ports") or ()
    each = {one for port in declared for one in split_ports(str(port)) or [str(port)]}
    return sorted({*each, *bindings(container)})


def network_rows(container: Container) -> list[str]:
    """Return the names of the networks that the container is to be on."""
    return [each.network for each in docker_record.of(container.record).attachments]


def leases_of(container: Container, name: str) -> list[Lease]:
    """Return the addresses that the container has on a network. Raises OSError."""
    found = leases.all_of(container.settings.store, name)
    return [lease for lease in found if lease.container == container.directory]


def network_settings(container: Container, own: list[Lease]) -> Fields:
    """Return NetworkSettings; `own` are all leases of the container. Raises OSError."""
    published = leases.published(container.settings.store, container.record)
    names = network_rows(container) or [network_mode(container)]
    shown: dict[str, list[Fields]] = {}
    if names[0] not in ("none", "host"):  # whose ports are no container's
        shown = {key: NilList() for key in exposed(container)}
    for port in published if container.record.status != state.STOPPED else ():
        row = Fields(HostIp=port["host_ip"] or "0.0.0.0", HostPort=str(port["host_port"]))
        key = f"{port['port']}/{port['protocol']}"
        shown[key] = [*shown.get(key, ()), row]
    rows = {
        name: _endpoint(container, name, [one for one in own if one.network == name])
        for name in names
    }
    first = rows[names[0]] if names[0] == network.DEFAULT else _nothing()
    pid = container.record.pid
    return Fields(
        Bridge="", SandboxID="", SandboxKey=f"/proc/{pid}/ns/net" if pid else "",
        Ports=shown, HairpinMode=False, LinkLocalIPv6Address="", LinkLocalIPv6PrefixLen=0,
        SecondaryIPAddresses=NilList(), SecondaryIPv6Addresses=NilList(),
        **{key: first[key] for key in _SHOWN}, Networks=rows,
    )  # fmt: skip


_SHOWN = (
    "EndpointID", "Gateway", "GlobalIPv6Address", "GlobalIPv6PrefixLen", "IPAddress", "IPPrefixLen",
    "IPv6Gateway", "MacAddress",
)  # fmt: skip
"""What docker says of the default network above the list of networks too."""


def _nothing() -> Fields:
    """Return what docker says of a network that the container is not on at the moment."""
    return Fields(
        IPAMConfig=None, Links=NilList(), Aliases=NilList(), MacAddress="", DriverOpts=NilMap(),
        GwPriority=0, NetworkID="", EndpointID="", Gateway="", IPAddress="", IPPrefixLen=0,
        IPv6Gateway="", GlobalIPv6Address="", GlobalIPv6PrefixLen=0, DNSNames=NilList(),
    )  # fmt: skip


def _endpoint(container: Container, name: str, own: list[Lease]) -> Fields:
    found = _nothing()
    if not own:
        return found
    lease = own[0]
    found |= {
        "MacAddress": lease.mac, "IPAddress": lease.address, "NetworkID": name,
        "EndpointID": lease.link, "GlobalIPv6Address": lease.address6,
        "Aliases": list(lease.names), "DNSNames": list(lease.names),
    }  # fmt: skip
    try:
        net = network.load(container.settings.store, name)
    except (StateError, OSError, network.NetworkError):
        return found
    found |= {"NetworkID": net.id}
    found |= {"Gateway": net.gateway, "IPPrefixLen": int(net.subnet.rpartition("/")[2])}
    if lease.address6:
        prefix = int(net.subnet6.rpartition("/")[2] or 0)
        found |= {"IPv6Gateway": net.gateway6, "GlobalIPv6PrefixLen": prefix}
    return found
