"""What a cgroup has used, in the shape of runc's `events`: cadvisor and others read it.

Version 1: Documentation/admin-guide/cgroup-v1/{memory,cpuacct,cpusets,blkio-controller}.rst;
version 2: cgroup-v2.rst. A number that is in no file is left out, as in runc, whose members are
`omitempty`; a limit that is not set is the kernel's highest number. Times are nanoseconds, sizes
bytes. runc's Go types: types/events.go.
"""

from __future__ import annotations

from minirun.cgroups.tree import Dir
from minirun.common.quantities import listed
from minirun.core.errors import StateError
from minirun.core.keeping.numbers import LARGEST, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.keeping.container_record import CgroupRecord

UNLIMITED = 2**64 - 1
"""What runc prints for version 2's "max"."""
_TICK = 10_000_000
"""cpuacct.stat counts in ticks of USER_HZ, which is 100 on every Linux: time(7)."""
_CPUSET = (
    "cpu_exclusive", "mem_hardwall", "mem_exclusive", "memory_migrate", "memory_spread_page",
    "memory_spread_slab", "memory_pressure", "sched_load_balance", "sched_relax_domain_level",
)  # fmt: skip
_BLKIO = {
    "ioServiceBytesRecursive": "blkio.throttle.io_service_bytes_recursive",
    "ioServicedRecursive": "blkio.throttle.io_serviced_recursive",
}


def stats(record: CgroupRecord) -> dict[str, Any]:
    """Return the counters of a cgroup by its record, in runc's shape.

    A cgroup that has gone has none. Raises StateError if there never was one.
    """
    if not record["version"]:
        raise StateError(f"nothing is counted: there is no cgroup: {record['reason']}")
    dirs = {name: _Files(path) for name, path in record["dirs"].items()}
    try:
        return _version2(dirs[""]) if record["version"] == 2 else _version1(dirs)
    finally:
        for files in dirs.values():
            files.close()


def usage(record: CgroupRecord) -> dict[str, int | None]:
    """Return what a cgroup uses: bytes, nanoseconds, tasks; None if no controller counts it."""
    if not record["version"]:
        return dict.fromkeys(("memory", "memory_peak", "cpu", "pids"))
    found = stats(record)
    memory = found["memory"]["usage"]
    return {
        "memory": memory.get("usage"), "memory_peak": memory.get("max"),
        "cpu": found["cpu"]["usage"].get("total"), "pids": found["pids"].get("current"),
    }  # fmt: skip


class _Files(Dir):
    """A cgroup's directory, whose missing files are empty."""

    def text(self, name: str) -> str:
        try:
            return self.read(name).strip()
        except OSError:
            return ""

    def count(self, name: str) -> int | None:
        text = self.text(name)
        return UNLIMITED if text == "max" else whole(text, -LARGEST, UNLIMITED)

    def table(self, name: str) -> dict[str, int]:
        """A file of lines such as `cache 4096`."""
        pairs = (line.split() for line in self.text(name).splitlines())
        counted = ((pair[0], whole(pair[1], 0, UNLIMITED)) for pair in pairs if len(pair) == 2)
        return {name: count for name, count in counted if count is not None}

    def cpus(self, name: str) -> list[int]:
        """A list such as 0-2,7."""
        return sorted(listed(self.text(name)) or ())


def _known(**values: int | dict[str, Any] | list[Any] | None) -> dict[str, Any]:
    """Return the values that are not None, by name."""
    return {name: value for name, value in values.items() if value is not None}


def _result(**sections: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "cpu": {}, "cpuset": {}, "memory": {}, "pids": {}, "blkio": {}, "hugetlb": {},
        "intel_rdt": {}, "network_interfaces": None,
    }  # fmt: skip
    return empty | sections


def _version1(dirs: dict[str, _Files]) -> dict[str, Any]:
    nowhere = _Files("/proc/self/nowhere")
    memory, account = dirs.get("memory", nowhere), dirs.get("cpuacct", nowhere)
    cpu, cpuset = dirs.get("cpu", nowhere), dirs.get("cpuset", nowhere)
    ticks, spent = account.table("cpuacct.stat"), cpu.table("cpu.stat")
    raw = memory.table("memory.stat")
    per_cpu = [int(word) for word in account.text("cpuacct.usage_percpu").split()]
    halves = [line.split() for line in account.text("cpuacct.usage_all").splitlines()[1:]]
    return _result(
        cpu={
            "usage": {
                **_known(
                    total=account.count("cpuacct.usage"), percpu=per_cpu or None,
                    percpu_kernel=[int(system) for _, _, system in halves] or None,
                    percpu_user=[int(user) for _, user, _ in halves] or None,
                ),
                "kernel": ticks.get("system", 0) * _TICK,
                "user": ticks.get("user", 0) * _TICK,
            },
            "throttling": _throttling(spent, spent.get("throttled_time")),
        },
        cpuset={
            **_known(
                cpus=cpuset.cpus("cpuset.cpus") or None, mems=cpuset.cpus("cpuset.mems") or None
            ),
            **{name: cpuset.count(f"cpuset.{name}") or 0 for name in _CPUSET},
        },
        memory={
            "cache": raw.get("cache", 0),
            "usage": _entry(memory, "memory."), "swap": _entry(memory, "memory.memsw."),
            "kernel": _entry(memory, "memory.kmem."),
            "kernelTCP": _entry(memory, "memory.kmem.tcp."), "raw": raw,
        },
        pids=_pids(dirs.get("pids", nowhere)),
        blkio=_blkio(dirs.get("blkio", nowhere)),
    )  # fmt: skip


def _entry(memory: _Files, prefix: str) -> dict[str, Any]:
    """Return a counter of version 1: memory, memory and swap, the kernel's, its TCP buffers."""
    return {
        "limit": memory.count(f"{prefix}limit_in_bytes") or 0,
        **_known(
            usage=memory.count(f"{prefix}usage_in_bytes"),
            max=memory.count(f"{prefix}max_usage_in_bytes"),
        ),
        "failcnt": memory.count(f"{prefix}failcnt") or 0,
    }


def _throttling(spent: dict[str, int], time: int | None) -> dict[str, Any]:
    periods, throttled = spent.get("nr_periods"), spent.get("nr_throttled")
    return _known(
        periods=periods or None, throttledPeriods=throttled or None, throttledTime=time or None
    )


def _pids(files: _Files) -> dict[str, Any]:
    limit = files.count("pids.max")
    current = files.count("pids.current")
    return _known(current=current, limit=None if limit == UNLIMITED else limit)


def _blkio(files: _Files) -> dict[str, Any]:
    """Lines such as `8:0 Read 4096` as runc's entries."""
    found: dict[str, Any] = {}
    for name, file in _BLKIO.items():
        rows = [line.split() for line in files.text(file).splitlines()]
        entries = [
            {"major": int(major), "minor": int(minor), "op": row[1], "value": int(row[2])}
            for row in rows
            if len(row) == 3
            for major, minor in [row[0].split(":")]
        ]
        if entries:
            found[name] = entries
    return found


def _version2(files: _Files) -> dict[str, Any]:
    spent, raw = files.table("cpu.stat"), files.table("memory.stat")
    happened = files.table("memory.events")
    usage, swap = files.count("memory.current"), files.count("memory.swap.current")
    return _result(
        cpu={
            "usage": {
                "total": spent.get("usage_usec", 0) * 1000,
                "kernel": spent.get("system_usec", 0) * 1000,
                "user": spent.get("user_usec", 0) * 1000,
            },
            "throttling": _throttling(spent, spent.get("throttled_usec", 0) * 1000),
        },
        memory={
            "cache": raw.get("file", 0),
            "usage": {
                "limit": files.count("memory.max") or 0,
                **_known(usage=usage, max=files.count("memory.peak")),
                "failcnt": happened.get("max", 0),
            },
            "swap": {
                "limit": files.count("memory.swap.max") or 0, **_known(usage=swap), "failcnt": 0,
            },
            "raw": raw,
        },
        pids=_pids(files),
        blkio=_io(files),
    )  # fmt: skip


def _io(files: _Files) -> dict[str, Any]:
    """Lines such as `8:0 rbytes=4096 wbytes=0 rios=1 wios=0` as runc's entries."""
    names = {
        "rbytes": ("ioServiceBytesRecursive", "Read"), "rios": ("ioServicedRecursive", "Read"),
        "wbytes": ("ioServiceBytesRecursive", "Write"), "wios": ("ioServicedRecursive", "Write"),
    }  # fmt: skip
    found: dict[str, Any] = {}
    for line in files.text("io.stat").splitlines():
        device, *words = line.split()
        major, minor = map(int, device.split(":"))
        for word in words:
            name, _, value = word.partition("=")
            if name in names:
                kind, op = names[name]
                entry = {"major": major, "minor": minor, "op": op, "value": int(value)}
                found.setdefault(kind, []).append(entry)
    return found
