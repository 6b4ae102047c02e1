"""What is certain to drop a container's packet on its way through the host: other tables' rules."""

from __future__ import annotations

from minirun.net import ruleset
from minirun.net.ruleset import Judgement, PacketFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def outward(source: str, bridge: str, link_out: str) -> PacketFacts:
    """Return a container's packet to another host: TCP, to an address of RFC 5737 or RFC 3849."""
    to = "2001:db8::1" if ":" in source else "198.51.100.1"
    return PacketFacts(source, to, "tcp", 0, bridge, link_out)


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
