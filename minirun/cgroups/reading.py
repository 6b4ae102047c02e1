"""What a list of device rules allows: its shortest form, the access to one node, a listing."""

from __future__ import annotations

from itertools import dropwhile

from minirun.cgroups.rules import DeviceRule
from minirun.cgroups.ruleset import bits, letters, not_overridden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def effective(rules: Iterable[DeviceRule]) -> list[DeviceRule]:
    """Return the rules without those that have no effect; the others stay in order.

    Denials that stand before the first permission go too: there is nothing yet that they deny.
    """
    return list(dropwhile(lambda rule: not rule.allow, not_overridden(rules)))


def access(rules: Iterable[DeviceRule], kind: str, major: int, minor: int) -> str:
    """Return what rules allow of one node, out of "rwm": the last one that covers it decides."""
    mask = 0
    for rule in rules:
        fits = rule.kind in ("a", kind) and rule.major in (None, major)
        if fits and rule.minor in (None, minor):
            mask = mask | bits(rule.access) if rule.allow else mask & ~bits(rule.access)
    return letters(mask)


def listing(rules: Iterable[DeviceRule], names: dict[tuple[str, int, int], str]) -> list[str]:
    """Return rules as aligned lines: c 195:0 rw   # /dev/nvidia0.

    `names` maps (kind, major, minor) to a path. A denial has the word denied behind the #.
    """
    rows = [(str(rule), _remark(rule, names)) for rule in rules]
    width = max((len(text) for text, _ in rows), default=0)
    return [f"{text:<{width}} # {remark}" if remark else text for text, remark in rows]


def _remark(rule: DeviceRule, names: dict[tuple[str, int, int], str]) -> str:
    name = ""
    if rule.major is not None and rule.minor is not None:
        name = names.get((rule.kind, rule.major, rule.minor), "")
    return name if rule.allow else f"denied {name}".rstrip()
