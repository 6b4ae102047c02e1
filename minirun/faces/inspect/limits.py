"""Limits, use and device rules of a container's cgroup, read from the kernel's files: cgroups(7).

None means that there is no limit, or that no controller of it is joined.
"""

import os
import stat
from contextlib import closing

from minirun.cgroups import cgroup_of
from minirun.cgroups.reading import access
from minirun.cgroups.resources import LIMITS
from minirun.cgroups.rules import DeviceRule
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import state
from minirun.core.keeping.numbers import whole
from minirun.core.rootfs.inroot import Root
from minirun.faces.inspect.document import LimitFacts, NodeFacts
from minirun.faces.inspect.given import edits_of

_UNLIMITED = 1 << 62
"""Version 1 writes "no limit" as the largest multiple of a page size."""


def limits(container: Container) -> LimitFacts:
    """Return the limits in force: bytes, tasks, CPUs (1.5), and the list of CPUs as text."""
    record = cgroup_of(container).record()

    def read(limit: str) -> str:
        """Return what the file of a property holds; empty if there is none."""
        file = LIMITS[limit].file(record["version"])
        controller = file.split(".")[0] if record["version"] == 1 else ""
        try:
            return state.read_text(f"{record['dirs'][controller]}/{file}").strip()
        except (KeyError, OSError):
            return ""

    quota, period = read("cpu.quota"), read("cpu.period")
    if record["version"] == 2:  # one file has both
        quota, _, period = quota.partition(" ")
    share, whole = _number(quota), _number(period)
    found: LimitFacts = {
        "memory": _number(read("memory.limit")),
        "pids": _number(read("pids.limit")),
        "cpus": share / whole if share and whole else None,
        "cpuset": read("cpu.cpus") or None,
    }
    swap, shares = _number(read("memory.swap")), _number(read("cpu.shares"))
    if record["version"] == 1:
        return {**found, "memoryAndSwap": swap, "cpuShares": shares}
    return {**found, "swap": swap, "cpuWeight": shares}


def _number(text: str) -> int | None:
    return whole(text, 0, _UNLIMITED - 1)


def rules(container: Container) -> list[DeviceRule] | None:
    """Return the device rules in force; None if the kernel cannot say them."""
    try:
        return cgroup_of(container).effective_device_rules()
    except (OSError, MinirunError):
        return None


def nodes(container: Container, pid: int, allowed: list[DeviceRule] | None) -> list[NodeFacts]:
    """Return the device nodes in the container's /dev, and what the cgroup allows of each.

    They are looked up below a descriptor of the container's root. Raises OSError.
    """
    edits = edits_of(container.record)
    given = {(node.kind, node.major, node.minor) for node in edits.device_nodes}
    rows: list[NodeFacts] = []
    with closing(Root.at(f"/proc/{pid}/root")) as root:
        fd = root.open("/dev", os.O_RDONLY | os.O_DIRECTORY)
        for name in sorted(os.listdir(fd)):
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(info.st_mode))
            if not kind:
                continue
            key = (kind, os.major(info.st_rdev), os.minor(info.st_rdev))
            rows.append({
                "path": f"/dev/{name}", "type": kind, "major": key[1], "minor": key[2],
                "access": None if allowed is None else access(allowed, *key),
                "simulated": edits.simulated and key in given,
            })  # fmt: skip
        os.close(fd)
    return rows
