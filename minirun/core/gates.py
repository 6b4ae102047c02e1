"""Gates: a run can be held at the boundaries of its stages, or at each event, to be looked at.

A gate is a FIFO in the container's state directory. A process that reaches a boundary on the list
writes a gate event and waits for one byte; the viewer (the live view, --step, a test) sends
it. Nothing is simulated: while a gate is closed the kernel objects are as they are at this moment.

Runtime and init sometimes work at the same time. So the process at the gate holds a lock on it
(fcntl(2), "Advisory record locking": it ends with its process), and one byte lets one process pass.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat

from minirun.core import events
from minirun.core.errors import UsageError
from minirun.core.keeping import places
from minirun.core.keeping.settings import BOUNDARIES
from minirun.core.kernel import files

EVERY_EVENT = "syscall"
"""Instead of a boundary: stop after each event."""
_KINDS_HELD = ("syscall", "netlink", "exec", "message", "note")


class Gates:
    """The list of boundaries to stop at, and the FIFO to wait on."""

    def __init__(self, directory: str, stops: tuple[str, ...]) -> None:
        unknown = [stop for stop in stops if stop not in (*BOUNDARIES, EVERY_EVENT)]
        if unknown:
            raise UsageError(f"unknown gate {unknown[0]!r}", "1:begin, 1:end, … 7:end, or syscall")
        self.stops = stops
        path = f"{directory}/{places.GATE}"
        files.mknodat(-100, path, stat.S_IFIFO | 0o600, why="the run stops here to be looked at")
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.watched: list[int] = []
        """Descriptors (a pidfd, the end of a pipe). When one of them ends, every gate opens: no
        process waits for a dead one."""
        events.gatekeeper = self.wait
        if EVERY_EVENT in stops:
            events.observer = self.wait_after

    def wait(self, stage: int, edge: str) -> None:
        """Wait if `stage`:`edge` is on the list."""
        if f"{stage}:{edge}" in self.stops:
            self._wait(f"{stage}:{edge}", {})

    def wait_after(self, kind: str, name: str, args: dict[str, object]) -> None:
        """Wait after an event of a kind at which --step=syscall stops."""
        if kind in _KINDS_HELD:
            self._wait(EVERY_EVENT, {"after": name})

    def _wait(self, name: str, args: dict[str, str]) -> None:
        fcntl.lockf(self.fd, fcntl.LOCK_EX)
        try:
            events.emit("gate", name, args, why="waiting until a viewer opens this gate")
            poll = select.poll()
            poll.register(self.fd, select.POLLIN)
            for fd in self.watched:
                poll.register(fd, select.POLLIN)
            if self.fd in dict(poll.poll()):
                os.read(self.fd, 1)
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN)


def open_gate(directory: str) -> None:
    """Let the process that waits at a gate of the container in `directory` go on.

    Raises OSError: ENOENT without a gate, ENXIO if no process is at it.
    """
    fd = os.open(f"{directory}/{places.GATE}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.write(fd, b".")
    finally:
        os.close(fd)
