"""What containers use, between two looks: `minirun stats`.

CPU, memory, processes and block I/O are the cgroup's (minirun.cgroups.stats), the network's bytes
those of init's /proc/PID/net/dev without lo, GPUs NVML's. Memory is counted as docker does: without
the file pages that the kernel would give back first (inactive_file). What nothing counts is --, as
docker has it: a user without a delegated cgroup has no numbers but the network's.
"""

from __future__ import annotations

import os
import time
from typing import Any

from minirun.cgroups import stats
from minirun.core.errors import GPUError, MinirunError
from minirun.core.keeping import state
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy
from minirun.faces.inspect.given import edits_of
from minirun.faces.inspect.sizes import human, human_binary
from minirun.faces.show.template.values import Fields

with lazy:
    from minirun.gpu.nvidia.shared import nvml

_HUGE = 1 << 60
"""A limit of memory above that is none: version 1 has the highest number for it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import CgroupRecord

_BY_CGROUP = ("CPUPerc", "MemUsage", "MemPerc", "BlockIO", "PIDs")
_NOT_COUNTED = {"MemUsage": "-- / --"}
"""What docker shows for what it does not know; else --."""


class Sample(Record):
    """What one container has used up to now: bytes, nanoseconds, tasks."""

    record: ContainerRecord
    at: int
    """CLOCK_MONOTONIC, in nanoseconds."""
    uncounted: tuple[str, ...] = ()
    """The fields of docker's `stats` for which it runs and nothing counts."""
    cpu: int = 0
    memory: int = 0
    limit: int = 0
    pids: int = 0
    received: int = 0
    sent: int = 0
    read: int = 0
    written: int = 0


def samples(records: list[ContainerRecord]) -> list[Sample]:
    """Return what each container has used; zeros for one that does not run."""
    return [_sample(record) for record in records]


def _sample(record: ContainerRecord) -> Sample:
    cgroup, now = record.cgroup, time.monotonic_ns()
    if not record.pid or record.status == state.STOPPED:
        return Sample(record, now)
    received, sent = _network(record.pid)
    if not cgroup or not cgroup["version"]:
        return Sample(record, now, _BY_CGROUP, received=received, sent=sent)
    try:
        found = stats.stats(cgroup)
    except (MinirunError, OSError, ValueError):  # it has just gone
        return Sample(record, now)
    memory, raw = found["memory"], found["memory"]["raw"]
    usage = memory["usage"].get("usage", 0)
    idle = raw.get("total_inactive_file", raw.get("inactive_file", 0))
    limit = memory["usage"]["limit"]
    read, written = (_block(found["blkio"], op) for op in ("read", "write"))
    uncounted: tuple[str, ...] = () if "usage" in memory["usage"] else ("MemUsage", "MemPerc")
    uncounted += () if "current" in found["pids"] else ("PIDs",)
    uncounted += () if _counts_blocks(cgroup) else ("BlockIO",)
    return Sample(
        record, now, uncounted, found["cpu"]["usage"].get("total", 0), max(0, usage - idle),
        limit if 0 < limit < _HUGE else _machine(), found["pids"].get("current", 0),
        received, sent, read, written,
    )  # fmt: skip


def _counts_blocks(cgroup: CgroupRecord) -> bool:
    """Return True if a controller counts block I/O: without any the file is there, and empty."""
    if cgroup["version"] == 1:
        return "blkio" in cgroup["dirs"]
    return os.path.exists(f"{cgroup['dirs']['']}/io.stat")


def _block(blkio: dict[str, Any], op: str) -> int:
    rows = blkio.get("ioServiceBytesRecursive", ())
    return sum(row["value"] for row in rows if row["op"].lower() == op)


def _machine() -> int:
    """Return the bytes of memory that this machine has: /proc/meminfo."""
    for line in state.read_text("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _network(pid: int) -> tuple[int, int]:
    """Return the bytes that came in and went out; none of a container in the host's namespace."""
    received = sent = 0
    try:
        if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
            return 0, 0
        lines = state.read_text(f"/proc/{pid}/net/dev").splitlines()[2:]
    except (OSError, ValueError):
        return 0, 0
    for line in lines:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        if name.strip() != "lo":
            received, sent = received + int(fields[0]), sent + int(fields[8])
    return received, sent


def rows(before: list[Sample], after: list[Sample]) -> list[Fields]:
    """Return a row for each container of the later look: the fields of docker's `stats`."""
    earlier = {one.record.directory: one for one in before}
    gpus = _gpus(after)
    return [_row(earlier.get(one.record.directory, one), one, gpus) for one in after]


def _row(old: Sample, new: Sample, gpus: dict[str, str] | None) -> Fields:
    record = new.record
    length = new.at - old.at
    cpu = 100 * max(0, new.cpu - old.cpu) / length if length > 0 else 0.0
    share = 100 * new.memory / new.limit if new.limit else 0.0
    found = Fields(
        Container=record.id, ID=state.short(record.id), Name=state.shown_name(record.directory),
        CPUPerc=f"{cpu:.2f}%",
        MemUsage=f"{human_binary(new.memory)} / {human_binary(new.limit)}",
        MemPerc=f"{share:.2f}%", NetIO=f"{human(new.received)} / {human(new.sent)}",
        BlockIO=f"{human(new.read)} / {human(new.written)}", PIDs=str(new.pids),
    )  # fmt: skip
    found |= {name: _NOT_COUNTED.get(name, "--") for name in new.uncounted}
    if gpus is not None:
        found["GPU"] = gpus.get(record.directory, "-")
    return found


def _gpus(found: list[Sample]) -> dict[str, str] | None:
    """Return the container's directory → what its GPUs do; None if NVML sees no driver.

    A GPU's use is that of all its processes: two containers that share one show the same.
    """
    if not _has_driver():
        return None
    try:
        answer = nvml.ask(lambda: lazy.load("pynvml"), _work)
    except GPUError:
        return None
    result: dict[str, str] = {}
    for one in found:
        try:
            given = edits_of(one.record)
        except (MinirunError, OSError, ValueError):
            continue
        own = [answer["gpus"][gpu.uuid] for gpu in given.gpus if gpu.uuid in answer["gpus"]]
        if own and not given.simulated:
            busy = max(use for use, _, _ in own)
            used, total = (sum(row[place] for row in own) for place in (1, 2))
            result[one.record.directory] = f"{busy}%, {human_binary(used)} / {human_binary(total)}"
    return result


def _has_driver() -> bool:
    """Return True if NVIDIA's driver is loaded, or this is WSL 2, which has Windows' own."""
    return os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/dxg")


def _work(library: Any) -> dict[str, Any]:
    """Ask NVML, in a child without privileges: uuid → percent, bytes in use, bytes."""
    library.nvmlInit()
    found = {}
    for number in range(library.nvmlDeviceGetCount()):
        gpu = library.nvmlDeviceGetHandleByIndex(number)
        memory = library.nvmlDeviceGetMemoryInfo(gpu)
        busy = library.nvmlDeviceGetUtilizationRates(gpu).gpu
        found[library.nvmlDeviceGetUUID(gpu)] = [busy, memory.used, memory.total]
    return {"gpus": found}
