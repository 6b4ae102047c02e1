"""The rules of nftables, as `nft -j list ruleset` has them (libnftables-json(5)): what they do.

A packet that passes a hook meets each base chain that is on it, of every table, by priority: an
accept ends one chain, a drop ends the packet, nft(8). That is what :meth:`Ruleset.judge` does with
what is known of a packet. Where a rule asks for more than is known (a mark, a limit, a match of
iptables' own), or for what this module does not read, the answer is UNKNOWN rather than a guess.
"""

from __future__ import annotations

import ipaddress
import json

from minirun.core.keeping.record import Record
from minirun.net import nft
from minirun.net.interfaces import network_of
from minirun.net.rule_words import rule_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Statement = dict[str, Any]

ACCEPT, DROP, UNKNOWN, DNAT, MASQUERADE = "accept", "drop", "unknown", "dnat", "masquerade"
_FINAL = {"accept": ACCEPT, "drop": DROP, "reject": DROP, "masquerade": MASQUERADE,
          "snat": MASQUERADE, "redirect": DNAT, "dnat": DNAT}  # fmt: skip
"""Statements after which a chain's later rules are not read."""
_TARGETS = {"REJECT": "reject", "MASQUERADE": "masquerade", "SNAT": "snat", "DNAT": "dnat",
            "REDIRECT": "redirect"}  # fmt: skip
"""Those of iptables' own that nft has a statement for: iptables-extensions(8)."""
_CONNTRACK = '"name": "conntrack"'
_DEEPEST = 16
"""Jumps, one in the other: NFT_JUMP_STACK_SIZE, linux/netfilter/nf_tables.h."""
_FAMILIES = {4: ("inet", "ip"), 6: ("inet", "ip6")}


class PacketFacts(Record):
    """What is known of a packet at a hook."""

    source: str
    """Its address. Empty, as any other field: not known."""
    to: str
    protocol: str
    port: int
    """To which it goes; 0: not known."""
    link_in: str = ""
    link_out: str = ""
    state: str = "new"
    """Of its connection, as conntrack calls it."""
    is_dnat: bool = False
    """A rule has given it another destination."""
    is_local: bool = False
    """Its destination is an address of the host."""

    @property
    def version(self) -> int:
        """4 or 6."""
        return 6 if ":" in (self.to or self.source) else 4


class Judgement(Record):
    """What the chains of a hook do with a packet."""

    word: str
    """accept, drop, unknown, dnat or masquerade."""
    where: str = ""
    """The chain, and its table."""
    rule: str = ""
    """The rule, as nft writes it; "policy drop"."""
    to: str = ""
    """With dnat: address and port, with a colon between."""


class Chain(Record):
    """One chain."""

    family: str
    table: str
    name: str
    hook: str
    kind: str
    """filter, nat or route; empty if no hook calls it."""
    priority: int
    policy: str
    rules: list[dict[str, Any]]

    @property
    def shown(self) -> str:
        """Its name, and its table's."""
        return f"chain {self.name} of table {self.family} {self.table}"


class Ruleset:
    """All tables, or one, as nft lists them."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.chains: dict[tuple[str, str, str], Chain] = {}
        self.sets: dict[tuple[str, str, str], list[Any]] = {}
        for row in rows:
            kind, one = next(iter(row.items()))
            if kind == "chain":
                self.chains[_key(one, "name")] = Chain(
                    one["family"], one["table"], one["name"], one.get("hook", ""),
                    one.get("type", ""), int(one.get("prio") or 0), one.get("policy", ACCEPT), [],
                )  # fmt: skip
            elif kind in ("set", "map"):
                self.sets[_key(one, "name")] = one.get("elem") or []
        for row in rows:
            if "rule" in row and (chain := self.chains.get(_key(row["rule"], "chain"))):
                chain.rules.append(row["rule"])

    def elements(self, name: str, family: str = "inet", table: str = "minirun") -> list[Any]:
        """Return the elements of a set or map; of a map, pairs."""
        return self.sets.get((family, table, name), [])

    def at(self, hook: str, version: int, kind: str = "", family: str = "") -> list[Chain]:
        """Return the base chains of a hook in the order in which a packet meets them.

        `family`: bridge; without one, those of the packet's version.
        """
        families = (family,) if family else _FAMILIES[version]
        found = [
            chain for chain in self.chains.values()
            if chain.hook == hook and chain.family in families
            and (not kind or chain.kind == kind)
        ]  # fmt: skip
        return sorted(found, key=lambda chain: chain.priority)

    def judge(
        self, hook: str, packet: PacketFacts, kind: str = "filter", family: str = "",
        first: int | None = None, last: int | None = None,
    ) -> Judgement:  # fmt: skip
        """Return what a hook's chains of one kind do: the first drop or translation, else accept.

        UNKNOWN only if no chain is certain to drop the packet. `family`: as of at(); `first` and
        `last`: the priorities of the chains that count.
        """
        unknown = None
        for chain in self.at(hook, packet.version, kind, family):
            if first is not None and chain.priority < first:
                continue
            if last is not None and chain.priority > last:
                continue
            found, maybe = self._read(chain, packet, 0)
            end = found or Judgement(chain.policy, chain.shown, f"policy {chain.policy}")
            if doubt := [one for one in maybe if one.word != end.word]:
                unknown = unknown or _doubtful(end, doubt[0])
            elif end.word != ACCEPT:
                return end
        return unknown or Judgement(ACCEPT)

    def _read(
        self, chain: Chain, packet: PacketFacts, depth: int
    ) -> tuple[Judgement | None, list[Judgement]]:
        """Return a chain's verdict, None if it has none, and those of rules that may match."""
        maybe: list[Judgement] = []
        for rule in chain.rules:
            matches, verdict, to = self._apply(chain, rule["expr"], packet)
            if matches is False or not verdict:
                continue
            kind, target = verdict
            if kind in ("jump", "goto"):
                below = self.chains.get((chain.family, chain.table, target))
                if below is None or depth > _DEEPEST:
                    continue
                found, doubts = self._read(below, packet, depth + 1)
                maybe += doubts
                if found and matches:
                    return found, maybe
                if found:
                    maybe.append(found)
                elif kind == "goto" and matches:
                    return None, maybe
            elif kind == "return":
                if matches:
                    return None, maybe
            else:
                found = Judgement(_FINAL[kind], chain.shown, rule_words(rule), to)
                if matches:
                    return found, maybe
                maybe.append(found)
        return None, maybe

    def _apply(
        self, chain: Chain, statements: list[Statement], packet: PacketFacts
    ) -> tuple[bool | None, tuple[str, str] | None, str]:
        """Return if a rule matches (None: not known), its verdict, and where dnat leads."""
        matches: bool | None = True
        for statement in statements:
            kind, body = next(iter(statement.items()))
            if kind == "match":
                one = self._matches(chain, body, packet)
                if one is False:
                    return False, None, ""
                matches = matches if one else None
            elif kind in ("jump", "goto"):
                return matches, (kind, body["target"]), ""
            elif kind == "vmap":
                key = self._value(body["key"], packet)
                pairs = self._contents(chain, body["data"])
                verdict = next((v for k, v in pairs if key is not None and _is(key, k)), None)
                if key is None:
                    matches = None
                elif verdict is not None:
                    return self._apply(chain, [verdict], packet)
            elif kind == "dnat":
                to = self._target(chain, body or {}, packet)
                return (matches if to else False), (kind, ""), to
            elif kind in _FINAL or kind == "return":
                return matches, (kind, ""), ""
            elif kind == "xt" and body and body.get("name") in _TARGETS:
                return matches, (_TARGETS[body["name"]], ""), ""
            elif kind in ("xt", "limit", "quota"):
                matches = None
        return matches, None, ""

    def _target(self, chain: Chain, body: Statement, packet: PacketFacts) -> str:
        """Return where dnat leads; empty if its map has no such element."""
        family = body.get("family")
        if family and family != ("ip6" if packet.version == 6 else "ip"):
            return ""
        address, port = body.get("addr"), body.get("port", packet.port)
        if isinstance(address, dict) and "map" in address:
            key = self._value(address["map"]["key"], packet)
            pairs = self._contents(chain, address["map"]["data"])
            found = next((v for k, v in pairs if key is not None and _is(key, k)), None)
            if found is None:
                return ""
            parts = found["concat"] if isinstance(found, dict) and "concat" in found else [found]
            return ":".join(map(str, [*parts, port][:2]))
        return f"{address}:{port}"

    def _matches(self, chain: Chain, body: Statement, packet: PacketFacts) -> bool | None:
        left = self._value(body["left"], packet)
        if left is None:
            return None
        if left is False:  # the packet has no such header
            return False
        right, op = body["right"], body["op"]
        if op in ("<", ">", "<=", ">=") and isinstance(right, int) and isinstance(left, int):
            return {"<": left < right, ">": left > right, "<=": left <= right}.get(
                op, left >= right
            )
        if op not in ("==", "!=", "in"):
            return None
        choices = [right]
        if isinstance(right, str) and right.startswith("@"):
            choices = self._contents(chain, right)
        found = any(_is(left, choice) for choice in choices)
        return found if op != "!=" else not found

    def _contents(self, chain: Chain, data: Any) -> list[Any]:
        if isinstance(data, str):
            return self.elements(data.removeprefix("@"), chain.family, chain.table)
        return list(data["set"]) if isinstance(data, dict) and "set" in data else []

    def _value(self, expression: Any, packet: PacketFacts) -> Any:
        """Return what an expression is for the packet; None: not known, False: it has no such."""
        if not isinstance(expression, dict):
            return None
        kind, body = next(iter(expression.items()))
        if kind == "concat":
            parts = [self._value(one, packet) for one in body]
            return next((one for one in parts if one is None or one is False), tuple(parts))
        if kind == "meta":
            return _of_meta(body["key"], packet)
        if kind == "payload":
            return _of_payload(body.get("protocol"), body.get("field"), packet)
        if kind == "ct" and body["key"] == "state":
            return packet.state or None
        if kind == "ct" and body["key"] == "status":
            return "dnat" if packet.is_dnat else "confirmed"
        if kind == "fib" and body.get("result") == "type" and body.get("flags") == ["daddr"]:
            return "local" if packet.is_local else "unicast"
        return None


def _doubtful(end: Judgement, doubt: Judgement) -> Judgement:
    """Return a judgement that hangs on one rule, of which it is not known if it matches."""
    if end.word == ACCEPT:
        return doubt._replace(word=UNKNOWN, rule=f"{doubt.rule}, if that matches")
    rule = f"{end.rule}, unless this matches: {doubt.rule}"
    return Judgement(UNKNOWN, end.where, rule)


def _key(one: dict[str, Any], name: str) -> tuple[str, str, str]:
    return one["family"], one["table"], one[name]


def _of_meta(key: str, packet: PacketFacts) -> Any:
    if key in ("iifname", "iif"):
        return packet.link_in or None
    if key in ("oifname", "oif"):
        return packet.link_out or None
    if key == "l4proto":
        return packet.protocol or None
    if key == "nfproto":
        return f"ipv{packet.version}"
    if key == "protocol":
        return "ip6" if packet.version == 6 else "ip"
    return None


def _of_payload(protocol: str | None, field: str | None, packet: PacketFacts) -> Any:
    if protocol in ("ip", "ip6"):
        if (protocol == "ip6") != (packet.version == 6):
            return False
        known = {"saddr": packet.source, "daddr": packet.to, "protocol": packet.protocol,
                 "nexthdr": packet.protocol}  # fmt: skip
        return known.get(field or "") or None
    if protocol in ("tcp", "udp", "sctp", "th"):
        if protocol != "th" and packet.protocol and packet.protocol != protocol:
            return False
        return packet.port or None if field == "dport" else None
    return None


def _is(value: Any, choice: Any) -> bool:
    """Return True if a value is a choice of a rule or a set: one, a prefix, a range, a list."""
    if isinstance(value, tuple):
        parts = choice.get("concat", ()) if isinstance(choice, dict) else ()
        return len(parts) == len(value) and all(map(_is, value, parts))
    if isinstance(choice, dict):
        kind, body = next(iter(choice.items()))
        if kind == "elem":
            return _is(value, body["val"])
        if kind == "set":
            return any(_is(value, one) for one in body)
        if kind == "prefix":
            return is_in(value, f"{body['addr']}/{body['len']}")
        if kind == "range":
            first, last = (_number(one) for one in body)
            return first <= _number(value) <= last
        return False
    if isinstance(choice, list):
        return any(_is(value, one) for one in choice)
    if isinstance(value, str) and isinstance(choice, str) and choice.endswith("*"):
        return value.startswith(choice[:-1])
    return str(value) in (str(choice), nft.PROTOCOLS.get(choice))


def is_in(value: Any, prefix: str) -> bool:
    """Return True if a value is an address of a network, such as 10.88.0.0/16."""
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(prefix, strict=False)
    except ValueError:
        return False


def _number(value: Any) -> int:
    try:
        return int(ipaddress.ip_address(value)) if isinstance(value, str) else int(value)
    except ValueError:
        return -1


def read(*table: str) -> Ruleset | None:
    """Return all rules of this network namespace, or those of one table: ("inet", "minirun").

    None if nft can list none. Raises NetworkError if nft is missing, OSError.
    """
    words = ["list", *(("table", *table) if table else ("ruleset",))]
    done = nft.run(["-j", *words])
    if done.status:
        return None
    try:
        rows = json.loads(done.output)["nftables"]
        if _CONNTRACK in done.output:
            _name_states(rows, nft.run(["-a", *words]).output)
        return Ruleset(rows)
    except (ValueError, LookupError, TypeError):
        return None


def read_of(pid: int) -> Ruleset:
    """Return all rules of the network namespace of `pid`. Raises NetworkError, OSError."""
    with network_of(pid):
        return read() or Ruleset([])


def _name_states(rows: list[dict[str, Any]], text: str) -> None:
    """Replace iptables' own match of states by nft's: its JSON says no states, its text does.

    `text`: what `nft -a list` says; a table's handles are its own, so it is read table by table.
    """
    states: dict[tuple[str, ...], list[str]] = {}
    table: tuple[str, ...] = ()
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["table"]:
            table = (words[1], words[2])
        elif words[-2:-1] == ["handle"] and "ct" in words:
            at = words.index("ct")
            if words[at + 1] == "state" and words[at + 2].replace(",", "").isalpha():
                states[(*table, words[-1])] = words[at + 2].split(",")
    for rule in (row["rule"] for row in rows if "rule" in row):
        asked = states.get((rule["family"], rule["table"], str(rule["handle"])))
        for at, one in enumerate(rule["expr"] if asked else ()):
            if (one.get("xt") or {}).get("name") == "conntrack":
                left = {"ct": {"key": "state"}}
                rule["expr"][at] = {"match": {"op": "in", "left": left, "right": asked}}
