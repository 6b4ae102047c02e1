"""`minirun events` shows the log of all containers as it grows; `events ID` is runc's.

runc's `events ID` prints one JSON line each --interval, {"type":"stats",…}, and one for each time
the kernel was out of memory for the container, {"type":"oom",…}, until the container ends; with
--stats one line, and no more. How the kernel tells: version 1 writes to an eventfd that is given
to cgroup.event_control (memory.rst, "OOM Control"), version 2 makes memory.events readable for
poll(2) as an exception (cgroup-v2.rst, "[un]populated Notification").
"""

import os
import select
import sys
import time

from minirun.cgroups.stats import stats
from minirun.cli.flags import HELP, Flag, one_id, parse, usage
from minirun.core import jsonlite, places, state
from minirun.core.container import Container
from minirun.core.errors import StateError, UsageError
from minirun.core.settings import Settings
from minirun.running import existing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FLAGS = (
    Flag(("--interval",), "TIME", "how often to print what it uses: 5s, 500ms", default="5s"),
    Flag(("--stats",), "", "print what it uses once, and exit"),
    HELP,
)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_LOOK = 0.1
"""Seconds between two looks for new lines."""


def main(args: "list[str]", settings: Settings) -> int:
    """Follow all logs, or one container's use. Raises MinirunError, OSError."""
    flags = parse("events", FLAGS, args, mixed=True)
    if flags.help:
        text = "Show all containers' logs as they grow; with an id, what it uses, as runc does."
        sys.stdout.write(usage("events", "[ID]", text, FLAGS))
        return 0
    interval = duration(flags.interval)
    if not flags.args:
        follow(settings.root, lambda: True)
    container = existing.load(settings, one_id("events", flags))
    if container.record["status"] == state.STOPPED:
        raise StateError(f"container with id {container.id} is not running")
    if flags.stats:
        _print(container, "stats")
        return 0
    return _watch(container, interval)


def duration(text: str) -> float:
    """Return seconds for Go's way to write a time: 5s, 1m30s, 250ms. Raises UsageError."""
    total, rest = 0.0, text
    while rest:
        number = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        rest = rest[len(number) :]
        unit = rest[: len(rest) - len(rest.lstrip("nuµmsh"))]
        rest = rest[len(unit) :]
        if unit not in _UNITS or not number.replace(".", "", 1).isdigit():
            raise UsageError(f"invalid --interval {text!r}", "such as 5s, 500ms or 1m30s", 1)
        total += float(number) * _UNITS[unit]
    if total <= 0:
        raise UsageError("duration interval must be greater than 0", "such as 5s", 1)
    return total


def follow(root: str, going_on: "Callable[[], bool]") -> None:
    """Print every line that is written to a container's log from now on, while `going_on`.

    A log is held open, so the end of a container that is deleted meanwhile is shown too.
    """
    logs: dict[str, int] = {}
    first = True
    while going_on():
        for name in state.names(root):
            if name not in logs:
                try:
                    logs[name] = os.open(
                        places.events_jsonl(f"{root}/{name}"), os.O_RDONLY | os.O_CLOEXEC
                    )
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
        time.sleep(_LOOK)


def _print(container: Container, kind: str) -> None:
    event: dict[str, Any] = {"type": kind, "id": container.id}
    if kind == "stats":
        event["data"] = stats(container.cgroup.record())
    os.write(1, jsonlite.dumps(event).encode() + b"\n")


def _watch(container: Container, interval: float) -> int:
    """Print until the container's init has ended."""
    try:
        pidfd = os.pidfd_open(container.record["init"]["pid"])
    except ProcessLookupError:
        return 0
    memory = Memory(container)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if memory.fd >= 0:
        poll.register(memory.fd, memory.wanted)
    due = time.monotonic() + interval
    while True:
        left = max(0.0, due - time.monotonic())
        ready = [fd for fd, _ in poll.poll(int(left * 1000) + 1)]
        for _ in range(memory.times() if memory.fd in ready else 0):
            _print(container, "oom")
        if pidfd in ready:
            return 0
        if time.monotonic() >= due:
            _print(container, "stats")
            due += interval


class Memory:
    """How the kernel tells that a cgroup was out of memory; `fd` is -1 where it cannot."""

    def __init__(self, container: Container) -> None:
        record = container.cgroup.record()
        self.wanted = select.POLLIN
        self.fd = -1
        self.version: int = record["version"]
        directory = record["dirs"].get("memory" if self.version == 1 else "")
        try:
            if directory:
                self._open(directory)
        except OSError:
            self.fd = -1  # no such controller here: statistics come all the same

    def _open(self, directory: str) -> None:
        if self.version == 2:
            self.fd = os.open(f"{directory}/memory.events", os.O_RDONLY | os.O_CLOEXEC)
            self.wanted = select.POLLPRI
            self.seen = self._kills()
            return
        self.control = os.open(f"{directory}/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
        eventfd = os.eventfd(0, os.EFD_CLOEXEC)
        state.write(f"{directory}/cgroup.event_control", f"{eventfd} {self.control}")
        self.fd = eventfd

    def _kills(self) -> int:
        lines = os.pread(self.fd, 4096, 0).decode().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def times(self) -> int:
        """Return how often it has happened since the last time that this was asked."""
        if self.version == 1:
            return os.eventfd_read(self.fd)
        before, self.seen = self.seen, self._kills()
        return self.seen - before
