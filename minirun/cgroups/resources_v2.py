"""linux.resources as version 2's files have it: shares, swap, quota and period differ; unified."""

from __future__ import annotations

from minirun.cgroups.resources import LIMITS, or_max, per_device, setting, values
from minirun.cgroups.rules import Setting
from minirun.core.errors import ConfigError
from minirun.core.lazy import lazy

with lazy:
    import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.cgroups.tree import Dir


def for_v2(resources: dict[str, Any]) -> list[Setting]:
    """Return the settings for version 2's files. Raises ConfigError."""
    todo = values(resources)
    settings = []
    for name in todo:
        if not LIMITS[name].v2:
            raise ConfigError(
                f"linux.resources.{name}: cgroup2 has no such setting",
                "take it out of config.json, or choose cgroup v1",
            )
        if name != "cpu.quota" or "cpu.period" not in todo:  # one file has both
            settings.append(setting(name, LIMITS[name].v2, _v2_value(name, todo)))
    return settings + per_device(resources, 2) + _unified(resources.get("unified") or {})


def _v2_value(name: str, todo: dict[str, int | str]) -> str:
    value = todo[name]
    if name == "memory.swap":
        return _swap_alone(todo)
    if name == "cpu.shares":
        return str(weight(int(value)))
    if name == "cpu.period":
        return f"{or_max(todo.get('cpu.quota', -1))} {value}"
    return or_max(value)


def _swap_alone(todo: dict[str, int | str]) -> str:
    """Return swap.max: the spec's swap is the sum of memory and swap, version 2's is not."""
    swap, limit = int(todo["memory.swap"]), int(todo.get("memory.limit", 0))
    if swap < 0:
        return "max"
    if limit <= 0:
        raise ConfigError(
            "linux.resources.memory.swap: cgroup2 needs memory.limit beside it",
            "swap is the sum of memory and swap; give memory.limit as well",
        )
    return str(swap - limit)


def weight(shares: int) -> int:
    """Convert cpu.shares (2 to 262144, 1024 by default) to cpu.weight (1 to 10000, 100).

    The curve through (2, 1), (1024, 100) and (262144, 10000) of runc 1.3.2 and crun 1.23; before,
    both drew a straight line, which made 39 of the default.
    """
    if shares <= 2:
        return 1
    if shares >= 262144:
        return 10000
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def _unified(files: dict[str, Any]) -> list[Setting]:
    """Return linux.resources.unified as settings: file name to value, as they are.

    A value of several lines is several writes: cgroup2's files take one device, say, at a time.
    """
    for file, value in files.items():
        if "/" in file or "." not in file or not isinstance(value, str):
            raise ConfigError(
                f"linux.resources.unified: {file!r} must be the name of a cgroup2 file,"
                " and its value a string",
                'write it as "memory.high": "1048576"',
            )
    return [
        Setting(f"linux.resources.unified.{file}", file.split(".")[0], file, line)
        for file, value in files.items()
        for line in filter(None, value.split("\n"))
    ]


def check_usage(resources: dict[str, Any], directory: Dir) -> None:
    """Refuse, with memory.checkBeforeUpdate, a limit below what is in use. Raises ConfigError.

    Version 2's kernel would take it, and kill processes until it is met.
    """
    memory = resources.get("memory") or {}
    limit = memory.get("limit") or 0
    if limit <= 0 or not memory.get("checkBeforeUpdate"):
        return
    try:
        current = int(directory.read("memory.current"))
    except FileNotFoundError:  # no such controller: that is another error
        return
    if limit < current:
        raise ConfigError(
            f"linux.resources.memory.limit: {limit} is less than the {current} bytes in use",
            "leave checkBeforeUpdate out to have processes killed until it is met",
        )
