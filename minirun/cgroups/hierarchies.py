"""The mounted cgroup file systems, and the cgroups of a process in them.

cgroups(7): version 1 mounts one hierarchy per controller (or for a few together, "cpu,cpuacct"),
version 2 one for all; a controller belongs to either side, and a hybrid machine has both, version 2
then often without a single controller. runc and crun read it out of /proc/self/mountinfo too.
"""

from __future__ import annotations

import os

from minirun.core.keeping.record import Record
from minirun.core.kernel import mountinfo

_CONTROLLERS = (
    "blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "misc",
    "net_cls", "net_prio", "perf_event", "pids", "rdma",
)  # fmt: skip
_USUAL_PLACE = "/sys/fs/cgroup/"


class Hierarchy(Record):
    """One mounted hierarchy.

    `version` is 1 or 2; `names` holds version 1's controllers and name=…, empty for version 2.
    """

    path: str
    version: int
    names: tuple[str, ...]


def mounted() -> list[Hierarchy]:
    """Return the hierarchies mounted in this mount namespace, each controller once."""
    return hierarchies_of(mountinfo.read(fs_type="cgroup"))


def hierarchies_of(mounts: list[mountinfo.Mount]) -> list[Hierarchy]:
    """Return the hierarchies among the mounts of cgroup file systems.

    If a hierarchy is mounted twice, the mount below /sys/fs/cgroup is taken, or else the first.
    """
    found: dict[tuple[str, ...], Hierarchy] = {}
    for mount in mounts:
        options, path = mount.super_options.split(","), mount.mount_point
        is_v1 = mount.fs_type != "cgroup2"
        names = tuple(o for o in options if is_v1 and (o in _CONTROLLERS or o.startswith("name=")))
        known = found.get(names)
        if not known or (path.startswith(_USUAL_PLACE) > known.path.startswith(_USUAL_PLACE)):
            found[names] = Hierarchy(path, 1 if names else 2, names)
    return list(found.values())


def version_2() -> str:
    """Return where version 2's hierarchy is mounted; "" for nowhere."""
    return next((each.path for each in mounted() if each.version == 2), "")


def counts_swap() -> bool:
    """Return True if a limit of swap can be set here: the kernel may be built or booted without.

    Version 2 has the file in every cgroup but the root's. Raises OSError.
    """
    for each in mounted():
        if "memory" in each.names:
            return os.path.exists(f"{each.path}/memory.memsw.limit_in_bytes")
    return os.path.exists(f"{version_2()}{paths_of('self').get('', '')}/memory.swap.max")


def is_below(pid: int | str, path: str) -> bool:
    """Return True if a process's cgroup of version 2 is `path`, or below it. Raises OSError."""
    return f"{paths_of(pid).get('', '')}/".startswith(f"{path}/")


def paths_of(pid: int | str) -> dict[str, str]:
    """Return a process's cgroup in each hierarchy: controllers ("" for version 2) → path.

    cgroups(7), "/proc files". Raises OSError.
    """
    with open(f"/proc/{pid}/cgroup", "rb") as file:
        lines = file.read().decode(errors="surrogateescape").split("\n")
    rows = [line.split(":", 2) for line in lines if line]
    return {names: path for _, names, path in rows}
