"""What few processes ask for: scheduler, ioPriority, personality, memoryPolicy, execCPUAffinity.

And labels, which minirun.oci.tuning.labels knows, and intelRdt, which is refused.

What happens: the runtime reads and checks them before clone, and imports this module only if
config.json has one of them; init sets them right before it gives up its privileges, since a
real-time policy needs CAP_SYS_NICE.

What the spec says: runtime-spec, config.md, "Linux Process", and config-linux.md, "Personality"
and "Memory Policy". Words that the kernel does not have are an error. execCPUAffinity concerns
`exec` alone: `initial` holds until the process is in the container's cgroup, `final` from then on.

What the real stack does: runc sets them at the same place, in the same order.
"""

from __future__ import annotations

import errno
import os

from minirun.common.quantities import listed
from minirun.core.container import Container, Extra
from minirun.core.errors import ConfigError, reason
from minirun.oci.tuning import labels, sched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POLICIES = {
    "SCHED_OTHER": 0, "SCHED_FIFO": 1, "SCHED_RR": 2, "SCHED_BATCH": 3, "SCHED_ISO": 4,
    "SCHED_IDLE": 5, "SCHED_DEADLINE": 6,
}  # fmt: skip
SCHED_FLAGS = {
    "SCHED_FLAG_RESET_ON_FORK": 0x01, "SCHED_FLAG_RECLAIM": 0x02, "SCHED_FLAG_DL_OVERRUN": 0x04,
    "SCHED_FLAG_KEEP_POLICY": 0x08, "SCHED_FLAG_KEEP_PARAMS": 0x10,
    "SCHED_FLAG_UTIL_CLAMP_MIN": 0x20, "SCHED_FLAG_UTIL_CLAMP_MAX": 0x40,
}  # fmt: skip
"""linux/sched.h."""
IO_CLASSES = {"IOPRIO_CLASS_RT": 1, "IOPRIO_CLASS_BE": 2, "IOPRIO_CLASS_IDLE": 3}
"""linux/ioprio.h."""
DOMAINS = {"LINUX": 0x0, "LINUX32": 0x8}
"""linux/personality.h."""
MEMORY_MODES = {
    "MPOL_DEFAULT": 0, "MPOL_PREFERRED": 1, "MPOL_BIND": 2, "MPOL_INTERLEAVE": 3, "MPOL_LOCAL": 4,
    "MPOL_PREFERRED_MANY": 5, "MPOL_WEIGHTED_INTERLEAVE": 6,
}  # fmt: skip
MEMORY_FLAGS = {
    "MPOL_F_STATIC_NODES": 1 << 15, "MPOL_F_RELATIVE_NODES": 1 << 14,
    "MPOL_F_NUMA_BALANCING": 1 << 13,
}  # fmt: skip
"""linux/mempolicy.h."""


class Tuning(Extra):
    """What config.json asks for, as numbers; None if it does not."""

    def __init__(self, container: Container) -> None:
        """Read config.json. Raises ConfigError, with the exact path, for what is wrong in it."""
        super().__init__(container)
        process, linux = self.config.process, self.config.linux
        if linux.get("intelRdt") is not None:
            what = "minirun does not manage /sys/fs/resctrl"
            raise ConfigError(f"config.json: linux.intelRdt: is not supported: {what}")
        self.profile = labels.check(self.config)
        self.scheduler = _scheduler(process["scheduler"]) if process.get("scheduler") else None
        self.io = _io_priority(process["ioPriority"]) if process.get("ioPriority") else None
        self.persona = _personality(linux["personality"]) if linux.get("personality") else None
        self.memory = _memory(linux["memoryPolicy"]) if "memoryPolicy" in linux else None

    def limit(self) -> None:
        """Set it all for this process. Raises ConfigError for what the kernel refuses, OSError."""
        where = ""
        try:
            if self.persona is not None:
                where = "linux.personality"
                sched.personality(self.persona)
            if self.scheduler:
                where = "process.scheduler"
                sched.sched_setattr(self.scheduler)
            if self.io:
                where = "process.ioPriority"
                sched.ioprio_set(*self.io)
            if self.memory:
                where = "linux.memoryPolicy"
                sched.set_mempolicy(*self.memory)
        except OSError as error:
            raise self._refusal(where, error) from None
        labels.apply(self.profile)

    def _refusal(self, where: str, error: OSError) -> ConfigError:
        """Return what the kernel refuses as an error; sched_setattr(2) explains one of them.

        EPERM: a deadline needs a process that may run on all CPUs of the machine.
        """
        text = f"{getattr(error, 'call', '')}: {reason(error)}"
        cpus = self.config.linux.get("resources", {}).get("cpu", {}).get("cpus")
        deadline = self.scheduler and self.scheduler.policy == POLICIES["SCHED_DEADLINE"]
        hint = ""
        if where == "process.scheduler" and error.errno == errno.EPERM and cpus and deadline:
            hint = "process scheduler can't be used together with AllowedCPUs, resources.cpu.cpus"
        return ConfigError(f"config.json: {where}: {text}", hint)


def _scheduler(row: dict[str, Any]) -> sched.SchedAttr:
    where = "process.scheduler"
    return sched.SchedAttr(
        policy=_word(POLICIES, row["policy"], f"{where}.policy"),
        flags=_words(SCHED_FLAGS, row.get("flags") or [], f"{where}.flags"),
        nice=_within(row.get("nice", 0), -20, 19, f"{where}.nice"),
        priority=_within(row.get("priority", 0), 0, 99, f"{where}.priority"),
        runtime=row.get("runtime", 0), deadline=row.get("deadline", 0),
        period=row.get("period", 0),
    )  # fmt: skip


def _io_priority(row: dict[str, Any]) -> tuple[int, int]:
    where = "process.ioPriority"
    kind = _word(IO_CLASSES, row["class"], f"{where}.class")
    return kind, _within(row.get("priority", 0), 0, 7, f"{where}.priority")


def _personality(row: dict[str, Any]) -> int:
    if row.get("flags"):
        raise ConfigError("config.json: linux.personality.flags: the specification has none yet")
    return _word(DOMAINS, row["domain"], "linux.personality.domain")


def _memory(row: dict[str, Any]) -> tuple[int, int]:
    where = "linux.memoryPolicy"
    invalid = "invalid memory policy"
    name = row.get("mode", "")
    mode = _word(MEMORY_MODES, name, f"{where}.mode: {invalid} mode")
    flags = _words(MEMORY_FLAGS, row.get("flags") or [], f"{where}.flags", f": {invalid} flag")
    nodes = numbers(row.get("nodes") or "", f"{where}.nodes: {invalid} nodes")
    if name in ("MPOL_DEFAULT", "MPOL_LOCAL") and nodes:
        text = f"{name}: this mode requires 0 nodes but got {len(nodes)}"
        raise ConfigError(f"config.json: {where}.nodes: {text}")
    if name not in ("MPOL_DEFAULT", "MPOL_LOCAL", "MPOL_PREFERRED") and not nodes:
        text = f"{name}: this mode requires at least one node but got 0"
        raise ConfigError(f"config.json: {where}.nodes: {text}")
    return mode | flags, sum(1 << node for node in nodes)


def affinity(process: dict[str, Any], when: str, pid: int = 0) -> None:
    """Move a process, or this one, onto the CPUs of execCPUAffinity's `initial` or `final`.

    Without `final` it stays where the kernel has put it when it entered the cgroup, as the
    runtime-spec says (config.md, execCPUAffinity). Raises ConfigError.
    """
    wanted = process["execCPUAffinity"].get(when)
    where = f"process.execCPUAffinity.{when}"
    if not wanted:
        return
    try:
        os.sched_setaffinity(pid, numbers(wanted, where))
    except OSError as error:
        text = reason(error)
        raise ConfigError(f"config.json: {where}: {text}") from None


def numbers(text: str, where: str) -> set[int]:
    """Return {0, 1, 2, 3, 7} for "0-3,7". Raises ConfigError."""
    found = listed(text.replace(" ", "")) if text else set()
    if found is None:
        raise ConfigError(f"config.json: {where}: {text!r} is not a list like 0-3,7")
    return found


def _word(table: dict[str, int], word: str, where: str) -> int:
    if word not in table:
        raise ConfigError(f"config.json: {where}: {word!r} is none of {', '.join(table)}")
    return table[word]


def _words(table: dict[str, int], words: list[str], where: str, why: str = "") -> int:
    bits = 0
    for index, word in enumerate(words):
        bits |= _word(table, word, f"{where}[{index}]{why}")
    return bits


def _within(number: int, least: int, most: int, where: str) -> int:
    if not least <= number <= most:
        raise ConfigError(f"config.json: {where}: {number} does not lie between {least} and {most}")
    return number
