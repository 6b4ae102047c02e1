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
        found = self._route.link_lookup(ifname=name)
        if not found:
            return 0
        self._names[int(found[0])] = name
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
