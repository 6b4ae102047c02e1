"""`minirun ps`, `logs` and `events`: which containers there are, and what they do and say.

`ps` lists containers, as docker's does; those of every state root in use (minirun.engines.roots),
so that a container that an engine has made is found too, unless --root names one. `ps ID` prints
one container's processes, as runc has it: engines read --format json, a list of pids on the host.

`events` shows the logs of all containers as they grow; `events ID` is runc's: one JSON line each
--interval, {"type":"stats",…}, and one each time the kernel was out of memory for the container,
{"type":"oom",…}, until it ends; with --stats one line, and no more.
"""

from __future__ import annotations

import os
import select
import time
from datetime import datetime

from minirun.cgroups import cgroup_of
from minirun.cgroups.oom import OomNotice
from minirun.cgroups.stats import stats
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.cli.words import duration
from minirun.core.container import Container
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import clean
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.running import listing, lookup
from minirun.running.output_reader import OutputReader
from minirun.show.text import table

with lazy:
    from minirun.net import leases, ports
    from minirun.running import processes  # subprocess: 10 ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from minirun.core.keeping.container_record import ContainerRecord

COLUMNS = ("CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "GPUS", "PORTS", "ENGINE")
FORMATS = ("table", "json")
_TICK = 0.1
"""Seconds between two reads of the logs."""


class Ps(Flags):
    """List containers, or the processes of one, with the options of ps(1)."""

    command, mixed = "ps", False
    all: bool = flag("-a")
    quiet: bool = flag("-q")
    format: str = flag("-f", default="table")


class Logs(Flags):
    """Print what a container has written."""

    command = "logs"
    follow: bool = flag("-f")
    timestamps: bool = flag("-t")
    tail: str = flag("-n")


class Events(Flags):
    """Show a state root's logs as they grow; with an id, what the container uses, as runc does."""

    command = "events"
    interval: str = flag(default="5s")
    stats: bool


def main_ps(args: list[str], settings: Settings) -> int:
    """List containers, or with an id its processes."""
    flags = Ps(args)
    flags.check("format", *FORMATS)
    if flags.args:
        flags.refuse_flags({"all", "quiet"}, "with an id", "ps ID -o pid prints the pids alone")
        return _processes(flags, settings)
    found = [record for root in roots.known(settings) for record in listing.records(root)]
    shown = [record for record in found if flags.all or record.status != state.STOPPED]
    if flags.quiet:
        return show(record.id for record in shown)
    if flags.format == "json":
        return write(jsonlite.dumps([state.public(record) for record in shown]) + "\n")
    rows = [COLUMNS, *(_row(record, settings.store) for record in shown)]
    if not any(record.origin for record in shown):
        rows = [row[:-1] for row in rows]
    return write(table.text(rows, 3))


def _row(record: ContainerRecord, store: str) -> tuple[str, ...]:
    command = clean(" ".join(record.args or []))
    short = command if len(command) <= 30 else command[:27] + "..."
    asked = record.origin or {}
    return (
        roots.short(record.id), clean(record.image or asked.get("image") or "-"),
        f'"{short}"' if command else "-", f"{age(record.created)} ago", _status(record),
        clean(record.gpus or "-"), _ports(record, store), clean(asked.get("engine", "-")),
    )  # fmt: skip


def _ports(record: ContainerRecord, store: str) -> str:
    """Return the published ports, as docker has them."""
    if not record.network or record.status == state.STOPPED:
        return "-"
    return ", ".join(ports.shown(leases.published(store, record))) or "-"


def _status(record: ContainerRecord) -> str:
    status = record.status
    if status == state.RUNNING:
        return f"Up {age(record.created)}"
    if status == state.STOPPED and record.exit_status is not None and record.finished:
        return f"Exited ({record.exit_status}) {age(record.finished)} ago"
    return status.capitalize()


def age(stamp: str) -> str:
    """Return how long ago a time stamp of ours is: 5 seconds, 3 minutes, 2 hours, 4 days."""
    then = datetime.fromisoformat(stamp[:19] + "+00:00").timestamp()
    seconds = max(0, int(time.time() - then))
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return "1 second" if seconds == 1 else f"{seconds} seconds"


def _processes(flags: Ps, settings: Settings) -> int:
    """Print the processes of a container. Raises MinirunError, OSError."""
    container = lookup.load(*roots.locate(settings, flags.args[0]))
    options = _options(flags)
    pids = cgroup_of(container).processes() if cgroup_of(container).exists() else []
    if flags.format == "json":
        return write(jsonlite.dumps(pids) + "\n")
    return show(processes.table(pids, options))


def _options(flags: Ps) -> list[str]:
    """Return ps's options; --format and `-f json` may stand behind the id too."""
    rest = flags.args[1:]
    options = []
    while rest:
        word = rest.pop(0)
        if word.startswith("--format="):
            flags.format = word.partition("=")[2]
        elif word == "--format" or (word == "-f" and rest and rest[0] in FORMATS):
            flags.format = rest.pop(0) if rest else ""
        else:
            options.append(word)
    flags.check("format", *FORMATS)
    return options


def main_logs(args: list[str], settings: Settings) -> int:
    """Print a container's output: its stdout on ours, its stderr on ours."""
    flags = Logs(args)
    if len(flags.args) != 1:
        flags.refuse()
    tail = None if flags.tail in ("", "all", "-1") else flags.tail
    if tail and not (tail.isascii() and tail.isdigit()):
        raise UsageError(f"invalid --tail {tail!r}", "a number of lines, or all", 1)
    place, container_id = roots.locate(settings, flags.args[0], only_made_up=True)
    record = state.load(place.root, container_id)
    reader = OutputReader(record.directory, flags.timestamps)
    reader.show(int(tail) if tail else None)
    while flags.follow:
        ended = _has_ended(place.root, container_id)
        reader.show()
        if ended:
            break
        time.sleep(0.05)
    return 0


def _has_ended(root: str, container_id: str) -> bool:
    """Return True if a container writes no more, and its supervisor has kept all that it wrote."""
    try:
        record = state.load(root, container_id)
    except StateError:  # it has been deleted: --rm
        return True
    kept = record.exit_status is not None or not state.is_alive(record.supervisor)
    return record.status == state.STOPPED and kept


def main_events(args: list[str], settings: Settings) -> int:
    """Follow all logs, or one container's use. Raises MinirunError, OSError."""
    flags = Events(args)
    interval = duration(flags.interval)
    if not flags.args:
        _follow(settings.root)
    container = lookup.load(settings, flags.one_id())
    if container.record.status == state.STOPPED:
        raise StateError(f"container with id {container.id} is not running")
    if flags.stats:
        _print_event(container, "stats")
        return 0
    return _watch_use(container, interval)


def _follow(root: str) -> NoReturn:
    """Print every line that is written to a container's log from now on.

    A log is held open, so the end of a container that is deleted while it is read is shown too.
    """
    logs: dict[str, int] = {}
    first = True
    while True:
        for name in state.names(root):
            if name not in logs:
                path = f"{root}/{name}/{places.EVENTS}"
                try:
                    logs[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError:
                    continue
                if first:
                    os.lseek(logs[name], 0, os.SEEK_END)
        first = False
        for name, fd in list(logs.items()):
            while data := os.read(fd, 1 << 16):
                os.write(1, data)
            if not os.path.exists(f"{root}/{name}"):
                os.close(logs.pop(name))
        time.sleep(_TICK)


def _print_event(container: Container, kind: str) -> None:
    event: dict[str, Any] = {"type": kind, "id": container.id}
    if kind == "stats":
        event["data"] = stats(cgroup_of(container).record())
    os.write(1, jsonlite.dumps(event).encode() + b"\n")


def _watch_use(container: Container, interval: float) -> int:
    """Print until the container's init has ended."""
    try:
        pidfd = os.pidfd_open(container.record.first_process()["pid"])
    except ProcessLookupError:
        return 0
    memory = OomNotice(cgroup_of(container).record())
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if memory.fd >= 0:
        poll.register(memory.fd, memory.wanted)
    due = time.monotonic() + interval
    while True:
        left = max(0.0, due - time.monotonic())
        ready = [fd for fd, _ in poll.poll(int(left * 1000) + 1)]
        for _ in range(memory.times() if memory.fd in ready else 0):
            _print_event(container, "oom")
        if pidfd in ready:
            return 0
        if time.monotonic() >= due:
            _print_event(container, "stats")
            due += interval
