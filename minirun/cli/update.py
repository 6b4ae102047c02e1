"""`minirun update`: new limits for a container that runs.

runc's flags and its JSON, which is config.json's linux.resources (runtime-spec, config-linux.md).
docker and podman write it to a file, containerd to standard input. Device rules in it are passed
over, as runc does: what stage 5 has allowed stays.
"""

import sys

from minirun.cli import run_options
from minirun.cli.flags import HELP, Flag, Parsed, one_id, parse, show_help
from minirun.core import jsonlite, state
from minirun.core.errors import ConfigError, StateError, UsageError
from minirun.core.settings import Settings
from minirun.oci import validate
from minirun.running import existing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = (
    Flag(("-r", "--resources"), "FILE", "linux.resources as JSON; - is standard input"),
    Flag(("--blkio-weight",), "N", "share of block I/O, 10 to 1000"),
    Flag(("--cpu-period",), "USEC", "the period in which --cpu-quota is counted"),
    Flag(("--cpu-quota",), "USEC", "CPU time allowed in each period; -1 for no limit"),
    Flag(("--cpu-burst",), "USEC", "CPU time that may be saved up for later periods"),
    Flag(("--cpu-share",), "N", "share of CPU time, relative to others: 1024 is the default"),
    Flag(("--cpu-rt-period",), "USEC", "the period in which --cpu-rt-runtime is counted"),
    Flag(("--cpu-rt-runtime",), "USEC", "realtime CPU time allowed in each period"),
    Flag(("--cpu-idle",), "0|1", "1: run only where nobody else wants to (SCHED_IDLE)"),
    Flag(("--cpuset-cpus",), "LIST", "the CPUs to run on, such as 0-2,7"),
    Flag(("--cpuset-mems",), "LIST", "the memory nodes to use"),
    Flag(("--memory",), "SIZE", "memory limit: bytes, or with b, k, m, g; -1 for none"),
    Flag(("--memory-reservation",), "SIZE", "what is left to it when memory is short"),
    Flag(("--memory-swap",), "SIZE", "limit of memory and swap together; -1 for none"),
    Flag(("--pids-limit",), "N", "limit of processes; -1 for none"),
    Flag(("--l3-cache-schema",), "TEXT", "refused: Intel RDT is not supported"),
    Flag(("--mem-bw-schema",), "TEXT", "refused: Intel RDT is not supported"),
    HELP,
)
_NUMBERS = {
    "blkio_weight": "blockIO.weight", "cpu_period": "cpu.period", "cpu_quota": "cpu.quota",
    "cpu_burst": "cpu.burst", "cpu_share": "cpu.shares", "cpu_rt_period": "cpu.realtimePeriod",
    "cpu_rt_runtime": "cpu.realtimeRuntime", "cpu_idle": "cpu.idle", "pids_limit": "pids.limit",
}  # fmt: skip
_TEXTS = {"cpuset_cpus": "cpu.cpus", "cpuset_mems": "cpu.mems"}
_SIZES = {
    "memory": "memory.limit", "memory_reservation": "memory.reservation",
    "memory_swap": "memory.swap",
}  # fmt: skip


def main(args: "list[str]", settings: Settings) -> int:
    """Change the limits of a container. Raises MinirunError, OSError."""
    flags = parse("update", FLAGS, args, mixed=True)
    if flags.help:
        return show_help("update", "ID", "Change the limits of a container.", FLAGS)
    container = existing.load(settings, one_id("update", flags))
    wanted = _from_file(flags.resources) if flags.resources else _from_flags(flags)
    if container.record["status"] in (state.STOPPED, state.CREATING):
        raise StateError("container not running", f"it is {container.record['status']}")
    limits = container.record.get("resources") or container.config.resources
    merged = merge(limits, wanted)
    names = merged if container.cgroup.takes_all_limits else wanted
    container.cgroup.set_resources({name: merged[name] for name in names})
    container.save(resources=merged, cgroup=container.cgroup.record())
    return 0


def _from_file(path: str) -> "dict[str, Any]":
    """Read linux.resources. Raises ConfigError with the path of what is wrong in it, OSError."""
    try:
        text = sys.stdin.read() if path == "-" else state.read_text(path)
        raw = jsonlite.loads(text)
    except ValueError as error:
        where = "standard input" if path == "-" else path
        raise ConfigError(f"{where}: not JSON: {error}") from None
    checked = validate.resources(raw)
    checked.pop("devices", None)
    if not (checked.get("pids") or {}).get("limit"):
        checked.pop("pids", None)  # a 0 of engines older than version 1.3 of the spec: unchanged
    return {name: _set(value) for name, value in checked.items() if _set(value)}


def _set(value: "Any") -> "Any":
    """Leave out members that are empty or, but for cpu.idle and burst, 0: they stay as they are."""
    if not isinstance(value, dict):
        return value
    return {name: v for name, v in value.items() if v or name in ("idle", "burst")}


def _from_flags(flags: Parsed) -> "dict[str, Any]":
    """Return linux.resources as the flags have it. Raises UsageError."""
    if flags.l3_cache_schema or flags.mem_bw_schema:
        raise UsageError("Intel RDT is not supported", "leave --l3-cache-schema, --mem-bw-schema")
    found: dict[str, Any] = {}
    for key, name in (_NUMBERS | _TEXTS | _SIZES).items():
        text: str = getattr(flags, key)
        if not text:
            continue
        section, _, member = name.partition(".")
        read = _number if key in _NUMBERS else _size if key in _SIZES else _plain
        found.setdefault(section, {})[member] = read(f"--{key.replace('_', '-')}", text)
    return found


def _number(flag: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise UsageError(f"invalid value {text!r} for {flag}: a whole number is needed")
    return int(text)


def _size(flag: str, text: str) -> int:
    return -1 if text == "-1" else run_options.size(text)


def _plain(flag: str, text: str) -> str:
    return text


def merge(limits: "dict[str, Any]", wanted: "dict[str, Any]") -> "dict[str, Any]":
    """Return `limits` with what is `wanted`: some files need to know others' values (swap, quota).

    Memory without limit takes the limit of memory and swap away too, unless that is named.
    """
    merged = dict(limits)
    for section, values in wanted.items():
        old = limits.get(section)
        merged[section] = {**old, **values} if isinstance(old, dict) else values
    memory = wanted.get("memory") or {}
    if memory.get("limit") == -1 and "swap" not in memory:
        merged["memory"]["swap"] = -1
    return merged
