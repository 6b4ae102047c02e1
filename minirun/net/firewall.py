"""The firewall of all networks: one table of nftables, `inet minirun`, which reads as a picture.

    nft list table inet minirun

Its chains are the rules, the same for all; its sets and maps hold what differs: which bridges there
are, which addresses are inside, and which port of the host leads to which container. A container
adds its elements when it starts and takes them away when it ends, each in one transaction of
`nft -f -`. Each transaction draws the rules anew, and what all other containers have: so the table
is whole after another program has flushed it (minirun.net.upkeep). Other stores of this host draw
in the same table: it goes with the last element of all.

    packet from outside, or from the host itself, to a published port:
        prerouting, output → publish: the map says which container            (DNAT)
        forward: it was published, so it may pass
        postrouting: from 127.0.0.1, or from the network itself: by the host's name  (masquerade)
    packet of a container to the outside:
        forward; postrouting: by the host's address                           (masquerade)

nft reads this as text, not JSON (-j): nft 1.0.6, Debian 12's, cannot read back a map of
concatenated values that it has written as JSON itself; in some forms it crashes.

What the real stack does: netavark has a table inet netavark with chains for each container;
docker writes to iptables' tables, which are everyone's. An accept of one table does not overrule a
drop of another: nft(8). So docker's FORWARD policy drop ends our containers' packets too.
"""

from __future__ import annotations

from minirun.core import events
from minirun.core.keeping.visible import clean
from minirun.core.lazy import lazy
from minirun.net import nft
from minirun.net.network import Network, NetworkError

with lazy:
    import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.net.leases import Lease

TABLE = "inet minirun"

SETS = (
    ("set", "bridges", "type ifname"),
    ("set", "neighbours", "type ifname . ifname"),
    ("set", "internal", "type ifname"),
    ("set", "held", "type inet_proto . inet_service"),
    ("set", "inside4", "type ipv4_addr; flags interval"),
    ("set", "inside6", "type ipv6_addr; flags interval"),
    ("map", "ports4", "type inet_proto . inet_service : ipv4_addr . inet_service"),
    ("map", "ports6", "type inet_proto . inet_service : ipv6_addr . inet_service"),
    ("map", "ports4_at", "type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service"),
    ("map", "ports6_at", "type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service"),
)  # fmt: skip
"""Kind, name and type of each set. Of the maps the ones with _at are for one address of the host;
`held` has the ports that minirun:ports holds, of whatever address."""

CHAINS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "publish": ("", (
        ("dnat ip to ip daddr . meta l4proto . th dport map @ports4_at", "one address of the host"),
        ("dnat ip to meta l4proto . th dport map @ports4", "any address of the host"),
        ("dnat ip6 to ip6 daddr . meta l4proto . th dport map @ports6_at", ""),
        ("dnat ip6 to meta l4proto . th dport map @ports6", ""),
    )),
    "first": ("type filter hook prerouting priority raw; policy accept;", (
        ("iifname @bridges ip daddr 127.0.0.0/8 drop", "the host's 127.0.0.1 is no container's"),
        ("iifname @internal fib daddr type local meta l4proto . th dport @held drop", "no port"),
    )),
    "prerouting": ("type nat hook prerouting priority dstnat; policy accept;", (
        ('iifname != "lo" ip daddr 127.0.0.0/8 return', "127.0.0.1 is the host's own alone"),
        ("fib daddr type local jump publish", "to an address of the host"),
    )),
    "output": ("type nat hook output priority -100; policy accept;", (
        ("ip6 daddr ::1 return", "the kernel routes no ::1: minirun:ports passes it on"),
        ("fib daddr type local jump publish", "the host to itself"),
    )),
    "forward": ("type filter hook forward priority filter; policy accept;", (
        ("iifname . oifname @neighbours accept", "on one network"),
        ("iifname @internal drop", "no way out of it, nor to a published port"),
        ("oifname @bridges ct state established,related accept", "answers"),
        ("oifname @bridges ct status dnat accept", "to a published port"),
        ("oifname @bridges drop", "from outside, or another network, to what is not published"),
    )),
    "postrouting": ("type nat hook postrouting priority srcnat; policy accept;", (
        ("oifname @bridges ct status dnat ip saddr 127.0.0.0/8 masquerade", "from 127.0.0.1"),
        ("oifname @bridges ct status dnat ip saddr @inside4 masquerade", "by a published port"),
        ("oifname @bridges ct status dnat ip6 saddr @inside6 masquerade", ""),
        ("ip saddr @inside4 oifname != @bridges masquerade", "out, by the host's address"),
        ("ip6 saddr @inside6 oifname != @bridges masquerade", ""),
    )),
}  # fmt: skip
"""Chain → its hook, and its rules, each with a comment."""


def drawing() -> list[str]:
    """Return the commands that make the table, or make it whole: they may be given again."""
    lines = [f"add table {TABLE}"]
    lines += [f"add {kind} {TABLE} {name} {{ {words}; }}" for kind, name, words in SETS]
    for name, (hook, _) in CHAINS.items():
        lines += [f"add chain {TABLE} {name} {{ {hook} }}" if hook else f"add chain {TABLE} {name}"]
    for name, (_, rules) in CHAINS.items():
        lines.append(f"flush chain {TABLE} {name}")
        for rule, comment in rules:
            said = f' comment "{comment}"' if comment else ""
            lines.append(f"add rule {TABLE} {name} {rule}{said}")
    return lines


def elements(network: Network, leases: tuple[Lease, ...] = ()) -> list[tuple[str, str]]:
    """Return (set, element) for a network, if no lease is given, or for what leases publish."""
    if not leases:
        name = f'"{network.bridge}"'
        rows = [("bridges", name)]
        rows += [] if network.separate else [("neighbours", f"{name} . {name}")]
        if network.internal:
            return [*rows, ("internal", name)]
        rows.append(("inside4", network.subnet))
        return [*rows, ("inside6", network.subnet6)] if network.subnet6 else rows
    return [row for lease in leases for port in lease.ports for row in _of_port(lease, port)]


def _of_port(lease: Lease, port: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the elements of one published port: of IPv4, and of IPv6 if the network has it."""
    at, key = port["host_ip"], f"{port['protocol']} . {port['host_port']}"
    found = [("held", key)]
    if ":" not in at:
        where = f"{at} . " if at else ""
        to = f"{lease.address} . {port['port']}"
        found.append((f"ports4{'_at' if at else ''}", f"{where}{key} : {to}"))
    if lease.address6 and (not at or ":" in at):
        where = f"{at} . " if at else ""
        to = f"{lease.address6} . {port['port']}"
        found.append((f"ports6{'_at' if at else ''}", f"{where}{key} : {to}"))
    return found


def draw(rows: list[tuple[str, str]]) -> str:
    """Draw the table, or make it whole, with these elements in it; what others have there stays.

    Returns the chains of all tables, which this call of nft lists too: one more would cost 8 ms.
    Raises NetworkError, OSError.
    """
    return transaction([*drawing(), *_added(rows), LIST])


def _added(rows: list[tuple[str, str]]) -> list[str]:
    """Return nft's commands that add these elements."""
    return [f"add element {TABLE} {name} {{ {what} }}" for name, what in rows]


LIST = "list chains"


def others(chains: str) -> list[tuple[str, str]]:
    """Return family and name of the other tables that may drop a forwarded packet of IPv4.

    `chains`: what nft says to LIST. A table that has a filter on the forward hook is one, whatever
    its policy.
    """
    found, here = [], ("", "")
    for line in chains.splitlines():
        words = line.split()
        if words[:1] == ["table"]:
            here = (words[1], words[2])
        elif words[:4] == ["type", "filter", "hook", "forward"] and here[0] in ("ip", "inet"):
            found.append(here)
    own = TABLE.split()
    return [each for each in found if list(each) != own]


def remove(gone: list[tuple[str, str]], kept: list[tuple[str, str]]) -> None:
    """Take elements out, those that are there, and draw the ones that are to stay.

    Without any element left, of whichever store, the table goes too. Raises NetworkError, OSError.
    """
    document = listing()
    there = content(document)
    if there is None and not kept:
        return
    there = there or {}
    stay = {(name, _key(what)) for name, what in kept}
    out = {(name, _key(what)) for name, what in gone} - stay
    out = {(name, key) for name, key in out if key in there.get(name, ())}
    for name, key in out:
        there[name].discard(key)
    commands = [f"delete element {TABLE} {name} {{ {key} }}" for name, key in sorted(out)]
    if not kept and not any(there.values()):
        commands = [f"delete table {TABLE}"]
    elif missing(document, kept):
        commands = [*commands, *drawing(), *_added(kept)]
    if commands:
        transaction(commands)


def missing(document: list[dict[str, Any]] | None, rows: list[tuple[str, str]]) -> bool:
    """Return True if the table that was listed lacks a rule, or one of these elements."""
    there = content(document)
    if document is None or there is None:
        return True
    rules = [row["rule"]["chain"] for row in document if "rule" in row]
    return any(_key(what) not in there[name] for name, what in rows) or any(
        rules.count(name) != len(wanted) for name, (_, wanted) in CHAINS.items()
    )


def _key(element: str) -> str:
    """Return an element without what it maps to."""
    return element.partition(" : ")[0]


def content(document: list[dict[str, Any]] | None) -> dict[str, set[str]] | None:
    """Return set → the keys of its elements, as :func:`elements` writes them; None: no table.

    `document`: what :func:`listing` has returned.
    """
    if document is None:
        return None
    found: dict[str, set[str]] = {name: set() for _, name, _ in SETS}
    types = {name: words.removeprefix("type ").split(" : ")[0] for _, name, words in SETS}
    for row in document:
        if "set" in row and row["set"]["name"] in found:
            name, keys = row["set"]["name"], row["set"].get("elem", ())
        elif "map" in row and row["map"]["name"] in found:
            name = row["map"]["name"]
            keys = [key for key, _ in row["map"].get("elem", ())]
        else:
            continue
        found[name] = {_written(key, types[name].partition(";")[0].split(" . ")) for key in keys}
    return found


def _written(value: Any, types: list[str]) -> str:
    """Return an element of `nft -j list`, of these types, as nft's text has it."""
    if isinstance(value, dict) and "concat" in value:
        pairs = zip(value["concat"], types, strict=True)
        return " . ".join(_written(part, [kind]) for part, kind in pairs)
    if isinstance(value, dict) and "prefix" in value:
        return f"{value['prefix']['addr']}/{value['prefix']['len']}"
    if types == ["inet_proto"]:
        return str(nft.PROTOCOLS.get(value, value))
    return f'"{value}"' if types == ["ifname"] else str(value)


def listing() -> list[dict[str, Any]] | None:
    """Return the table as nft(8) lists it in JSON (libnftables-json(5)); None if there is none.

    Raises NetworkError if nft is missing, OSError.
    """
    done = nft.run(["-j", "list", "table", *TABLE.split()])
    if done.status:
        return None
    found: list[dict[str, Any]] = json.loads(done.output)["nftables"]
    return found


def transaction(commands: list[str], why: str = "one transaction: all of it, or nothing") -> str:
    """Let nft carry out commands, all of them or none; return what it writes.

    Raises NetworkError, OSError.
    """
    events.emit("note", "nft", {"commands": commands}, why=why)
    done = nft.run(["-f", "-"], "".join(f"{line}\n" for line in commands))
    if done.status:
        said = clean(" ".join(done.output.split()))[:300]
        raise NetworkError(f"nft failed with exit status {done.status}: {said}")
    return done.output
