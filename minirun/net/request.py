"""What `run` is asked for of networks: part of the container's record, written before it starts.

--network none                 a namespace with lo alone: nothing is asked for, so no request
--network host                 the host's own namespace
--network bridge, or NAME      one or several networks, each a link: eth0, eth1 …
--network container:ID         another container's namespace
--network pasta, slirp4netns   without root: a program that passes packets on
"""

from __future__ import annotations

from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.keeping.container_record import ProcessIdentity


USERSPACE = ("pasta", "slirp4netns")
"""Programs of users without root, as --network names them; the first installed is the default."""


class Attachment(Record):
    """One network that the container is to be on."""

    network: str
    address: str = ""
    """--ip; empty: the next free one."""
    address6: str = ""
    mac: str = ""
    aliases: tuple[str, ...] = ()


class NetworkRequest(Record):
    """What a container is to have of networks."""

    mode: str = "networks"
    """networks, userspace, or host."""
    networks: tuple[Attachment, ...] = ()
    ports: tuple[tuple[Any, ...], ...] = ()
    """The fields of each minirun.net.ports.Port."""
    hosts: tuple[tuple[str, str], ...] = ()
    """--add-host: name and address; the address may be host-gateway."""
    dns: tuple[str, ...] = ()
    dns_search: tuple[str, ...] = ()
    dns_options: tuple[str, ...] = ()
    domainname: str = ""
    program: str = ""
    """Without root: pasta or slirp4netns, the one that is used."""
    any_program: bool = False
    """Without root: True if another one that is installed may be used, when this one fails."""
    published: tuple[dict[str, Any], ...] = ()
    """Without root: the ports that the program listens on, as a lease has them."""
    helper: ProcessIdentity | None = None
    """Without root: the program's process."""
    default: bool = False
    """True without --network: without a bridge it starts with lo alone, and a line says why."""

    def fqdn(self, hostname: str) -> str:
        """Return host name and domain, if there is a domain."""
        return f"{hostname}.{self.domainname}" if self.domainname else ""

    def as_json(self) -> dict[str, Any]:
        """Return what the record keeps."""
        return self._asdict() | {"networks": [each._asdict() for each in self.networks]}


def from_json(row: dict[str, Any]) -> NetworkRequest:
    """Return what a record keeps. Raises TypeError, LookupError if another version wrote it."""
    networks = tuple(
        Attachment(**each | {"aliases": tuple(each["aliases"])}) for each in row["networks"]
    )
    hosts = tuple((name, address) for name, address in row["hosts"])
    ports = tuple(tuple(each) for each in row["ports"])
    lists = {key: tuple(row[key]) for key in ("dns", "dns_search", "dns_options", "published")}
    return NetworkRequest(**row | {"networks": networks, "hosts": hosts, "ports": ports, **lists})
