"""Health checks: --health-cmd, or an image's HEALTHCHECK. A command in the container, now and then.

A process of its own runs it by `exec`, as long as the container's init lives, and writes what it
finds to health.json in the container's directory, in docker's words:

    {"Status": "starting", "FailingStreak": 0, "Log": [{"Start", "End", "ExitCode", "Output"}, …]}

The record keeps how it is checked: minirun.common.docker_record.HealthCheck. A container is
starting until its first check that ends with 0, then healthy; after so many failures in a row
(Retries) it is unhealthy. Failures within StartPeriod do not count. An unhealthy container goes on,
as with docker.

The log has each change of Status as one event, and not the checks: their calls, one a second
perhaps, would fill it in hours, and what a user's `exec` does would find no room.
"""

from __future__ import annotations

import os
import select
import time

from minirun.common import called, docker_record
from minirun.common.waiting import readable
from minirun.core import events
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.keeping import jsonlite, places, state
from minirun.core.kernel import process
from minirun.core.lazy import lazy

with lazy:  # for the process that checks
    import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.keeping.container_record import ContainerRecord

DEFAULTS = {
    "Interval": 30 * 10**9, "Timeout": 30 * 10**9, "StartPeriod": 0, "StartInterval": 5 * 10**9,
    "Retries": 3,
}  # fmt: skip
"""docker's."""
SHORTEST = 10**8
"""Nanoseconds between two checks: what an image asks for is not to keep a processor busy."""
_SHELL = ("/bin/sh", "-c")
_KEPT = 5
_OUTPUT = 4096
"""Bytes of a check's output."""
_TIMED_OUT = -1
_PATIENCE = 5.0
"""Seconds that `exec` gets to end after its command."""


def is_asked(record: ContainerRecord) -> bool:
    """Return True if the container is to be checked: the image's word may be none, or nonsense."""
    check = docker_record.of(record).health
    return check is not None and len(check.Test) > 1 and check.Test[0] in ("CMD", "CMD-SHELL")


def watch(container: Container) -> None:
    """Start the process that checks the container, which runs, if it is to. Raises OSError."""
    if not is_asked(container.record):
        return
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    try:
        if not os.fork():  # no child of the supervisor, which would have to wait for it
            _be_watcher(container)
    finally:
        os._exit(0)


def _be_watcher(container: Container) -> None:
    process.become_named("minirun:health")
    os.setsid()
    events.close_log()
    events.become("health", os.getpid())
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, 1 << 16)  # the container's streams, and the caller's
    try:
        pidfd = os.pidfd_open(container.record.first_process()["pid"])
    except ProcessLookupError:
        return
    Checks(container, pidfd).run()


def read(directory: str) -> dict[str, Any] | None:
    """Return what is known of a container's health; None if it is not checked."""
    try:
        found: dict[str, Any] = jsonlite.loads(state.read_text(f"{directory}/{places.HEALTH}"))
    except (OSError, ValueError):
        return None
    return found


def _read(check: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return the begin of what a check writes; the rest is read too, and not kept.

    It ends with the output, or at the deadline.
    """
    kept = b""
    if not check.stdout:
        return kept
    fd = check.stdout.fileno()
    while readable(fd, deadline):
        data = os.read(fd, 1 << 16)
        if not data:
            break
        kept = (kept + data)[:_OUTPUT]
    return kept


class Checks:
    """The checks of one container."""

    def __init__(self, container: Container, pidfd: int) -> None:
        self.container = container
        check = docker_record.of(container.record).health
        self.asked = DEFAULTS | (check.as_json() if check else {})
        self.poll = select.poll()
        self.poll.register(pidfd, select.POLLIN)
        self.found: dict[str, Any] = {"Status": "starting", "FailingStreak": 0, "Log": []}
        self.began = time.monotonic()

    def run(self) -> None:
        """Check until init has ended."""
        self._save()
        while not self.poll.poll(self._pause() // 10**6):
            self._take(*self._check())

    def _pause(self) -> int:
        within = time.monotonic() - self.began < self.asked["StartPeriod"] / 10**9
        is_starting = within and self.found["Status"] == "starting"
        wanted: int = self.asked["StartInterval" if is_starting else "Interval"]
        return max(wanted, SHORTEST)

    def _check(self) -> tuple[str, int, bytes]:
        """Run the command once; return when it began, its status, and what it wrote."""
        kind, *words = self.asked["Test"]
        settings, began = self.container.settings, state.timestamp()
        pid_file = f"{self.container.directory}/{places.HEALTH_PID}"
        argv = [
            *called.program(), "--root", settings.root, "--store", settings.store, "exec",
            "--pid-file", pid_file, self.container.id,
            *(words if kind == "CMD" else (*_SHELL, *words)),
        ]  # fmt: skip
        try:
            os.unlink(pid_file)  # of the check before: its number may be another process's by now
        except FileNotFoundError:
            pass
        seconds = self.asked["Timeout"] / 10**9
        deadline = time.monotonic() + seconds
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as check:
            output = _read(check, deadline)
            try:
                status = check.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._kill(pid_file, check)
                text = f"Health check exceeded timeout ({seconds:g}s)"
                return began, _TIMED_OUT, text.encode()
        return began, status, output

    def _kill(self, pid_file: str, check: subprocess.Popen[bytes]) -> None:
        """End a check that takes too long: `exec` ends with it."""
        try:
            os.kill(int(state.read_text(pid_file)), 9)
            check.wait(_PATIENCE)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            check.kill()

    def _take(self, began: str, status: int, output: bytes) -> None:
        row = {
            "Start": began, "End": state.timestamp(), "ExitCode": status,
            "Output": output.decode(errors="replace"),
        }  # fmt: skip
        before = self.found["Status"]
        self.found["Log"] = [*self.found["Log"], row][-_KEPT:]
        if status == 0:
            self.found |= {"Status": "healthy", "FailingStreak": 0}
        elif self.found["Status"] != "starting" or (
            time.monotonic() - self.began >= self.asked["StartPeriod"] / 10**9
        ):
            self.found["FailingStreak"] += 1
            if self.found["FailingStreak"] >= self.asked["Retries"]:
                self.found["Status"] = "unhealthy"
        self._save()
        if self.found["Status"] != before:
            self._log(before, status)

    def _log(self, before: str, status: int) -> None:
        """Write a change to the log; it may be full, or gone with the container."""
        try:
            self.container.open_log()
            shown = {"before": before, "now": self.found["Status"], "status": status}
            events.emit("note", "health", shown, why="by the last check, or the last few")
        except (MinirunError, OSError):
            pass
        finally:
            events.close_log()

    def _save(self) -> None:
        path = f"{self.container.directory}/{places.HEALTH}"
        try:
            state.replace(path, jsonlite.dumps(self.found), f"{path}.{os.getpid()}")
        except OSError:
            pass  # the container is gone, or the disk is full
