"""Ports as users write them: 80, 8000-8003, 53/udp."""

from __future__ import annotations

from minirun.core.keeping.numbers import whole

PROTOCOLS = ("tcp", "udp", "sctp")
MOST = 65535


def port(text: str) -> int | None:
    """Return the number of a port; None if it is none: a port is 1 to 65535."""
    return whole(text, 1, MOST)


def host_span(text: str) -> range | None:
    """Return the same for a port of the host, of which 0 is one: the kernel chooses."""
    return range(1) if text == "0" else span(text)


def span(text: str) -> range | None:
    """Return the ports of 80 or 8000-8003; None if one is none; empty if the first is larger."""
    first, dash, last = text.partition("-")
    low, high = port(first), port(last if dash else first)
    return None if low is None or high is None else range(low, high + 1)


def exposed(text: str) -> list[str] | None:
    """Return ["80/tcp"] for 80, and so on for 80/udp and 8000-8003; None if it is none of these."""
    numbers, _, protocol = text.partition("/")
    protocol = protocol.lower() or "tcp"
    found = span(numbers)
    if not found or protocol not in PROTOCOLS:
        return None
    return [f"{number}/{protocol}" for number in found]
