"""The meaning of a list of device rules, the same for both versions of cgroups.

runtime-spec (config-linux.md, "Allowed Device list"): the entries are applied in order. So each
kind of access (r, w, m) to each node is decided by the last rule that covers it, and a node that
no rule covers is denied. An open for reading and writing needs both.

The v1 controller can hold less than that: a default, and exceptions from it, all of one verdict
(Documentation/admin-guide/cgroup-v1/devices.rst). It accepts a denial that cuts a hole into a wider
permission, and ignores it; runc refuses such a list, and so does minirun. On cgroup2 a program
decides, and every list is possible.

A list may have tens of thousands of rules, so no rule is compared with all others: the
rules that overlap with it are found by kind and numbers, or by wildcards in their places.
"""

from __future__ import annotations

from itertools import product

from minirun.cgroups.rules import DeviceRule
from minirun.core.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    _Key = tuple[str | int | None, ...]

ALL = DeviceRule(True, "a", None, None, "rwm")
_MOST_JOINED = 1 << 16
_ACCESS = ("", "m", "r", "rm", "w", "wm", "rw", "rwm")


def bits(access: str) -> int:
    """Return the bit mask of an access string: m 1, r 2, w 4 (BPF_DEVCG_ACC_*, linux/bpf.h)."""
    return ("m" in access) | ("r" in access) << 1 | ("w" in access) << 2


def letters(mask: int) -> str:
    """Return the access string of a bit mask, in the kernel's order: rwm."""
    return _ACCESS[mask & 7]


def not_overridden(rules: Iterable[DeviceRule]) -> list[DeviceRule]:
    """Take from each rule the access that a later rule decides otherwise for all of its nodes.

    A rule that decides nothing is left out; another one keeps its kind and numbers.
    """
    kept: list[DeviceRule] = []
    decided: dict[_Key, tuple[int, int]] = {}  # by later rules: what is denied, what is allowed
    for rule in reversed(list(rules)):
        new = left = bits(rule.access)
        for key in product(("a", rule.kind), (None, rule.major), (None, rule.minor)):
            masks = decided.get(key, (0, 0))  # of rules that speak of all of this one's nodes
            new &= ~(masks[0] | masks[1])
            left &= ~masks[not rule.allow]
        if new:
            kept.append(rule._replace(access=letters(left)))
            key = (rule.kind, rule.major, rule.minor)
            denied, allowed = decided.get(key, (0, 0))
            decided[key] = (denied, allowed | left) if rule.allow else (denied | left, allowed)
    return kept[::-1]


class _Overlaps:
    """Rules, found by the nodes that they cover."""

    def __init__(self) -> None:
        self._rules: dict[_Key, list[DeviceRule]] = {}

    def add(self, rule: DeviceRule) -> None:
        """Add one, under each of its numbers or "*", which stands for whatever it has there."""
        for key in product((rule.kind, "*"), (rule.major, "*"), (rule.minor, "*")):
            self._rules.setdefault(key, []).append(rule)

    def with_a_node_of(self, rule: DeviceRule) -> Iterator[DeviceRule]:
        """Yield the rules that cover a node which `rule` covers too, each once."""
        kinds = ("*",) if rule.kind == "a" else (rule.kind, "a")
        majors = ("*",) if rule.major is None else (rule.major, None)
        minors = ("*",) if rule.minor is None else (rule.minor, None)
        for key in product(kinds, majors, minors):
            yield from self._rules.get(key, ())


def as_exceptions(rules: Sequence[DeviceRule]) -> tuple[bool, list[DeviceRule]]:
    """Return (the default, the exceptions from it): what the v1 controller can hold.

    Raises ConfigError for a list that only a program can express.
    """
    defaults = [n for n, rule in enumerate(rules) if rule._replace(allow=True) == ALL]
    default = bool(defaults) and rules[defaults[-1]].allow
    left = not_overridden(rules[defaults[-1] + 1 :] if defaults else rules)
    exceptions = [rule for rule in left if rule.allow != default]
    if len(exceptions) < len(left):
        _refuse_holes(left, default)
    exceptions = [
        rule._replace(kind=kind)
        for rule in exceptions
        for kind in ("cb" if rule.kind == "a" else rule.kind)
    ]
    return default, exceptions if default else exceptions + _joined_halves(exceptions)


def _refuse_holes(rules: list[DeviceRule], default: bool) -> None:
    """Raise ConfigError if a rule takes something out of an exception that stands before it."""
    exceptions = {letter: _Overlaps() for letter in "rwm"}
    for rule in rules:
        for letter in rule.access:
            if rule.allow != default:
                exceptions[letter].add(rule)
                continue
            for cut in exceptions[letter].with_a_node_of(rule):
                raise ConfigError(
                    f"linux.resources.devices: {_say(rule)} would cut a hole into {_say(cut)},"
                    " which cgroup v1 cannot hold",
                    "name the devices one by one, or use cgroup2",
                )


def _joined_halves(permissions: list[DeviceRule]) -> list[DeviceRule]:
    """Return the rules rw to add where one rule permits r and another w to the same nodes.

    The v1 controller permits an open for both only if one single exception holds both.
    Raises ConfigError if that would be too many exceptions.
    """
    writers = _Overlaps()
    for rule in permissions:
        if "w" in rule.access and "r" not in rule.access:
            writers.add(rule)
    joined: list[DeviceRule] = []
    for r in permissions:
        if "w" in r.access or "r" not in r.access:
            continue
        for w in writers.with_a_node_of(r):
            major = w.major if r.major is None else r.major
            joined.append(
                DeviceRule(True, r.kind, major, w.minor if r.minor is None else r.minor, "rw")
            )
        if len(joined) > _MOST_JOINED:
            raise ConfigError(
                "linux.resources.devices: rules for reading and rules for writing have more than"
                f" {_MOST_JOINED} sets of devices in common, which cgroup v1 cannot hold",
                "allow both in one rule, or use cgroup2",
            )
    return joined


def _say(rule: DeviceRule) -> str:
    return f"{'allow' if rule.allow else 'deny'} '{rule}'"


def parse(line: str) -> DeviceRule:
    """Read one line of devices.list, such as "c 195:0 rw". Raises ValueError."""
    kind, numbers, access = line.split()
    major, minor = (None if n == "*" else int(n) for n in numbers.split(":"))
    return DeviceRule(True, kind, major, minor, access)
