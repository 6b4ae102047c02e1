"""`minirun events`: what happens to containers. Three forms, which the command line tells apart.

    events                          the logs of all containers, line by line, as they grow
    events --filter … --format …    docker's: create, start, die, destroy … of each container
    events ID                       runc's: a line of JSON each --interval, {"type":"stats",…}, and
                                    one each time the kernel was out of memory, {"type":"oom",…}

docker's are read from the same logs, and from what is kept of containers that are gone: the log's
first event is create, the command's execve start, a record's end die. minirun has no daemon, so
what no log has, such as `top`, is no event here.
"""

from __future__ import annotations

import os
import select
import time

from minirun.cgroups import cgroup_of
from minirun.cgroups.oom import OomNotice
from minirun.cgroups.stats import stats
from minirun.cli import as_runc, part
from minirun.cli.flags import Flags, flag
from minirun.cli.words import duration
from minirun.core.container import Container
from minirun.core.errors import StateError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.running import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_TICK = 0.1
"""Seconds between two reads of the logs."""
_OF_DOCKER = {"filter", "format", "since", "until"}


class Events(Flags):
    """Show a state root's logs as they grow; with an id, what the container uses, as runc does."""

    command = "events"
    filter: list[str] = flag("-f")
    format: str
    interval: str = flag(default="5s")
    since: str
    stats: bool
    until: str


def main_events(args: list[str], settings: Settings) -> int:
    """Follow all logs, or one container's use. Raises MinirunError, OSError."""
    flags = Events(args)
    if flags.given & _OF_DOCKER:
        flags.none()
        form, since, until = flags.format, flags.since, flags.until
        follow = part("minirun.docker.docker_events", "follow")
        return int(follow(settings, flags.filter, form, since, until))
    return as_runc(lambda: _events(flags, settings))


def _events(flags: Events, settings: Settings) -> int:
    interval = duration(flags.interval)
    if not flags.args:
        _follow(settings.root)
    container = lookup.load(settings, roots.own(settings, flags.one_id()))
    if container.record.status == state.STOPPED:
        raise StateError(f"container with id {container.name} is not running")
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
