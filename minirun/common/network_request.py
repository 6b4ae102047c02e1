"""What `run` is asked for of networks: part of the container's record, written before it starts.

--network none                 a namespace with lo alone
--network host                 the host's own namespace
--network bridge, or NAME      one or several networks, each a link: eth0, eth1 …
--network container:ID         another container's namespace
--network pasta, slirp4netns   without root: a program that passes packets on
"""

from __future__ import annotations

from minirun.core.keeping import field_types
from minirun.core.keeping.field_types import TESTS
from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from minirun.core.keeping.container_record import ProcessIdentity

    AskedPorts = tuple[tuple[int, str, str, int, int], ...]
    Hosts = tuple[tuple[str, str], ...]
    PublishedPorts = tuple[dict[str, Any], ...]


DEFAULT = "bridge"
"""The network of containers that name none, as docker calls it."""
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
    """networks, userspace, host, or none."""
    networks: tuple[Attachment, ...] = ()
    ports: AskedPorts = ()
    """The fields of each minirun.net.ports.Port."""
    hosts: Hosts = ()
    """--add-host: name and address; the address may be host-gateway."""
    dns: tuple[str, ...] = ()
    dns_search: tuple[str, ...] = ()
    dns_options: tuple[str, ...] = ()
    domainname: str = ""
    program: str = ""
    """Without root: pasta or slirp4netns, the one that is used."""
    any_program: bool = False
    """Without root: True if another one that is installed may be used, when this one fails."""
    published: PublishedPorts = ()
    """Without root: the ports that it listens on, as minirun.net.ports.Port.row has them."""
    helper: ProcessIdentity | None = None
    """Without root: the program's process."""
    default: bool = False
    """True without --network: without a bridge it starts with lo alone, and a line says why."""

    def own_names(self, hostname: str) -> str:
        """Return what hosts calls the container: its name in full, and the first part of that."""
        full = f"{hostname}.{self.domainname}" if self.domainname else hostname
        return " ".join(dict.fromkeys((full, full.partition(".")[0])))

    def as_json(self) -> dict[str, Any]:
        """Return what the record keeps."""
        return {name: _plain(value) for name, value in self._asdict().items()}


def from_json(row: dict[str, Any]) -> NetworkRequest:
    """Return what a record keeps. Raises ValueError if a field is wrong."""
    found = _fields(row, NetworkRequest)
    rows = found.get("networks", ())
    return NetworkRequest(
        **found | {"networks": tuple(Attachment(**_fields(each, Attachment)) for each in rows)}
    )


def _fields(row: dict[str, Any], kind: type[NetworkRequest | Attachment]) -> dict[str, Any]:
    """Return the fields of a JSON object, with tuples for its lists. Raises ValueError."""
    found = field_types.checked(row, kind.__annotations__, kind._field_defaults, _TESTS)
    return {name: _frozen(value) for name, value in found.items()}


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return a value of a field as JSON has it."""
    if isinstance(value, Attachment):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [*map(_plain, value)] if isinstance(value, tuple) else value


def _rows(*kinds: type) -> Callable[[Any], bool]:
    """Return a check that a value is a list of lists, whose members have these types."""
    return lambda value: (
        isinstance(value, list)
        and all(isinstance(row, list) and tuple(map(type, row)) == kinds for row in value)
    )


def _objects(**kinds: type) -> Callable[[Any], bool]:
    """Return a check that a value is a list of objects that have these names, of these types."""
    return lambda value: (
        isinstance(value, list)
        and all(
            isinstance(row, dict)
            and all(name in row and type(row[name]) is kind for name, kind in kinds.items())
            for row in value
        )
    )


_TESTS = {
    **TESTS,
    "tuple[Attachment, ...]": (_objects(network=str), "a list of networks"),
    "AskedPorts": (_rows(int, str, str, int, int), "a list of ports"),
    "Hosts": (_rows(str, str), "a list of names and addresses"),
    "PublishedPorts": (
        _objects(port=int, protocol=str, host_ip=str, host_port=int), "a list of ports",
    ),
}  # fmt: skip
