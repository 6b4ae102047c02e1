"""Numbers that are not whole, as flags, Dockerfiles and config.json have them: 1.5; 0-3,7; 1m30s.

None is returned for a text that is none, so that each caller says where it stood. Whole numbers are
minirun.core.keeping.numbers; ports minirun.common.ports.
"""

from __future__ import annotations

from minirun.core.keeping.numbers import LARGEST, whole
from minirun.core.lazy import lazy

with lazy:
    import re  # `run` needs none of it

_MOST = 8191
"""The largest number of a CPU or a memory node: a kernel has at most 8192 (CONFIG_NR_CPUS)."""
_UNITS = {
    "ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9,
}  # fmt: skip
"""In nanoseconds. Micro is U+00B5 or, on some keyboards, the Greek letter U+03BC."""
_DECIMAL = r"(\d+(?:\.\d*)?|\.\d+)"
_PART = rf"{_DECIMAL}({'|'.join(_UNITS)})"
_DURATION = rf"[+-]?(?:0|(?:{_PART})+)"


def decimal(text: str) -> float | None:
    """Return the number of 1, 1.5 or .5. float() would also read 1e3, 1_0, nan and infinity."""
    before, _, after = text.partition(".")
    digits = before + after
    return float(text) if digits and not digits.strip("0123456789") else None


def listed(text: str) -> set[int] | None:
    """Return {0, 1, 2, 3, 7} for 0-3,7, a list of CPUs or memory nodes: cpuset(7), "Formats"."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = whole(first, 0, _MOST), whole(last if dash else first, 0, _MOST)
        if low is None or high is None or low > high:
            return None
        found.update(range(low, high + 1))
    return found


def nanoseconds(text: str) -> int | None:
    """Return the nanoseconds of a duration as Go writes it: 5s, 1m30s, 250ms, 1.5h, -10m.

    None, too, if they are more than Go counts: https://pkg.go.dev/time#ParseDuration.
    """
    if not re.fullmatch(_DURATION, text, re.ASCII):
        return None
    length = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text, re.ASCII))
    if length > LARGEST:
        return None
    return round(-length if text.startswith("-") else length)
