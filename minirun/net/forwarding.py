"""The host forwards packets: the one setting of the host itself that networks need.

ip_forward makes of a host a router: ip-sysctl. It is switched on by the first container whose
network leads out, and noted; when the last container has left its networks it is switched off
again, unless another program may have come to need it: one that has made a bridge or a tunnel.
docker and netavark switch it on, and never off.

An IPv6 host that forwards no longer listens to its router's advertisements, and loses its default
route when that runs out; with accept_ra 2 it listens on. So links that have their default route
import errno
from there get that first.
"""

from __future__ import annotations

import errno
import os

from minirun.core import events
from minirun.core.keeping import jsonlite, state
from minirun.core.keeping.record import Record
from minirun.core.kernel import name_call
from minirun.net.network import MARK, OF, Network, folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.net.rtnetlink import Route

_NOTE = ".forwarding"
"""In the store's folder of networks: what was set before."""
_PROC = "/proc/sys/net"
_IPV4, _IPV6 = "ipv4/ip_forward", "ipv6/conf/all/forwarding"
_NEED_IT = ("bridge", "tun", "wireguard", "vxlan", "ipip", "gre")
"""Kinds of links whose owners count on a host that forwards: ip-link(8)."""
_RTPROT_RA, _LISTEN_ON = 9, 2


def sysctl(path: str, value: int, why: str) -> None:
    """Set net.PATH of this network namespace if it differs.

    On a read-only /proc, and without IPv6, it stays. Raises OSError.
    """
    file = f"{_PROC}/{path}"
    try:
        fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EROFS):
            return
        raise name_call(error, "open", file) from None
    try:
        before = os.read(fd, 64).decode().strip()
        if before == str(value):
            return
        os.pwrite(fd, str(value).encode(), 0)
    finally:
        os.close(fd)
    shown = {"name": f"net.{path.replace('/', '.')}", "value": value, "before": before}
    events.emit("note", "sysctl", shown, why=why)


class NetworkSetting(Record):
    """A step of a plan: net.PATH of a network namespace."""

    path: str
    """ipv4/ip_forward, as below /proc/sys/net."""
    value: int
    why: str

    def describe(self) -> str:
        """Return it as a command line of sysctl(8)."""
        path = f"net/{self.path}"  # with dots only if no link's name has one
        return f"sysctl {path if '.' in path else path.replace('/', '.')}={self.value}"

    def execute(self, route: Route) -> None:
        """Set it, in the network namespace of this thread. Raises OSError."""
        sysctl(self.path, self.value, self.why)


def plan(route: Route, networks: list[Network]) -> list[NetworkSetting]:
    """Return what is to be set for these networks, and is not yet. Raises OSError."""
    found = []
    why = "the host is the containers' router"
    if any(not net.internal for net in networks):
        found.append(NetworkSetting(_IPV4, 1, why))
    if any(net.subnet6 and not net.internal for net in networks):
        listen = "so it listens to its router as before"
        for name in _links_with_router(route):
            found.append(NetworkSetting(f"ipv6/conf/{name}/accept_ra", _LISTEN_ON, listen))
        found.append(NetworkSetting(_IPV6, 1, why))
    return [each for each in found if _value(each.path) not in ("", str(each.value))]


def switch_on(route: Route, store: str, networks: list[Network]) -> None:
    """Let the host forward what comes from networks that lead out; note what was before.

    Raises OSError.
    """
    changes = plan(route, networks)
    if not changes:
        return
    note = _read(store)
    before = {each.path: _value(each.path) for each in changes}
    note = {"namespace": _namespace(), "before": before | note.get("before", {})}
    file = _file(store)  # before they are set: what is cut off in between is put back
    state.replace(file, jsonlite.dumps(note), f"{file}.{os.getpid()}")
    for each in changes:
        each.execute(route)


def _value(path: str) -> str:
    """Return what net.PATH is; empty if there is none."""
    try:
        return state.read_text(f"{_PROC}/{path}").strip()
    except OSError:
        return ""


def switch_off(route: Route, store: str) -> None:
    """Put back what :func:`switch_on` has changed, unless another program may need it by now.

    Raises OSError.
    """
    note = _read(store)
    if not note:
        return
    os.unlink(_file(store))
    if other := _another_store(route, store):
        file = _file(other)
        state.replace(file, jsonlite.dumps(note), f"{file}.{os.getpid()}")
        why = "another store's containers need it: that one switches it off"
        events.emit("note", "sysctl", {"name": "net.ipv4.ip_forward", "value": 1}, why=why)
        return
    if any(kind(link) in _NEED_IT for link in route.links()):
        why = "another program's bridge or tunnel may need it: the host goes on forwarding"
        events.emit("note", "sysctl", {"name": "net.ipv4.ip_forward", "value": 1}, why=why)
        return
    for path, value in reversed(note["before"].items()):
        sysctl(path, int(value), "no container is on a network any more")


def _another_store(route: Route, store: str) -> str:
    """Return a store that has a bridge here, other than `store`; empty if none has.

    It is there, and has noted nothing of its own.
    """
    for link in route.links():
        mark, _, other = str(link.get_attr("IFLA_IFALIAS") or "").partition(OF)
        is_other = mark.startswith(MARK) and other.startswith("/") and other != store
        if is_other and os.path.isdir(folder(other)) and not _read(other):
            return other
    return ""


def is_ours(store: str) -> bool:
    """Return True if minirun has switched forwarding on, and will switch it off."""
    return _IPV4 in _read(store).get("before", {})


def _links_with_router(route: Route) -> list[str]:
    """Return the links whose default route comes from an advertisement of IPv6."""
    rows = [row for row in route.routes() if row["proto"] == _RTPROT_RA and not row["dst_len"]]
    indices = {row.get_attr("RTA_OIF") for row in rows}
    return [str(link.get_attr("IFLA_IFNAME")) for link in route.links() if link["index"] in indices]


def kind(link: Any) -> str:
    """Return the kind of a link, such as bridge; empty for hardware: ip-link(8)."""
    info = link.get_attr("IFLA_LINKINFO")
    return str(info.get_attr("IFLA_INFO_KIND")) if info else ""


def _namespace() -> int:
    return os.stat("/proc/self/ns/net").st_ino


def _file(store: str) -> str:
    """Return the path of the file that keeps what was switched on."""
    return f"{folder(store)}/{_NOTE}"


def _read(store: str) -> dict[str, Any]:
    """Return what was noted in this network namespace, since this boot of it; {} for nothing."""
    try:
        note = jsonlite.loads(state.read_text(_file(store)))
        return dict(note) if note["namespace"] == _namespace() else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}
