"""Connections of UDP that the kernel remembers, and that lead to where a port no longer leads.

The kernel decides by its rules only for the first packet of a connection; to all later ones it does
the same: conntrack. UDP has no end, so a client that goes on sending from the same port keeps its
entry alive, 30 to 120 seconds after each packet. Such a client would reach the address of a
container that is gone, or, if it began before the port was published, the host itself.

What the real stack does: netavark and docker delete the entries of published UDP ports as well, at
the start and at the end of a container, by the same requests (IPCTNL_MSG_CT_DELETE).
"""

from __future__ import annotations

import errno
import socket

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple, NFCTSocket

from minirun.common import descriptors
from minirun.core import events
from minirun.net.interfaces import ROUTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.net.leases import Lease
    from minirun.net.rtnetlink import Route


def forget(route: Route, lease: Lease) -> None:
    """Delete the entries of UDP to the ports that a lease publishes, at addresses of this host.

    What only passes through this host stays. Idempotent. A kernel without conntrack's netlink has
    nothing deleted, which the log says.
    """
    rows = [port for port in lease.ports if port["protocol"] == "udp"]
    own = route.own_addresses()
    descriptors.need(ROUTE)
    for family in (socket.AF_INET, socket.AF_INET6):
        with NFCTSocket(nfgen_family=family) as table:
            for port in rows:
                _forget(table, family, port, own)


def _forget(table: NFCTSocket, family: int, port: dict[str, Any], own: set[str]) -> None:
    """Delete the entries of one port and one family."""
    start, number = events.now(), port["host_port"]
    asked = NFCTAttrTuple(family=family, proto=socket.IPPROTO_UDP, dport=number)
    count, error = 0, ""
    try:
        for entry in list(table.dump(tuple_orig=asked)):
            way = NFCTAttrTuple.from_netlink(family, entry.get_attr("CTA_TUPLE_ORIG"))
            if way.proto == socket.IPPROTO_UDP and way.dport == number and way.daddr in own:
                count += _deleted(table, way)
    except NetlinkError as caught:
        error = str(caught)
    if count or error:
        args = {"port": f"{number}/udp", "entries": count} | ({"error": error} if error else {})
        why = "what was sent to the port before would go on to where it led then"
        events.emit("note", "conntrack", args, ret=-1 if error else 0, start=start, why=why)


def _deleted(table: NFCTSocket, way: NFCTAttrTuple) -> bool:
    """Delete an entry; return False if it had ended by itself meanwhile."""
    try:
        table.entry("del", tuple_orig=way)
    except NetlinkError as error:
        if error.code == errno.ENOENT:
            return False
        raise
    return True
