"""Rules of minirun's in DOCKER-USER, the chain that docker keeps for others.

docker sets the policy of iptables' chain FORWARD to drop, and an accept in minirun's own table does
not overrule that: nft(8). So, while a network is up, two rules for its bridge stand in DOCKER-USER:
what goes to the bridge may pass (minirun's own table says what of that arrives), and what comes
from it may leave the host. Not what goes from there to another program's bridge: docker's own walls
stay. An internal network has one, from its bridge to the same: docker loads br_netfilter, and so
FORWARD sees that too. They come after the rules that the administrator has written there, and go
with the network.

    oifname "minirun0" counter accept comment "minirun STORE minirun0"
    iifname "minirun0" oifname "eth0" counter accept comment "minirun STORE minirun0 eth0"

    STORE/networks/.docker-user     there are such rules; written before them

Where there is no such chain none is made. Only what iptables(8) can read too is written there, or
docker could not list the chain any more. Tables of iptables-legacy are not nft's.

The real stack: netavark adds its accepts to FORWARD itself; docker's documentation names
DOCKER-USER for all that is not docker's.
"""

from __future__ import annotations

import json
import os
from binascii import crc32

from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.net import dropping, firewall, links, nft
from minirun.net.network import Network, folder, is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.net.rtnetlink import Route

CHAIN = "DOCKER-USER"
_TABLE = "filter"
_NOTE = ".docker-user"
"""In the store's folder of networks: it is there while the chain has rules of this store."""
_WHY = "docker's policy drops what a bridge forwards: DOCKER-USER is where others may let it pass"


class PassRule(Record):
    """One rule in DOCKER-USER: what may pass."""

    family: str
    """ip or ip6."""
    link_in: str
    """Empty: any link."""
    link_out: str
    comment: str
    """By this the rule is known as minirun's, and this store's."""

    @property
    def words(self) -> str:
        """The rule as nft(8) reads it."""
        words = f'iifname "{self.link_in}" ' if self.link_in else ""
        return f'{words}oifname "{self.link_out}" counter accept comment "{self.comment}"'

    def command(self, before: int = 0) -> str:
        """Return the command that adds it, before the rule with that handle or at the end."""
        if before:
            return f"insert rule {self.family} {_TABLE} {CHAIN} position {before} {self.words}"
        return f"add rule {self.family} {_TABLE} {CHAIN} {self.words}"

    @property
    def planned(self) -> tuple[tuple[str, str, str], dict[str, Any]]:
        """Its chain, and the rule as libnftables-json(5) has it: for minirun.net.dropping."""
        pairs = (("iifname", self.link_in), ("oifname", self.link_out))
        matches = [
            {"match": {"op": "==", "left": {"meta": {"key": key}}, "right": value}}
            for key, value in pairs if value
        ]  # fmt: skip
        return (self.family, _TABLE, CHAIN), {"expr": [*matches, {"accept": None}]}


def families(chains: str) -> list[str]:
    """Return the families, ip and ip6, in which docker drops, and keeps a chain for others.

    `chains`: those of all tables, as `nft list chains` says them.
    """
    drop, there = set(), set()
    here, chain = ("", ""), ""
    for line in chains.splitlines():
        words = line.split()
        if words[:1] == ["table"]:
            here = (words[1], words[2])
        elif words[:1] == ["chain"]:
            chain = words[1]
            there |= {here} if chain == CHAIN else set()
        elif words[:4] == ["type", "filter", "hook", "forward"] and "drop;" in words:
            drop.add(here)
    return [family for family in ("ip", "ip6") if {(family, _TABLE)} <= drop & there]


def wanted(route: Route, store: str, networks: list[Network], family: str) -> list[PassRule]:
    """Return the rules that networks need in a family's table. Raises OSError."""
    found = []
    own = f"minirun {_mark(store)}"
    for net in networks:
        if family == "ip6" and not net.subnet6:
            continue
        if net.internal:
            found.append(PassRule(family, net.bridge, net.bridge, f"{own} {net.bridge}"))
            continue
        found.append(PassRule(family, "", net.bridge, f"{own} {net.bridge}"))
        for link in filter(is_name, links.ways_out(route, family)):  # no quote, no wildcard
            found.append(PassRule(family, net.bridge, link, f"{own} {net.bridge} {link}"))
    return found


def needed(route: Route, store: str, networks: list[Network], chains: str) -> list[PassRule]:
    """Return all rules that networks need beside these chains. Raises OSError."""
    return [
        rule for family in families(chains) for rule in wanted(route, store, networks, family)
    ]  # fmt: skip


def _mark(store: str) -> str:
    return f"{crc32(os.fsencode(store)):08x}"


def keep(route: Route, store: str, networks: list[Network], chains: str) -> None:
    """Make docker's chain hold the rules of these networks, and no others of this store.

    `chains`: those of all tables; empty: rules go, and none is added. The caller holds the lock.
    Raises NetworkError, OSError.
    """
    rules = needed(route, store, networks, chains)
    note = f"{folder(store)}/{_NOTE}"
    if not rules and not os.path.exists(note):
        return
    if rules:
        state.replace(note, "", f"{note}.{os.getpid()}")
    bridges = {net.bridge for net in networks}
    left = 0
    commands: list[str] = []
    for family in ("ip", "ip6"):
        handles, end = _present(store, family)
        own = {rule.comment: rule for rule in rules if rule.family == family}
        stay = own if chains else {one: None for one in handles if one.split()[2] in bridges}
        commands += [
            f"delete rule {family} {_TABLE} {CHAIN} handle {handle}"
            for one, handle in handles.items() if one not in stay
        ]  # fmt: skip
        commands += [rule.command(end) for one, rule in own.items() if one not in handles]
        left += len(stay)
    if commands:
        firewall.transaction(commands, _WHY)
    if not left:
        os.unlink(note)


def _present(store: str, family: str) -> tuple[dict[str, int], int]:
    """Return comment → handle of this store's rules, and the handle of docker's last `return`.

    That handle is 0 if the chain does not end so: docker 28 writes none. Raises NetworkError,
    OSError.
    """
    done = nft.run(["-j", "list", "chain", family, _TABLE, CHAIN])
    if done.status:
        return {}, 0
    own = f"minirun {_mark(store)} "
    found = [row["rule"] for row in json.loads(done.output)["nftables"] if "rule" in row]
    handles = {
        str(rule["comment"]): int(rule["handle"])
        for rule in found if str(rule.get("comment", "")).startswith(own)
    }  # fmt: skip
    return handles, int(found[-1]["handle"]) if dropping.ends_in_return(found) else 0
