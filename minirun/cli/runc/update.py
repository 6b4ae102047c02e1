"""`minirun update`: other limits, and another restart policy, for containers that are there.

It has runc's flags, and runc's JSON, which is config.json's linux.resources (runtime-spec,
config-linux.md): docker and podman write it to a file, containerd to standard input. Device rules
in it are passed over, as runc does: what stage 5 has allowed stays.

The exit status of an error is 1, as runc's and dockerd's are. docker's client reads the values of
flags before, and ends with 125: so it is here with a flag of docker's alone, or a container of
`run IMAGE`.
"""

from __future__ import annotations

import sys

from minirun.cgroups import cgroup_of
from minirun.cli import as_runc, either
from minirun.cli.flags import Flags, flag, name_of
from minirun.cli.output import show
from minirun.cli.several import each
from minirun.cli.words import size
from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.errors import ConfigError, StateError, UsageError
from minirun.core.keeping import field_types, jsonlite, state
from minirun.core.keeping.numbers import LARGEST, whole
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.oci import validate
from minirun.running import lookup, shelves

with lazy:
    from minirun.cli.run import properties, run_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_DOCKERS = frozenset(("cpus", "cpu_shares", "restart"))


class Update(Flags):
    """Change the limits of a container."""

    command, wrong = "update", 1
    resources: str = flag("-r")
    blkio_weight: str
    cpu_period: str
    cpu_quota: str
    cpu_burst: str
    cpu_share: str
    cpu_rt_period: str
    cpu_rt_runtime: str
    cpu_idle: str
    cpuset_cpus: str
    cpuset_mems: str
    memory: str = flag("-m")
    memory_reservation: str
    memory_swap: str
    kernel_memory: str
    kernel_memory_tcp: str
    pids_limit: str
    cpu_shares: str = flag("-c")
    cpus: str
    restart: str
    l3_cache_schema: str
    mem_bw_schema: str


def main(args: list[str], settings: Settings) -> int:
    """Change containers; of docker's, the names are printed. Raises MinirunError, OSError."""
    flags = Update(args)
    if flags.resources:
        return as_runc(lambda: _change(flags, _resources_of_file(flags.resources), settings))
    names = flags.args
    is_dockers = bool(flags.given & _DOCKERS) or len(names) > 1
    if is_dockers or (names and either.is_dockers(settings, names[0])):
        changes = _resources(flags)
        return as_runc(lambda: _change(flags, changes, settings))
    return as_runc(lambda: _change(flags, _resources(flags), settings))


def _change(flags: Update, changes: dict[str, Any], settings: Settings) -> int:
    if flags.restart:
        shelves.check_restart(flags.restart)
    if not flags.args:
        flags.one_id()  # runc's words
    if len(flags.args) == 1:
        name = flags.args[0]
        _update(_find(settings, name), flags, changes, lambda: show([name]))
        return 0
    return each(flags.args, lambda name: _update(_find(settings, name), flags, changes))


def _find(settings: Settings, name: str) -> Container:
    return lookup.load(*roots.locate(settings, name, only_made_up=True), whole=True)


def _update(
    container: Container, flags: Update, changes: dict[str, Any],
    say: Callable[[], object] | None = None,
) -> None:  # fmt: skip
    """Change one container; `say` prints the name of docker's. Raises MinirunError, OSError."""
    record, docker = container.record, docker_record.of(container.record)
    if docker.managed and not flags.given:
        text = "you must provide one or more flags when using this command"
        raise UsageError(text, "such as --memory 512m, --cpus 1.5, --restart no", 1)
    if flags.restart and docker.auto_remove:
        raise StateError(f"{container.name} is removed at its end (--rm)", "leave --restart out", 1)
    if record.status == state.CREATING or (record.status == state.STOPPED and not docker.managed):
        raise StateError("container not running", f"it is {record.status}")
    merged = validate.resources(merge(record.resources or container.config.resources, changes))
    _check_recordable(merged)
    if flags.restart:
        record = docker_record.put(record, docker._replace(restart=_policy(flags.restart)))
    if changes:
        record = record._replace(resources=merged)
    if changes and record.status != state.STOPPED:
        names = merged if cgroup_of(container).takes_all_limits else changes
        cgroup_of(container).set_resources({name: merged[name] for name in names})
        record = record._replace(cgroup=cgroup_of(container).record())
    container.save(record)
    if say and docker.managed:
        say()


def _policy(text: str) -> str:
    """Return what the record says for --restart."""
    return "" if text == "no" else text


def _check_recordable(resources: dict[str, Any]) -> None:
    """Raise ConfigError for what a record that holds it could not be read back with."""
    try:
        field_types.check_plain({"resources": resources})
    except ValueError as error:
        raise ConfigError(f"linux.resources: {error}") from None


def merge(limits: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return linux.resources with `changes`: some files need to know others' values (swap, quota).

    Memory without limit takes the limit of memory and swap away too, unless `changes` names that.
    """
    merged = dict(limits)
    for section, values in changes.items():
        old = limits.get(section)
        merged[section] = {**old, **values} if isinstance(old, dict) else values
    memory = changes.get("memory") or {}
    if memory.get("limit") == -1 and "swap" not in memory:
        merged["memory"]["swap"] = -1
    return merged


def _resources_of_file(path: str) -> dict[str, Any]:
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


def _set(value: Any) -> Any:
    """Leave out members that are empty or, except cpu.idle and burst, 0: they stay as they are."""
    if not isinstance(value, dict):
        return value
    return {name: v for name, v in value.items() if v or name in ("idle", "burst")}


def _resources(flags: Update) -> dict[str, Any]:
    """Return linux.resources as the flags have it. Raises UsageError."""
    if flags.l3_cache_schema or flags.mem_bw_schema:
        raise UsageError("Intel RDT is not supported", "leave --l3-cache-schema, --mem-bw-schema")
    if flags.kernel_memory or flags.kernel_memory_tcp:
        warn("--kernel-memory is passed over: the kernel has no such limit any more")
    found: dict[str, Any] = {"cpu": properties.cpus("--cpus", flags.cpus)} if flags.cpus else {}
    for key, path in _paths().items():
        if text := getattr(flags, key):
            section, _, member = path.partition(".")
            read = _size if section == "memory" else _text if path in _TEXTS else _number
            found.setdefault(section, {})[member] = read(name_of(key), text)
    pids = {"pids": found.pop("pids")} if "pids" in found else {}  # 0: docker's word for no limit
    return {name: set_ for name, value in found.items() if (set_ := _set(value))} | pids


def _number(flag: str, text: str) -> int:
    number = whole(text, -LARGEST)
    if number is None:
        raise UsageError(f"invalid value {text!r} for {flag}: a whole number is needed")
    return number


def _size(flag: str, text: str) -> int:
    return -1 if text == "-1" else size(text)


def _text(flag: str, text: str) -> str:
    return text


_MORE = {
    "cpu_share": "cpu.shares", "cpu_burst": "cpu.burst", "cpu_idle": "cpu.idle",
    "pids_limit": "pids.limit",
}  # fmt: skip
"""runc's own flags, and one of which `run` makes more than a number: their path in
linux.resources."""
_TEXTS = ("cpu.cpus", "cpu.mems")


def _paths() -> dict[str, str]:
    """Return flag → its path in linux.resources: `run` has most of these flags."""
    paths = {
        key: one.path.removeprefix("linux.resources.")
        for key, one in run_flags.PROPERTIES.items()
        if key in Update.__annotations__ and one.path.count(".") == 3
    }
    return paths | _MORE
