"""config.json's linux.resources, as the files and values that the kernel understands.

runtime-spec, config-linux.md, "Control groups"; Documentation/admin-guide/cgroup-v1/*.rst and
cgroup-v2.rst. What is null, and a 0 that means nothing, is not set (docker and containerd send
such members).

pids.limit: -1 is unlimited. A 0 is a limit since version 1.3 of the spec, and 1 is written for it,
as by runc 1.4: the container's command fits, and cannot fork. A 0 in the kernel's file says the
same of version 1, but no process could be cloned into such a cgroup2, and systemd takes no 0 as
TasksMax=. In a config.json of an older version 0 is "no limit", what runc up to 1.3 and crun make
of it: podman writes it so, and minirun.oci.validate takes it out.

blockIO, hugepageLimits, network and rdma: minirun.cgroups.perdevice. Passed over: what the spec
does not have, as it demands; memory.kernel (ignored since Linux 5.16) and memory.useHierarchy
(always so since 5.11). checkBeforeUpdate is for version 2; version 1's kernel always checks.
"""

from __future__ import annotations

from minirun.cgroups.rules import PER_DEVICE, Setting
from minirun.core.errors import ConfigError
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy

with lazy:
    import math

    from minirun.cgroups import perdevice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.cgroups.tree import Dir


class Limit(Record):
    """A property of linux.resources: the kernel's file, and systemd's property, in each version."""

    v1: str
    v2: str = ""
    """Empty if version 2 has none."""
    kind: type[int | str] = int
    zero_counts: bool = False
    """True if 0 is a value; else it means, as null does, that nothing is set."""
    unit_v1: str = ""
    """systemd.resource-control(5); empty if systemd has none."""
    unit_v2: str = ""

    def file(self, version: int) -> str:
        """Return the file of version 1 or 2."""
        return self.v1 if version == 1 else self.v2

    def unit(self, version: int) -> str:
        """Return systemd's property for cgroups of version 1 or 2."""
        return self.unit_v1 if version == 1 else self.unit_v2


LIMITS = {
    "memory.limit": Limit(
        "memory.limit_in_bytes", "memory.max", unit_v1="MemoryLimit", unit_v2="MemoryMax"
    ),
    "memory.swap": Limit("memory.memsw.limit_in_bytes", "memory.swap.max", unit_v2="MemorySwapMax"),
    "memory.reservation": Limit("memory.soft_limit_in_bytes", "memory.low", unit_v2="MemoryLow"),
    "memory.kernelTCP": Limit("memory.kmem.tcp.limit_in_bytes"),
    "memory.swappiness": Limit("memory.swappiness", zero_counts=True),
    "memory.disableOOMKiller": Limit("memory.oom_control", kind=bool),
    "cpu.shares": Limit("cpu.shares", "cpu.weight", unit_v1="CPUShares", unit_v2="CPUWeight"),
    "cpu.period": Limit("cpu.cfs_period_us", "cpu.max"),
    "cpu.quota": Limit("cpu.cfs_quota_us", "cpu.max"),
    "cpu.burst": Limit("cpu.cfs_burst_us", "cpu.max.burst", zero_counts=True),
    "cpu.idle": Limit("cpu.idle", "cpu.idle", zero_counts=True),
    "cpu.realtimePeriod": Limit("cpu.rt_period_us"),
    "cpu.realtimeRuntime": Limit("cpu.rt_runtime_us"),
    "cpu.cpus": Limit("cpuset.cpus", "cpuset.cpus", str, unit_v2="AllowedCPUs"),
    "cpu.mems": Limit("cpuset.mems", "cpuset.mems", str, unit_v2="AllowedMemoryNodes"),
    "pids.limit": Limit(
        "pids.max", "pids.max", zero_counts=True, unit_v1="TasksMax", unit_v2="TasksMax"
    ),
}
"""The one table of limits, in the order in which a new cgroup takes them. docker's flags and its
inspect name the same properties by these paths. Both versions take the number as it is, except for
version 2's swap, shares, quota and period."""


def values(resources: dict[str, Any]) -> dict[str, int | str]:
    """Return what is to be set, by dotted name (memory.limit), in the order of LIMITS.

    Raises ConfigError for a wrong type.
    """
    found: dict[str, int | str] = {}
    for name, known in LIMITS.items():
        section, _, key = name.partition(".")
        group = resources.get(section) or {}
        if not isinstance(group, dict):
            raise ConfigError(f"linux.resources.{section}: expected an object, not {group!r}")
        value = group.get(key)
        if value is None or (not value and not known.zero_counts):
            continue
        if type(value) is not known.kind:
            kind = {str: "a string", bool: "true or false", int: "a whole number"}[known.kind]
            raise ConfigError(f"linux.resources.{name}: expected {kind}, not {value!r}")
        found[name] = int(value) if known.kind is bool else value
    if found.get("pids.limit") == 0:
        found["pids.limit"] = 1
    if found.get("cpu.idle") == 1:
        found.pop("cpu.shares", None)  # an idle cgroup has the least weight, and refuses another
    swap, limit = found.get("memory.swap", -1), found.get("memory.limit", 0)
    if isinstance(swap, int) and isinstance(limit, int) and 0 <= swap < limit:
        raise ConfigError(
            f"linux.resources.memory.swap: {swap} is less than memory.limit {limit}",
            "swap is the sum of memory and swap",
        )
    return found


def per_device(resources: dict[str, Any], version: int) -> list[Setting]:
    """Return the settings of the sections that name devices. Raises ConfigError."""
    if not any(map(resources.get, PER_DEVICE)):
        return []
    return perdevice.settings(resources, version)


def for_v1(resources: dict[str, Any]) -> list[Setting]:
    """Return the settings for version 1's files. Raises ConfigError."""
    if resources.get("unified"):
        raise ConfigError(
            "linux.resources.unified: invalid configuration: it names files of cgroup2, and this"
            " container uses cgroup v1",
            "use memory, cpu and pids instead, or choose cgroup2",
        )
    todo = values(resources)
    if todo.get("memory.limit") == -1 and "memory.swap" not in todo:
        todo["memory.swap"] = -1  # unlimited memory above limited memory and swap is refused
    return [
        setting(name, LIMITS[name].v1, or_max(value) if name == "pids.limit" else str(value))
        for name, value in todo.items()
    ] + per_device(resources, 1)


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
    """Return a limit's value in the form of version 2's file."""
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


def setting(name: str, file: str, value: str) -> Setting:
    """Return the value of a property as one for a file."""
    return Setting(f"linux.resources.{name}", file.split(".")[0], file, value)


def or_max(value: int | str) -> str:
    """Return a value for a file in which "max" means unlimited: "max" for one below 0."""
    return "max" if isinstance(value, int) and value < 0 else str(value)
