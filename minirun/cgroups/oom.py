"""Out of memory: the kernel's notification, for which `minirun events ID` waits.

Version 1 writes to an eventfd that is given to cgroup.event_control (memory.rst, "OOM Control"),
version 2 makes memory.events readable for poll(2) as an exception (cgroup-v2.rst, "Memory Interface
Files").
"""

from __future__ import annotations

import os
import select

from minirun.core.keeping import state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import CgroupRecord


class OomNotice:
    """The kernel's notification that a cgroup was out of memory; `fd` is -1 if there is none."""

    def __init__(self, record: CgroupRecord) -> None:
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
        """Return how often it has happened since the last call."""
        if self.version == 1:
            return os.eventfd_read(self.fd)
        before, self.seen = self.seen, self._kills()
        return self.seen - before
