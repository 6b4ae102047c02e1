"""rtnetlink(7) by pyroute2: each request that changes something is an event in the log.

An event has the kernel's name of the request (RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE …), what was
asked, and the errno of a refusal: so the log can be held against what strace sees of the socket.
Questions (RTM_GETLINK …) change nothing, and are not logged.

pyroute2 takes 130 to 300 ms to import: the runtime imports it after clone, while init builds its
root filesystem.
"""

from __future__ import annotations

import os

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from minirun.common import descriptors
from minirun.core import events
from minirun.core.errors import errno_name
from minirun.core.keeping.record import Record
from minirun.core.kernel import name_call
from minirun.net.interfaces import ROUTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMES = {
    ("link", "add"): "RTM_NEWLINK", ("link", "set"): "RTM_NEWLINK", ("link", "del"): "RTM_DELLINK",
    ("addr", "add"): "RTM_NEWADDR", ("route", "add"): "RTM_NEWROUTE",
    ("brport", "set"): "RTM_NEWLINK",
}  # fmt: skip
"""pyroute2's call and verb → the kernel's name of the request."""


class Route:
    """One rtnetlink socket, of the network namespace that this thread is in when it is opened."""

    def __init__(self) -> None:
        descriptors.need(ROUTE)
        self._route = IPRoute()
        self._names: dict[int, str] = {}
        """ifindex → name, of the links that were looked up."""
        self._indices: dict[str, int] = {}
        """Name → ifindex, until a link is made or removed."""

    def __enter__(self) -> Route:
        return self

    def __exit__(self, *_: object) -> None:
        self._route.close()

    def change(self, kind: str, verb: str, why: str, /, **words: Any) -> None:
        """Send one request; `words` are its attributes, as pyroute2 names them.

        Raises OSError, whose `call` is the request's name, with the kernel's errno.
        """
        name, start = NAMES[kind, verb], events.now()
        link = self._names.get(words.get("index", 0))
        if kind == "link" and verb != "set":
            self._indices.clear()
        shown = {"link": link, **words} if link else words
        try:
            getattr(self._route, kind)(verb, **words)
        except NetlinkError as error:
            code = errno_name(error.code)
            events.emit("netlink", name, shown, ret=-1, errno=code, start=start, why=why)
            what = str(words.get("ifname") or words.get("address") or words.get("dst") or "")
            failure = OSError(error.code, os.strerror(error.code))
            raise name_call(failure, name, what or None) from None
        events.emit("netlink", name, shown, start=start, why=why)

    def index(self, name: str) -> int:
        """Return the ifindex of a link; 0 if there is none of that name."""
        if name in self._indices:
            return self._indices[name]
        found = self._route.link_lookup(ifname=name)
        if not found:
            return 0
        self._names[int(found[0])] = name
        self._indices[name] = int(found[0])
        return int(found[0])

    def links(self) -> list[Any]:
        """Return all links: pyroute2's ifinfmsg of each."""
        return list(self._route.get_links())

    def link(self, index: int) -> Any:
        """Return pyroute2's ifinfmsg of the link `index`."""
        return next(iter(self._route.get_links(index)))

    def addresses(self, index: int) -> list[Any]:
        """Return pyroute2's ifaddrmsg of each address of the link `index`."""
        return list(self._route.get_addr(index=index))

    def own_addresses(self) -> set[str]:
        """Return all addresses of this network namespace, of both families."""
        rows = self._route.get_addr()
        return {str(row.get_attr("IFA_LOCAL") or row.get_attr("IFA_ADDRESS")) for row in rows}

    def routes(self) -> list[Any]:
        """Return the routes of the main table, of both families: pyroute2's rtmsg of each."""
        main = 254  # RT_TABLE_MAIN, linux/rtnetlink.h
        return list(self._route.get_routes(table=main))


class NetlinkRequest(Record):
    """One request of a plan. It names its links: their ifindex may be unknown until it is sent."""

    kind: str
    verb: str
    why: str
    words: dict[str, Any]
    """Its attributes, as pyroute2 names them, but `dev` and `master` are names of links."""

    def describe(self) -> str:
        """Return it as a command line of ip(8), or of bridge(8)."""
        words = dict(self.words)
        dev = words.pop("dev", "")
        if self.kind == "addr":
            return f"ip address add {words['address']}/{words['prefixlen']} dev {dev}"
        if self.kind == "route":
            return f"ip route add {words['dst']} via {words['gateway']} proto static"
        if self.kind == "brport":
            ((key, value),) = words.items()
            name = {"mode": "hairpin"}.get(key, key)
            return f"bridge link set dev {dev} {name} {'on' if value else 'off'}"
        if self.verb == "del":
            return f"ip link delete dev {dev}"
        if self.verb == "set":
            return f"ip link set dev {dev} {_in_words(words)}"
        return f"ip link add {_in_words(words)}"

    def execute(self, route: Route) -> None:
        """Send the request. Raises OSError, as Route.change does."""
        words = dict(self.words)
        if "dev" in words:
            words = {"index": route.index(words.pop("dev")), **words}
        if "master" in words:
            words["master"] = route.index(words["master"])
        route.change(self.kind, self.verb, self.why, **words)


def _in_words(words: dict[str, Any]) -> str:
    """Return attributes of a link as ip-link(8) writes them; what belongs to a kind comes last."""
    parts: list[str] = []
    for key, value in words.items():
        if key == "ifname":
            parts.insert(0, str(value))
        elif key == "state":
            parts.append(str(value))
        elif key == "ifalias":
            parts.append(f"alias {_quoted(value)}")
        elif key == "net_ns_pid":
            parts.append(f"netns {value}")
        elif key not in ("kind", "peer"):
            parts.append(f"{key} {value}")
    if "kind" in words:
        parts.append(f"type {words['kind']}")
    if "peer" in words:
        parts.append(f"peer name {_in_words(words['peer'])}")
    return " ".join(parts)


def _quoted(text: str) -> str:
    """Return a text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"
