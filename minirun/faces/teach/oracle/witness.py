"""Runs a minirun command under strace, as its user would have run it, and judges what was seen.

The command keeps the caller's streams, terminal and process group. strace ignores the keyboard's
signals (strace(1), -I: with -o they never end it), so that ^C is minirun's alone.

If the command has ended and a container lives on, strace is killed: the kernel lets go of its
processes then, and they go on unharmed (ptrace(2), "Attaching and detaching"). That is also why
there is no --seccomp-bpf here: its filter would outlive strace, in a container that is not
followed any more, and be inherited; the container would not be what it is without a witness.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple

from minirun.core.errors import MinirunError
from minirun.faces.show.log.event import Event, Reader
from minirun.faces.teach import permission, strace
from minirun.faces.teach.oracle import compare
from minirun.faces.teach.oracle.findings import Report

_TICK = 0.01
"""Seconds between two looks at what strace has written."""
_GRACE = 0.15
"""Seconds that a command's other processes get to end by themselves once it has ended."""
_TIMES = "--absolute-timestamps=format:unix,precision:ns"
_LONGEST = 1 << 22
"""Bytes of a string that strace writes: no line of the log is longer (execve(2), ARG_MAX)."""


class Watched(NamedTuple):
    """What came of a command that ran under strace."""

    status: int
    """The command's exit status; 128 + n if signal n ended it."""
    since: int
    """When it was started: CLOCK_MONOTONIC, nanoseconds."""
    text: str
    """What strace wrote."""
    let_go: frozenset[int]
    """Processes that still ran when strace stopped following them."""
    until: int
    """When strace stopped following them (CLOCK_MONOTONIC, ns); 0 if all had ended."""
    joined: tuple[int, ...]
    """Processes that were there before, and that strace was told to follow too."""


def command_line(output: Path, calls: tuple[str, ...] = compare.TRACED) -> list[str]:
    """Return strace's part of a command line; `output` is the file that it writes.

    Raises MinirunError if there is no strace.
    """
    program = shutil.which("strace")
    if not program:
        raise MinirunError("strace is not installed", "the package is called strace", status=1)
    listed = ",".join(f"?{name}" for name in strace.names(calls))  # ?: this processor may lack some
    return [
        program, "-f", _TIMES, "-q", "-s", str(_LONGEST), "--pidns-translation",
        "-e", f"trace={listed}", "-e", "signal=none", "-o", str(output),
    ]  # fmt: skip


def watch(
    argv: list[str],
    output: Path,
    *,
    calls: tuple[str, ...] = compare.TRACED,
    join: tuple[int, ...] = (),
    more: tuple[str, ...] = (),
    **streams: Any,
) -> Watched:
    """Run `argv` under strace to its end, and follow the processes `join` as well.

    `more`: flags for strace. `streams` are Popen's: stdin, stdout, stderr, preexec_fn. Raises
    MinirunError, OSError.
    """
    joined = (f"--attach={pid}" for pid in join)
    line = [*command_line(output, calls), *more, *joined, *argv]
    output.write_bytes(b"")
    since = time.monotonic_ns()
    with output.open(errors="surrogateescape") as file:
        follower = _Follower(file, join)
        with _signals(follower.send):
            process = subprocess.Popen(line, **streams)
            until = _wait(process, follower)
        follower.read_new()
    if follower.status is None:
        raise MinirunError("strace could not follow the command", permission.hint(), status=1)
    text = output.read_text(errors="surrogateescape")
    let_go = _pids(text) - strace.endings(text).keys() if until else frozenset()
    return Watched(follower.status, since, text, frozenset(let_go), until, join)


def _wait(process: subprocess.Popen[Any], follower: _Follower) -> int:
    """Wait for strace's end, or end it; return when it was ended, or 0."""
    deadline = None
    while process.poll() is None:
        follower.read_new()
        if follower.status is not None:
            deadline = deadline or time.monotonic() + _GRACE
            if time.monotonic() > deadline:
                now = time.monotonic_ns()
                process.kill()
                process.wait()
                return now
        time.sleep(_TICK)
    return 0


class _Follower:
    """Reads strace's output as it grows, for the command's pid and its end."""

    def __init__(self, file: IO[str], join: tuple[int, ...]) -> None:
        self.file = file
        self.rest = ""
        self.join = join
        self.pid = 0
        self.status: int | None = None

    def read_new(self) -> None:
        """Read what has come; the first execve of a process that was not there is the command's."""
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        for line in lines:
            pid = int(line.split(" ", 1)[0])
            if not self.pid and pid not in self.join and " execve(" in line:
                self.pid = pid
            if pid == self.pid:
                self.status = strace.endings(line).get(pid, self.status)

    def send(self, number: int) -> None:
        """Pass a signal on to the command."""
        if self.pid and self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@contextmanager
def _signals(send: Callable[[int], None]) -> Iterator[None]:
    """Outlive the command: what the keyboard sends it gets by itself, the rest is passed on."""

    def forward(number: int, frame: FrameType | None) -> None:
        if number not in (signal.SIGINT, signal.SIGQUIT) or not _has_the_keyboard():
            send(number)

    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.signal(number, forward)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _has_the_keyboard() -> bool:
    """Return True if ^C goes to this process, and to what it has started: tcgetpgrp(3)."""
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # no terminal
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    finally:
        os.close(fd)


def _pids(text: str) -> set[int]:
    return {int(line.split(" ", 1)[0]) for line in text.splitlines() if line[:1].isdigit()}


def judge(watched: Watched) -> Report:
    """Compare what strace saw with the command's own lines in the logs that it wrote.

    Raises MinirunError if the command has opened no log, or the log is gone.
    """
    calls = strace.parse(watched.text)
    report = compare.judge(calls, watched.let_go, watched.joined)
    if not report.logs:
        hint = "run, create, start, exec, delete and gc write it, unless they fail before"
        raise MinirunError("the command has written no events: nothing to compare", hint, status=1)
    events, others = _read(report.logs, watched)
    compare.check_file(report, events, others - {call.pid for call in calls}, watched.let_go)
    return report


def _read(logs: list[str], watched: Watched) -> tuple[list[Event], set[int]]:
    """Return the command's events, and the processes that strace was not told to follow.

    These are who wrote to the log before the command (the supervisor of `run -d`), or only after
    strace had gone.
    """
    events = [event for path in logs for event in _events(path)]
    mine = [event for event in events if event.t >= watched.since]
    early = {event.pid for event in events if event.t < watched.since}
    seen = {e.pid for e in mine if not watched.until or e.t < watched.until}
    return mine, early | ({event.pid for event in mine} - seen)


def _events(path: str) -> list[Event]:
    """Return the events of a log. Raises MinirunError if it is gone.

    What a full disk has cut is left out: that it is missing will be found.
    """
    try:
        return Reader().take(Path(path).read_bytes())
    except FileNotFoundError:
        hint = "did another process delete it?"
        raise MinirunError(f"{path}: the log is gone", hint, 1) from None
