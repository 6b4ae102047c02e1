"""What the flags of run_flags.PROPERTIES say becomes properties of config.json.

Each reader takes the flag's name and its value (all of them, if the flag may stand
more than once), and returns what is put at the row's path: minirun.oci.run_config.put. None takes
away what is there.
All raise UsageError, which names the flag, the value and what would be right.

What the real stack does: docker's client reads some of the values, dockerd checks them all; the
messages are theirs where there is one.
"""

from __future__ import annotations

import os
import stat

from minirun.cli.run.run_flags import (
    HEALTH_FLAGS,
    PROPERTIES,
    ConfigFlags,
    CreateFlags,
    is_cdi_name,
)
from minirun.cli.words import size as bytes_of
from minirun.common.docker_record import HealthCheck
from minirun.common.quantities import decimal, listed, nanoseconds
from minirun.core.errors import UsageError, reason
from minirun.core.keeping.numbers import LARGEST, whole
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy

with lazy:
    from minirun.cgroups import hierarchies
    from minirun.oci.tuning import sysctl
    from minirun.running import joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from minirun.oci.run_config import RunOptions

_ULIMITS = (
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc",
    "rss", "rtprio", "rttime", "sigpending", "stack",
)  # fmt: skip
_SWAP = "linux.resources.memory.swap"
_LEAST_MEMORY = 6 << 20
_UNLIMITED = (1 << 64) - 1
_OWN_FOLDERS = ("pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev")
_DEVICE = "--device /dev/x[:/dev/y[:rwm]]"
_RULE = "--device-cgroup-rule 'c 189:* rwm': a, b or c, MAJOR:MINOR or *, and r, w, m"


def add(run: RunOptions, flags: ConfigFlags, settings: Settings) -> RunOptions:
    """Return the options with the properties of config.json that the flags are for."""
    found = {}
    for key, row in PROPERTIES.items():
        if key in flags.given:
            found[row.path] = globals()[row.read](row.names[0], flags.value(key))
    _check_together(flags, found)
    limit = found.get("linux.resources.memory.limit")
    if limit and not found.get(_SWAP) and hierarchies.counts_swap():
        found[_SWAP] = 2 * limit  # docker's default: as much swap as memory
    for path, value in found.items():
        if isinstance(value, dict) and str(value.get("path")).startswith("container:"):
            kind = path.rpartition("=")[2]
            other = joined.running(value["path"], settings, kind)
            found[path] = {"path": joined.path(other, kind)}
            run = run._replace(joined=run.joined | {kind: other.id})
    return run._replace(properties=(*run.properties, *found.items()))


def _check_together(flags: ConfigFlags, found: dict[str, Any]) -> None:
    """Raise UsageError, in dockerd's words, for flags that contradict each other."""
    memory = "linux.resources.memory."
    limit, swap = found.get(f"{memory}limit"), found.get(_SWAP)
    if swap and not limit:
        raise UsageError("--memory-swap: it counts memory and swap together", "with --memory SIZE")
    if limit and swap and 0 <= swap < limit:
        text = "--memory-swap is less than --memory: it counts memory and swap together"
        raise UsageError(text, "at least as much as --memory, or -1 for no limit of swap")
    if limit and limit < (found.get(f"{memory}reservation") or 0):
        raise UsageError("--memory-reservation is above --memory", "at most as much")
    parts = sorted(flags.given & {"cpu_quota", "cpu_period"})
    if "cpus" in flags.given and parts:
        name = parts[0].replace("_", "-")
        raise UsageError(f"--cpus and --{name}: conflicting options", "one of them")
    if flags.hostname and flags.value("uts") == "host":
        raise UsageError("--hostname and --uts host: conflicting options", "one of them")
    for name in found.get("linux.sysctl") or ():
        kind = next(kind for prefix, kind in sysctl.NAMESPACED if name.startswith(prefix))
        shared = {"network": "host" in flags.network, "ipc": flags.ipc == "host"}
        shared["uts"] = flags.value("uts") == "host"
        if shared.get(kind):
            raise UsageError(f"--sysctl {name} is the host's with --{kind} host", "leave one out")


_TIMES = {
    "health_interval": "Interval", "health_timeout": "Timeout",
    "health_start_period": "StartPeriod", "health_start_interval": "StartInterval",
}  # fmt: skip
"""Flag → docker's name of what it sets."""


def health(flags: CreateFlags, of_image: HealthCheck | None) -> HealthCheck | None:
    """Return how the container's health is checked: minirun.docker.health. Raises UsageError."""
    given = sorted(flags.given & HEALTH_FLAGS - {"no_healthcheck"})
    if flags.no_healthcheck:
        if given:
            name = given[0].replace("_", "-")
            raise UsageError(f"--no-healthcheck and --{name}: conflicting options", "one of them")
        return None
    found = of_image or HealthCheck()
    if flags.health_cmd:
        found = found._replace(Test=["CMD-SHELL", flags.health_cmd])
    if not found.Test:
        name = given[0].replace("_", "-")
        raise UsageError(f"--{name}: there is no check, of the image or by --health-cmd")
    more: dict[str, Any] = {}
    for key, name in _TIMES.items():
        if text := getattr(flags, key):
            more[name] = _nanoseconds(f"--{key.replace('_', '-')}", text)
    if flags.health_retries:
        right = "a whole number from 1 up"
        more["Retries"] = _whole("--health-retries", flags.health_retries, 1, 10**6, right)
    return found._replace(**more)


def _nanoseconds(flag: str, text: str) -> int:
    length = nanoseconds(text)
    if length is None or length <= 0:
        raise _invalid(flag, text, "such as 5s, 500ms or 1m30s")
    return length


def _invalid(flag: str, text: str, right: str) -> UsageError:
    return UsageError(f"invalid {flag} {text!r}", right)


def _whole(flag: str, text: str, least: int, most: int, right: str) -> int:
    found = whole(text, least, most)
    if found is None:
        raise _invalid(flag, text, right)
    return found


def number(flag: str, text: str) -> int:
    """A whole number from 0 up."""
    return _whole(flag, text, 0, LARGEST, "a whole number")


def size(flag: str, text: str) -> int:
    """A size in bytes: 512m."""
    try:
        return bytes_of(text)
    except UsageError:
        raise _invalid(flag, text, "bytes, or a number with b, k, m or g") from None


def memory(flag: str, text: str) -> int:
    """A size in bytes, from 6 MiB up: with less, docker starts no container."""
    found = size(flag, text)
    if found < _LEAST_MEMORY:
        raise _invalid(flag, text, "6m or more")
    return found


def size_or_none(flag: str, text: str) -> int:
    """A size in bytes, or -1 for none."""
    return -1 if text == "-1" else size(flag, text)


def swappiness(flag: str, text: str) -> int | None:
    """From 0 to 100; -1 is docker's word for the kernel's own."""
    return None if text == "-1" else _whole(flag, text, 0, 100, "a whole number from 0 to 100")


def switch(_flag: str, value: bool) -> bool | None:
    """A switch that is on, or nothing."""
    return value or None


def oom_score(flag: str, text: str) -> int:
    """From -1000, never, to 1000, first."""
    return _whole(flag, text, -1000, 1000, "a whole number from -1000 to 1000")


def cpus(flag: str, text: str) -> dict[str, int]:
    """Such as 1.5: what is used of each period of 100 ms; 0 is docker's word for as it is."""
    if text == "0":
        return {}
    number, most = decimal(text), len(os.sched_getaffinity(0))
    if number is None or not 0.01 <= number <= most:
        raise _invalid(flag, text, f"a number of CPUs from 0.01 to {most}, which there are")
    return {"period": 100_000, "quota": round(number * 100_000)}


def shares(flag: str, text: str) -> int | None:
    """From 2 to 262144, the kernel's bounds; 0 is docker's word for the usual."""
    right = "a whole number from 2 to 262144"
    return None if text == "0" else _whole(flag, text, 2, 262144, right)


def period(flag: str, text: str) -> int | None:
    """From 1 ms to 1 s; 0 is docker's word for the usual."""
    right = "microseconds, from 1000 to 1000000"
    return None if text == "0" else _whole(flag, text, 1000, 1_000_000, right)


def quota(flag: str, text: str) -> int | None:
    """From 1 ms up; 0 and -1 are none."""
    if text in ("0", "-1"):
        return None
    return _whole(flag, text, 1000, 1 << 60, "microseconds from 1000 up, or -1 for no limit")


def cpuset(flag: str, text: str) -> str:
    """A list of numbers and ranges: 0-3,5."""
    if listed(text) is None:
        raise _invalid(flag, text, "numbers and ranges, the smaller first, such as 0-3,5")
    return text


def pids(flag: str, text: str) -> dict[str, int] | None:
    """A limit of processes; 0 and -1 are none."""
    if text in ("0", "-1"):
        return None
    return {"limit": _whole(flag, text, 1, 10**9 - 1, "a whole number; 0 or -1 for no limit")}


def weight(flag: str, text: str) -> int | None:
    """From 10 to 1000; 0 is none."""
    right = "a whole number from 10 to 1000"
    return None if text == "0" else _whole(flag, text, 10, 1000, right)


def weights(flag: str, texts: list[str]) -> list[dict[str, int]]:
    """Weights of disks: /dev/sda:500."""
    return [{**disk, "weight": weight(flag, text) or 0} for disk, text in _of_disks(flag, texts)]


def bytes_per_second(flag: str, texts: list[str]) -> list[dict[str, int]]:
    """Rates of disks: /dev/sda:1mb."""
    return [{**disk, "rate": size(flag, text)} for disk, text in _of_disks(flag, texts)]


def requests_per_second(flag: str, texts: list[str]) -> list[dict[str, int]]:
    """Rates of disks: /dev/sda:1000."""
    return [{**disk, "rate": number(flag, text)} for disk, text in _of_disks(flag, texts)]


def _of_disks(flag: str, texts: list[str]) -> Iterator[tuple[dict[str, int], str]]:
    """Yield the number of each device node, and what stands behind the colon."""
    for text in texts:
        path, colon, value = text.rpartition(":")
        if not colon or not path.startswith("/dev/"):
            raise _invalid(flag, text, f"{flag} /dev/sda:VALUE")
        info = _stat(flag, path)
        if not stat.S_ISBLK(info.st_mode):
            raise _invalid(flag, text, f"{path} is no disk (block device)")
        yield {"major": os.major(info.st_rdev), "minor": os.minor(info.st_rdev)}, value


def _stat(flag: str, path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except (OSError, ValueError) as error:
        what = f'error gathering device information: "{path}": {reason(error)}'
        raise UsageError(f"{flag}: {what}") from None


def devices(flag: str, texts: list[str]) -> dict[str, Any]:
    """Nodes, and what the cgroup allows: linux.devices and linux.resources.devices."""
    nodes = [node for text in texts if not is_cdi_name(text) for node in _nodes(flag, text)]
    rows = [{k: v for k, v in node.items() if k != "access"} for node in nodes]
    return {"devices": rows, "resources": {"devices": [_rule(node) for node in nodes]}}


def _nodes(flag: str, text: str) -> list[dict[str, Any]]:
    """Return the node that a value of --device names, or those of a folder, as docker has it."""
    parts = text.split(":")
    source = parts[0]
    path = parts[1] if len(parts) > 1 and parts[1].startswith("/") else source
    access = parts[-1] if len(parts) > 1 and not parts[-1].startswith("/") else "rwm"
    if len(parts) > 3 or not access or set(access) - set("rwm"):
        raise _invalid(flag, text, _DEVICE)
    if not stat.S_ISDIR(_stat(flag, source).st_mode):
        node = device_node(source, path, access)
        if not node:
            raise _invalid(flag, text, f"{source} is not a device node")
        return [node]
    found = []
    for folder, _, names in os.walk(source):
        for name in sorted(names):
            there = f"{folder}/{name}"
            if os.path.islink(there):
                continue
            node = device_node(there, path + there.removeprefix(source), access)
            found += [node] if node else []
    if not found:
        raise _invalid(flag, text, f"{source} has no device node")
    return found


def devices_of_host() -> list[dict[str, Any]]:
    """Return all nodes of /dev as rows of linux.devices, but those that each container has its own.

    Which those are: libcontainer's GetDevices, of which docker makes --privileged.
    """
    found = []
    for folder, folders, names in os.walk("/dev"):
        if folder == "/dev":
            folders[:] = [name for name in folders if name not in _OWN_FOLDERS]
        for name in sorted(names):
            path = f"{folder}/{name}"
            node = None if path == "/dev/console" or os.path.islink(path) else device_node(path)
            if node:
                node.pop("access")
                found.append(node)
    return found


def device_node(source: str, path: str = "", access: str = "rwm") -> dict[str, Any] | None:
    """Return a row of linux.devices for a node of the host, and its access; None if it is none."""
    try:
        info = os.stat(source)
    except OSError:
        return None
    kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(info.st_mode))
    if kind is None:
        return None
    return {
        "type": kind, "path": path or source,
        "major": os.major(info.st_rdev), "minor": os.minor(info.st_rdev),
        "fileMode": stat.S_IMODE(info.st_mode), "uid": info.st_uid, "gid": info.st_gid,
        "access": access,
    }  # fmt: skip


def _rule(node: dict[str, Any]) -> dict[str, Any]:
    return {"allow": True, **{key: node[key] for key in ("type", "major", "minor", "access")}}


def device_rules(flag: str, texts: list[str]) -> list[dict[str, Any]]:
    """Rows of linux.resources.devices: 'c 189:* rwm'."""
    rows = []
    for text in texts:
        kind, numbers, access, *more = [*text.split(" "), "", ""]
        major, _, minor = numbers.partition(":")
        given = {key: whole(n) for key, n in (("major", major), ("minor", minor)) if n != "*"}
        are_right = None not in given.values()
        is_right = kind in ("a", "b", "c") and are_right and access and not any(more)
        if not is_right or set(access) - set("rwm") or len(access) > 3:
            raise _invalid(flag, text, _RULE)
        row = {"allow": True, "type": kind, "access": access}
        rows.append({**row, **given})
    return rows


def ulimits(flag: str, texts: list[str]) -> list[dict[str, Any]]:
    """Rows of process.rlimits; of two for one limit the later counts. -1 is no limit."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        words = value.split(":")
        if name not in _ULIMITS:
            raise UsageError(f"invalid {flag} type: {name!r}", ", ".join(_ULIMITS))
        limits = [_UNLIMITED if word == "-1" else whole(word, 0, _UNLIMITED) for word in words]
        soft, hard = limits[0], limits[-1]
        if len(words) > 2 or soft is None or hard is None:
            right = f"NAME=SOFT[:HARD], such as nofile=1024:2048, each at most {_UNLIMITED}"
            raise _invalid(flag, text, right)
        if soft > hard:
            raise _invalid(flag, text, "the soft limit is above the hard limit")
        found[name] = {"type": f"RLIMIT_{name.upper()}", "soft": soft, "hard": hard}
    return list(found.values())


def sysctls(flag: str, texts: list[str]) -> dict[str, str]:
    """Parameters that a namespace has for itself: net.core.somaxconn=1024."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise _invalid(flag, text, f"{flag} NAME=VALUE")
        if not any(name.startswith(prefix) for prefix, kind in sysctl.NAMESPACED if kind != "user"):
            right = "net.*, kernel.msg*, kernel.sem*, kernel.shm*, fs.mqueue.*, kernel.domainname"
            raise UsageError(f"{flag} {text!r} is not allowed: it is the whole host's", right)
        found[name] = value
    return found


def shm_size(flag: str, text: str) -> list[str]:
    """The option of the tmpfs at /dev/shm; 0 is docker's word for the usual."""
    count = size(flag, text)
    return [f"size={count}"] if count else []


def host_or_private(flag: str, text: str) -> dict[str, str] | None:
    """A namespace of its own, or the host's."""
    if text not in ("host", "private", ""):
        raise _invalid(flag, text, "host or private")
    return None if text == "host" else {}


def pid_mode(flag: str, text: str) -> dict[str, str] | None:
    """The host's pid namespace, or another container's."""
    if text == "host":
        return None
    if not text or text == "private":
        return {}
    if not text.startswith("container:") or text == "container:":
        raise _invalid(flag, text, "host, or container:ID")
    return {"path": text}
