"""What links and addresses a container's network namespace has, for people and for leak checks.

Off the hot path: pyroute2 takes 130 ms to import, and speaks rtnetlink(7) for us.

Where we simplify: pyroute2's own NetNS forks a helper, which writes warnings to stderr; this
process rather enters the namespace for the moment of the question, and comes back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyroute2 import IPRoute

from minirun.common import descriptors
from minirun.core.keeping.record import Record
from minirun.core.kernel import namespaces

ROUTE = 8
"""Descriptors that an IPRoute opens, and some more. One that is half made complains at its end."""


class Interface(Record):
    """One network interface."""

    number: int
    """The kernel's ifindex."""
    name: str
    up: bool
    mac: str
    """The hardware address, 02:42:ac:11:00:02; empty if the kind has none."""
    addresses: tuple[str, ...]
    """With the length of the network: 127.0.0.1/8, ::1/128."""


def interfaces(pid: int) -> list[Interface]:
    """Return the interfaces that process `pid` sees, by index.

    Raises OSError: ProcessLookupError or FileNotFoundError if the process is gone.
    """
    descriptors.need(ROUTE)
    with network_of(pid), IPRoute() as route:
        links = list(route.get_links())
        addresses = list(route.get_addr())
    found = [
        Interface(
            link["index"],
            _text(link.get_attr("IFLA_IFNAME")),
            bool(link["flags"] & 1),  # IFF_UP
            link.get_attr("IFLA_ADDRESS") or "",
            tuple(
                f"{address.get_attr('IFA_ADDRESS')}/{address['prefixlen']}"
                for address in addresses
                if address["index"] == link["index"]
            ),
        )
        for link in links
    ]
    return sorted(found)


def _text(name: str | bytes) -> str:
    """Return a name as text: one that is not UTF-8, which the kernel allows, comes as bytes."""
    return name if isinstance(name, str) else name.rstrip(b"\0").decode(errors="replace")


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Be in the network namespace of `pid` for a while: setns(2), which moves this thread alone."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        namespaces.enter(f"/proc/{pid}/ns/net", namespaces.CLONE_NEWNET)
        try:
            yield
        finally:
            namespaces.setns(home, namespaces.CLONE_NEWNET, shown="back")
    finally:
        os.close(home)
