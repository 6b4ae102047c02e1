"""What a list of device rules means, before any kernel interface is spoken to.

runtime-spec (config-linux.md, "Allowed Device list"): the entries are applied in order. So each
kind of access (r, w, m) to each node is decided by the last rule that speaks of it, and what no
rule speaks of is denied. An open for reading and writing needs both.

The v1 controller can hold less than that: a default, and exceptions from it, all of one verdict
(Documentation/admin-guide/cgroup-v1/devices.rst). It takes a denial that cuts a hole into a wider
permission without a word and does nothing; runc refuses such a list, and so do we. On cgroup2 a
program decides, and every list can be had.
"""

from minirun.cgroups.rules import DeviceRule
from minirun.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ALL = DeviceRule(True, "a", None, None, "rwm")
NOTHING = DeviceRule(False, "a", None, None, "rwm")
_ACCESS = ("", "m", "r", "rm", "w", "wm", "rw", "rwm")


def bits(access: str) -> int:
    """Return the bit mask of an access string: m 1, r 2, w 4 (BPF_DEVCG_ACC_*, linux/bpf.h)."""
    return ("m" in access) | ("r" in access) << 1 | ("w" in access) << 2


def letters(mask: int) -> str:
    """Return the access string of a bit mask, in the kernel's order: rwm."""
    return _ACCESS[mask & 7]


def covers(wide: DeviceRule, narrow: DeviceRule) -> bool:
    """Tell whether every node that `narrow` speaks of is one that `wide` speaks of too."""
    return (
        wide.kind in ("a", narrow.kind)
        and wide.major in (None, narrow.major)
        and wide.minor in (None, narrow.minor)
    )


def overlap(one: DeviceRule, other: DeviceRule) -> bool:
    """Tell whether there can be a node that both rules speak of."""
    return all(
        a == b or a in (None, "a") or b in (None, "a")
        for a, b in ((one.kind, other.kind), (one.major, other.major), (one.minor, other.minor))
    )


def effective(rules: "Iterable[DeviceRule]") -> "list[DeviceRule]":
    """Return the same list without what has no effect in it: the shortest order-true form.

    Denials that stand before the first permission go too: there is nothing yet that they deny.
    """
    kept = _not_overridden(rules)
    while kept and not kept[0].allow:
        kept.pop(0)
    return kept


def _not_overridden(rules: "Iterable[DeviceRule]") -> "list[DeviceRule]":
    """Take from each rule the access that a later rule decides otherwise for all of its nodes.

    A rule that says nothing new goes; one that says something new stays as it was written.
    """
    kept: "list[DeviceRule]" = []
    for rule in reversed(list(rules)):
        new = left = bits(rule.access)
        for later in kept:
            if covers(later, rule):
                new &= ~bits(later.access)
                if later.allow != rule.allow:
                    left &= ~bits(later.access)
        if new:
            kept.append(rule._replace(access=letters(left)))
    return kept[::-1]


def as_exceptions(rules: "Sequence[DeviceRule]") -> "tuple[bool, list[DeviceRule]]":
    """Return (the default, the exceptions from it): what the v1 controller can hold.

    Raises ConfigError for a list that only a program can express.
    """
    defaults = [n for n, rule in enumerate(rules) if rule._replace(allow=True) == ALL]
    default = bool(defaults) and rules[defaults[-1]].allow
    exceptions: "list[DeviceRule]" = []
    for rule in _not_overridden(rules[defaults[-1] + 1 :] if defaults else rules):
        if rule.allow != default:
            exceptions.append(rule)
            continue
        for cut in exceptions:
            if overlap(cut, rule) and bits(cut.access) & bits(rule.access):
                raise ConfigError(
                    f"linux.resources.devices: {_say(rule)} would cut a hole into {_say(cut)},"
                    " which cgroup v1 cannot hold",
                    "name the devices one by one, or use cgroup2",
                )
    exceptions = [
        rule._replace(kind=kind)
        for rule in exceptions
        for kind in ("cb" if rule.kind == "a" else rule.kind)
    ]
    return default, exceptions if default else exceptions + _joined_halves(exceptions)


def _joined_halves(permissions: "list[DeviceRule]") -> "list[DeviceRule]":
    """Return what is missing where one rule permits r and another w to the same nodes.

    The v1 controller permits an open for both only where one single exception holds both.
    """
    readers = [rule for rule in permissions if "r" in rule.access and "w" not in rule.access]
    writers = [rule for rule in permissions if "w" in rule.access and "r" not in rule.access]
    return [
        DeviceRule(
            True, r.kind, w.major if r.major is None else r.major,
            w.minor if r.minor is None else r.minor, "rw",
        )
        for r in readers
        for w in writers
        if overlap(r, w)
    ]  # fmt: skip


def _say(rule: DeviceRule) -> str:
    return f"{'allow' if rule.allow else 'deny'} '{rule}'"


def access(rules: "Iterable[DeviceRule]", kind: str, major: int, minor: int) -> str:
    """Return what rules allow of one node, out of "rwm": the last one that speaks of it decides."""
    mask = 0
    for rule in rules:
        fits = rule.kind in ("a", kind) and rule.major in (None, major)
        if fits and rule.minor in (None, minor):
            mask = mask | bits(rule.access) if rule.allow else mask & ~bits(rule.access)
    return letters(mask)


def parse(line: str) -> DeviceRule:
    """Read one line of devices.list, such as "c 195:0 rw". Raises ValueError."""
    kind, numbers, access = line.split()
    major, minor = (None if n == "*" else int(n) for n in numbers.split(":"))
    return DeviceRule(True, kind, major, minor, access)


def listing(rules: "Iterable[DeviceRule]", names: "dict[tuple[str, int, int], str]") -> "list[str]":
    """Return rules as aligned lines: c 195:0 rw   # /dev/nvidia0.

    `names` maps (kind, major, minor) to a path. A denial says so behind the #.
    """
    rows = [(str(rule), _remark(rule, names)) for rule in rules]
    width = max((len(text) for text, _ in rows), default=0)
    return [f"{text:<{width}} # {remark}" if remark else text for text, remark in rows]


def _remark(rule: DeviceRule, names: "dict[tuple[str, int, int], str]") -> str:
    name = ""
    if rule.major is not None and rule.minor is not None:
        name = names.get((rule.kind, rule.major, rule.minor), "")
    return name if rule.allow else f"denied {name}".rstrip()
