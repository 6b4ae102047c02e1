"""linux.netDevices: interfaces of the host that move into the container's network namespace.

What happens: the runtime moves each one, under its new name, after clone and before any hook, and
then, in there, gives it back its addresses and sets it up: the kernel takes them away on the move,
since they may mean nothing on the other side. MTU and hardware address stay by themselves.

What the spec says: runtime-spec, config-linux.md, "Network Devices" (1.3): permanent addresses of
global scope are kept; a name that is taken is an error, unless it is a template like ``net%d``, for
which the kernel finds a number. What becomes of an interface after the container is not the
runtime's: a physical one comes back to the host by itself, a virtual one ends.

What the real stack does: runc and crun speak rtnetlink(7) themselves; here pyroute2 does. It takes
130 ms to import, so this module is imported only if config.json has netDevices.
"""

from __future__ import annotations

import os

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from minirun.common import descriptors
from minirun.core.container import Extra
from minirun.core.errors import ConfigError
from minirun.net.interfaces import ROUTE, network_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.handshake import Init

_PERMANENT = 0x80  # IFA_F_PERMANENT, linux/if_addr.h
_PARTS = (("local", "IFA_LOCAL"), ("address", "IFA_ADDRESS"), ("broadcast", "IFA_BROADCAST"))
"""Of an address, rtnetlink(7). IFA_ADDRESS is the peer's where that is another one."""
_EVERYWHERE = 0  # RT_SCOPE_UNIVERSE, linux/rtnetlink.h


class NetDevices(Extra):
    """linux.netDevices of one container: {host's name: {"name": new name}}."""

    def from_outside(self, init: Init) -> None:
        """Move them to where init is. Raises ConfigError, which names the interface, OSError."""
        descriptors.need(ROUTE)
        for name, row in self.config.linux["netDevices"].items():
            try:
                _move(name, row.get("name") or name, init.pid)
            except NetlinkError as error:
                text = os.strerror(error.code).lower()
                raise ConfigError(f"config.json: linux.netDevices.{name}: {text}") from None


def _move(name: str, new_name: str, pid: int) -> None:
    with IPRoute() as route:
        found = route.link_lookup(ifname=name)
        if not found:
            raise ConfigError(f"config.json: linux.netDevices.{name}: no such interface")
        kept = [a for a in route.get_addr(index=found[0]) if _is_kept(a)]
        before = _names(pid)
        if new_name in before:
            text = f"{new_name} is there already in the container's namespace"
            raise ConfigError(f"config.json: linux.netDevices.{name}: {text}")
        away = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            wanted = {"ifname": new_name} if new_name != name else {}
            route.link("set", index=found[0], net_ns_fd=away, **wanted)
        finally:
            os.close(away)
    arrived = new_name if "%d" not in new_name else (_names(pid) - before).pop()
    with network_of(pid), IPRoute() as route:
        index = route.link_lookup(ifname=arrived)[0]
        for address in kept:
            parts = ((name, address.get_attr(attribute)) for name, attribute in _PARTS)
            route.addr(
                "add", index=index, prefixlen=address["prefixlen"], family=address["family"],
                **{name: part for name, part in parts if part},
            )  # fmt: skip
        route.link("set", index=index, state="up")


def _names(pid: int) -> set[str]:
    with network_of(pid), IPRoute() as route:
        return {link.get_attr("IFLA_IFNAME") for link in route.get_links()}


def _is_kept(address: Any) -> bool:
    flags = address.get_attr("IFA_FLAGS") or address["flags"]
    return bool(flags & _PERMANENT) and address["scope"] == _EVERYWHERE
