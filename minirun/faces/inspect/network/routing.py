"""Which way the kernel sends a packet, and what sends it elsewhere: rules, routes, neighbours.

`look_up` asks the kernel itself, RTM_GETROUTE of rtnetlink(7), as it would route a packet of this
source that came by this link. What refuses it, or leads it elsewhere, the answer does not say; so
`reason` goes through ip-rule(8)'s rules by their priority, each with its table's routes, and names
the first that takes the packet, with the command that takes it away.
"""

from __future__ import annotations

from contextlib import nullcontext

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from minirun.common import descriptors
from minirun.core.keeping.record import Record
from minirun.net import ruleset
from minirun.net.interfaces import ROUTE, network_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANY, ANY6 = "198.51.100.0", "2001:db8::"
"""Addresses that stand for any other host: RFC 5737, RFC 3849."""
_LOCAL, _MAIN, _DEFAULT = 255, 254, 253
"""The kernel's own tables: linux/rtnetlink.h."""
_UNICAST = 1
_REFUSING = {6: "blackhole", 7: "unreachable", 8: "prohibit"}
"""Types of routes, and actions of rules: RTN_BLACKHOLE …, FR_ACT_BLACKHOLE …."""
_TO_TABLE = 1
_BY_HAND = 0x80 | 0x40
"""NUD_PERMANENT, NUD_NOARP: linux/neighbour.h."""


class RouteReason(Record):
    """What decides on a packet's way, and the words after `ip` that take it away."""

    text: str
    undo: str


def look_up(address: str, pid: int = 0, source: str = "", link_in: str = "") -> tuple[str, str]:
    """Return link and gateway of a packet to an address, as the kernel would send it.

    `pid`: from whose network namespace; 0: this one. `source` and `link_in`, both or the first:
    where it comes from. ("", "") if there is no way; the link lo for an address of the namespace
    itself. Raises OSError.
    """
    descriptors.need(ROUTE)
    with network_of(pid) if pid else nullcontext(), IPRoute() as route:
        asked: dict[str, Any] = {"dst": address} | ({"src": source} if source else {})
        if link_in:
            asked["iif"] = next(iter(route.link_lookup(ifname=link_in)), 0)
        try:
            row = next(iter(route.route("get", **asked)))
            link = next(iter(route.get_links(row.get_attr("RTA_OIF"))))
        except (NetlinkError, StopIteration):
            return "", ""
    name = link.get_attr("IFLA_IFNAME")
    name = name if isinstance(name, str) else name.rstrip(b"\0").decode(errors="replace")
    return name, row.get_attr("RTA_GATEWAY") or ""


def reason(address: str, pid: int = 0, source: str = "", link_in: str = "") -> RouteReason | None:
    """Return the rule, or the route that refuses, by which a packet does not go its usual way; None
    if none is known of. Raises OSError."""
    descriptors.need(ROUTE)
    family = 10 if ":" in address else 2
    with network_of(pid) if pid else nullcontext(), IPRoute() as route:
        rules = [row for row in route.get_rules(family=family) if row["family"] == family]
        routes = list(route.get_routes(family=family))
    for row in sorted(rules, key=lambda row: row.get_attr("FRA_PRIORITY") or 0):
        if not _takes(row, address, source, link_in):
            continue
        shown = f"rule {row.get_attr('FRA_PRIORITY') or 0}"
        undo = f"{'-6 ' * (family == 10)}rule del pref {row.get_attr('FRA_PRIORITY') or 0}"
        if word := _REFUSING.get(row["action"]):
            return RouteReason(f"{shown} of ip-rule refuses it ({word})", undo)
        table = row.get_attr("FRA_TABLE") or row["table"]
        found = _in_table(routes, table, address) if row["action"] == _TO_TABLE else None
        if found is None:
            continue
        to = f"{found.get_attr('RTA_DST')}/{found['dst_len']}" if found["dst_len"] else "default"
        if word := _REFUSING.get(found["type"]):
            where = "" if table == _MAIN else f" table {table}"
            undo = f"{'-6 ' * (family == 10)}route del {word} {to}{where}"
            return RouteReason(f"route {word} {to}{where} refuses it", undo)
        if table in (_LOCAL, _MAIN, _DEFAULT):
            return None
        return RouteReason(f"{shown} of ip-rule takes table {table}, and its route {to}", undo)
    return None


def _takes(row: Any, address: str, source: str, link_in: str) -> bool:
    """Return True if a rule is for a packet, as far as that is known."""
    if row.get_attr("FRA_FWMARK"):
        return False
    to, of, by = (row.get_attr(name) for name in ("FRA_DST", "FRA_SRC", "FRA_IIFNAME"))
    if to and not ruleset.is_in(address, f"{to}/{row['dst_len']}"):
        return False
    if of and not (source and ruleset.is_in(source, f"{of}/{row['src_len']}")):
        return False
    return not by or by == link_in


def _in_table(routes: list[Any], table: int, address: str) -> Any:
    """Return the route of a table that an address takes: the longest, then the lowest metric."""
    found = [
        row for row in routes
        if (row.get_attr("RTA_TABLE") or row["table"]) == table
        and (not row["dst_len"]
             or ruleset.is_in(address, f"{row.get_attr('RTA_DST')}/{row['dst_len']}"))
    ]  # fmt: skip
    key = lambda row: (-row["dst_len"], row.get_attr("RTA_PRIORITY") or 0)  # noqa: E731
    return min(found, key=key, default=None)


def wrong_neighbour(address: str, mac: str, link: str, pid: int = 0) -> str:
    """Return the hardware address that was written by hand for a neighbour, if it is not `mac`;
    else "". arp(7): what the kernel asks for itself, it corrects itself. Raises OSError."""
    descriptors.need(ROUTE)
    with network_of(pid) if pid else nullcontext(), IPRoute() as route:
        index = next(iter(route.link_lookup(ifname=link)), 0)
        for row in route.get_neighbours(family=10 if ":" in address else 2):
            if row["ifindex"] == index and row.get_attr("NDA_DST") == address:
                found = str(row.get_attr("NDA_LLADDR") or "")
                return found if row["state"] & _BY_HAND and found != mac else ""
    return ""


__all__ = ["ANY", "ANY6", "RouteReason", "look_up", "reason", "wrong_neighbour"]
