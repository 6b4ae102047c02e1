"""A container's limits, as the files of its cgroup have them: on version 1 of cgroups, and on 2."""

from collections.abc import Callable
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
V2 = (MOUNT / "cgroup.controllers").exists()
FILES = {
    "memory": (("memory/memory.limit_in_bytes",), "memory.max"),
    "cpu": (("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"), "cpu.max"),
    "shares": (("cpu/cpu.shares",), "cpu.weight"),
    "cpuset": (("cpuset/cpuset.cpus",), "cpuset.cpus"),
    "pids": (("pids/pids.max",), "pids.max"),
    "processes": (("pids/cgroup.procs",), "cgroup.procs"),
}
"""Limit → its files on version 1, below their controllers' folders, and its file on version 2."""
WEIGHTS = {512: {"20", "59"}, 300: {"12", "39"}, 256: {"10", "35"}}
"""cpu.shares → cpu.weight: by the straight line of runc before 1.3.2, by the curve since."""


def inside(limit: str) -> list[str]:
    """The files of a limit, where a container sees its own cgroup."""
    first, second = FILES[limit]
    return [str(MOUNT / name) for name in ((second,) if V2 else first)]


def outside(limit: str, path: str) -> list[str]:
    """The contents of a limit's files, of the cgroup `path`, as the host sees them."""
    first, second = FILES[limit]
    if V2:
        return (MOUNT / path / second).read_text().split()
    files = [MOUNT / name.split("/")[0] / path / name.split("/")[1] for name in first]
    return [file.read_text().strip() for file in files]


def has_weight(texts: list[str], shares: int) -> bool:
    """True if these are the contents of the file of cpu.shares."""
    return texts[0] in WEIGHTS[shares] if V2 else texts == [str(shares)]


def is_in(cgroups: str, controller: str, holds: Callable[[str], bool]) -> bool:
    """True if the path of a process's cgroup, by its /proc/PID/cgroup, is as `holds` says."""
    rows = [line.split(":", 2) for line in cgroups.splitlines()]
    paths = [path for _, names, path in rows if names == "" or controller in names.split(",")]
    return any(holds(path) for path in paths)
