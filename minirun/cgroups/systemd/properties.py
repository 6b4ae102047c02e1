"""config.json's linux.resources and device rules as properties of a systemd unit.

systemd.resource-control(5). The files that systemd has a property for are few; for any other the
file alone counts. It starts from the files and values that minirun writes by hand, so that both
ways say the same, also for linux.resources.unified.

Devices: DevicePolicy=strict and a DeviceAllow= for each rule. A rule without major but with a
minor, or a list of denials, has no such form. On cgroup2 the policy is then to allow everything
(auto), since its program and minirun's must both consent; on version 1, where the last to write
wins, what can be expressed is set, so that a daemon-reload takes devices away rather than adds any.
"""

from __future__ import annotations

from minirun.cgroups import resources, ruleset
from minirun.common.quantities import listed
from minirun.core.errors import ConfigError
from minirun.core.keeping.numbers import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from minirun.cgroups.rules import DeviceRule
    from minirun.cgroups.systemd.bus import Properties

INFINITY = (1 << 64) - 1
_MORE = {
    "blkio.weight": "BlockIOWeight", "memory.min": "MemoryMin", "memory.high": "MemoryHigh",
}  # fmt: skip
"""File → property: of blockIO.weight, and of files that only linux.resources.unified names."""
_PERIOD = 100_000  # microseconds: the kernel's default
_STEP = 10_000  # microseconds of CPU time a second: systemd counts in whole percent


def of_resources(limits: dict[str, Any], version: int) -> Properties:
    """Return the properties that say what linux.resources says. Raises ConfigError."""
    settings = (resources.for_v1 if version == 1 else resources.for_v2)(limits)
    values = {setting.file: setting.value for setting in settings}
    names = _MORE | {one.file(version): one.unit(version) for one in resources.LIMITS.values()}
    found: Properties = []
    for file, value in values.items():
        name = names.get(file)
        if name and file.startswith("cpuset."):
            found.append((name, ("ay", bitmap(value))))
        elif name and (number := _number(value)) is not None:
            found.append((name, ("t", number)))
    return found + _quota(values)


def _number(value: str) -> int | None:
    """Return the number that a file takes; None for what is none (a device's own weight)."""
    if value in ("max", "-1"):
        return INFINITY
    return whole(value, 0, INFINITY)


def _quota(values: dict[str, str]) -> Properties:
    """Return CPU time as systemd has it: microseconds a second, in steps of a percent, rounded up.

    What is written by hand afterwards is exact.
    """
    if "cpu.max" in values:
        quota, _, period = values["cpu.max"].partition(" ")
    else:
        quota, period = values.get("cpu.cfs_quota_us", ""), values.get("cpu.cfs_period_us", "")
    found: Properties = []
    if period:
        found.append(("CPUQuotaPeriodUSec", ("t", int(period))))
    if quota:
        limit = _number(quota)
        if limit is not None and limit != INFINITY:
            limit = -(-limit * 1_000_000 // int(period or _PERIOD) // _STEP) * _STEP
        found.append(("CPUQuotaPerSecUSec", ("t", INFINITY if limit is None else limit)))
    return found


def bitmap(numbers: str) -> bytes:
    """Return a list such as 0-2,7 as bits, the lowest first. Raises ConfigError."""
    parts = [*filter(None, numbers.strip().split(","))]
    found = listed(",".join(parts)) if parts else set()
    if found is None:
        text = f"linux.resources.cpu: {numbers!r} is no list of numbers"
        raise ConfigError(text, "such as 0-2,7")
    bits = sum(1 << number for number in found)
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def of_devices(rules: Sequence[DeviceRule], version: int) -> Properties:
    """Return DevicePolicy and DeviceAllow for `rules`."""
    try:
        default, exceptions = ruleset.as_exceptions(rules)
    except ConfigError:
        default, exceptions = False, []
        exact = False
    else:
        exact = not (default and exceptions)
        exact &= all(rule.minor is None or rule.major is not None for rule in exceptions)
    if (default or not exact) and version == 2:
        return [("DevicePolicy", ("s", "auto")), ("DeviceAllow", ("a(ss)", []))]
    rows = [(_node(rule), rule.access) for rule in exceptions if rule.allow]
    if default and exact:  # with auto, systemd would remove version 1's directory for devices
        rows = [("char-*", "rwm"), ("block-*", "rwm")]
    return [
        ("DevicePolicy", ("s", "strict")),
        ("DeviceAllow", ("a(ss)", [])),  # an empty list clears the one before
        ("DeviceAllow", ("a(ss)", [row for row in rows if row[0]])),
    ]


def _node(rule: DeviceRule) -> str:
    """Return what DeviceAllow= calls a rule's nodes: by number, as they need not exist."""
    kind = {"c": "char", "b": "block"}[rule.kind]
    if rule.major is None:
        return f"{kind}-*" if rule.minor is None else ""
    if rule.minor is None:
        return f"{kind}-{rule.major}"
    return f"/dev/{kind}/{rule.major}:{rule.minor}"
