"""What is certain to drop a container's packet on its way through the host: other tables' rules."""

from __future__ import annotations

from minirun.core.keeping import state
from minirun.net import ruleset
from minirun.net.ruleset import Judgement, PacketFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from minirun.net.network import Network


def packet_of(net: Network, source: str, link_out: str) -> PacketFacts | None:
    """Return the packet of a container for which its network is there; None if no rule sees it.

    It goes to another host, by TCP, to an address of RFC 5737 or RFC 3849; in an internal network
    to a neighbour. The host's rules see that one where br_netfilter is loaded, and docker loads it
    (bridge-nf-call-iptables in the kernel's ip-sysctl.rst).
    """
    is_ip6 = ":" in source
    if not net.internal:
        to = "2001:db8::1" if is_ip6 else "198.51.100.1"
        return PacketFacts(source, to, "tcp", 0, net.bridge, link_out)
    name = f"bridge-nf-call-ip{'6' if is_ip6 else ''}tables"
    try:
        if state.read_text(f"/proc/sys/net/bridge/{name}").strip() != "1":
            return None
    except OSError:
        return None
    return PacketFacts(source, source, "tcp", 0, net.bridge, net.bridge)


def dropped(
    tables: list[tuple[str, str]],
    packet: PacketFacts,
    planned: Sequence[tuple[tuple[str, str, str], dict[str, Any]]] = (),
) -> Judgement | None:
    """Return what is certain to drop a packet that the host forwards; None if nothing is.

    `tables`: family and name of those that are asked; `planned`: rules that are to stand in a
    chain, which comes first as family, table and name. Raises NetworkError, OSError.
    """
    for each in tables:
        rules = ruleset.read(*each)
        for chain, rule in planned:
            if rules and chain in rules.chains:
                there = rules.chains[chain].rules
                there.insert(len(there) - ends_in_return(there), rule)
        found = rules.judge("forward", packet) if rules else None
        if found and found.word == ruleset.DROP:
            return found
    return None


def ends_in_return(rules: list[dict[str, Any]]) -> bool:
    """Return True if the last rule of a chain returns, whatever the packet."""
    kinds = {next(iter(one)) for one in rules[-1]["expr"]} if rules else set()
    return "return" in kinds and kinds <= {"counter", "return"}
