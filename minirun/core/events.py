"""The log: one event is one JSON line, one write(2), by the process that does the thing.

    {"v":1,"t":CLOCK_MONOTONIC ns,"id":"c1","stage":5,"actor":"cli","pid":HOST PID,
     "kind":"begin|end|syscall|netlink|message|exec|note|gate","name":"mount","args":{},
     "ret":0,"errno":null,"dur":ns,"why":"one line for a learner"}

Four processes share one open file description (O_APPEND), so lines never tear and lie in the
order in which things happened. strace sees every line between the system calls it speaks of, and
tests/truth compares the two in both directions. A system call is logged right after it returned;
execve, which does not return, right before.

This module is a leaf: it imports nothing of minirun.
"""

from __future__ import annotations

import os
import time
from _json import encode_basestring_ascii as _string
from _json import make_encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

now = time.monotonic_ns

_encode = make_encoder(None, str, _string, None, ":", ",", False, False, True)
_logs: list[int] = []
_id, _stage, _actor, _pid = "", 0, "runtime", 0
_mark, _brief = "", False
gatekeeper: Callable[[int, str], None] | None = None
"""Called at every stage boundary when a viewer steps through the run (see minirun.core.gates)."""
observer: Callable[[str, str, dict[str, Any]], None] | None = None
"""Called with kind, name, arguments after every event when a viewer steps from call to call."""


def open_log(path: str, container_id: str, mode: int = 0o600, *, brief: bool = False) -> None:
    """Append events of `container_id` to the file `path` too; `brief` leaves out system calls.

    Raises OSError.
    """
    global _id, _pid, _brief
    _brief = brief
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
    _logs.append(os.open(path, flags, mode))
    _id, _pid = container_id, os.getpid()


def close_log() -> None:
    """Close every log file; later events go nowhere."""
    while _logs:
        os.close(_logs.pop())


def to_pipe(fd: int) -> None:
    """Write events into the pipe `fd` from now on, and close the log file.

    For a process whose descriptors the container's processes could open: its caller reads the pipe
    and passes the lines on to the log. Without a log nothing changes.
    """
    if _logs:
        close_log()
        _logs.append(fd)


def log_fds() -> tuple[int, ...]:
    """Return the descriptors that the log is written to, for a caller that closes all others."""
    return tuple(_logs)


def become(actor: str, pid: int) -> None:
    """From now on this process writes as `actor` with host pid `pid` (called after a clone)."""
    global _actor, _pid
    _actor, _pid = actor, pid


def mark(word: str) -> None:
    """From now on add `word` (SIMULATED) to the `why` of each event of this process."""
    global _mark
    _mark = word


def emit(
    kind: str, name: str, args: dict[str, Any] | None = None, *, ret: int | None = 0,
    errno: str | None = None, start: int = 0, why: str = "",
) -> None:  # fmt: skip
    """Write one event, to every open log. `errno` is a name (ENOENT).

    `start`: when it began, of now(); 0 if it took no time. Its end is read once: `t` less `dur` is
    `start`, also on a machine that is busy. So no child acts before its birth.
    """
    if not _logs or (_brief and kind == "syscall" and not observer):
        return
    if _mark:
        why = f"{why} ({_mark})" if why else _mark
    t = now()
    shown = "".join(_encode(args, 0)) if args else "{}"
    line = (
        f'{{"v":1,"t":{t},"id":{_string(_id)},"stage":{_stage},"actor":"{_actor}","pid":{_pid},'
        f'"kind":"{kind}","name":{_string(name)},"args":{shown},'
        f'"ret":{"null" if ret is None else ret},"errno":{_string(errno) if errno else "null"},'
        f'"dur":{t - start if start else 0},"why":{_string(why)}}}\n'
    ).encode()
    for fd in _logs:
        try:
            os.write(fd, line)
        except OSError:
            pass  # a full disk under the log must not end the container
    if observer:
        observer(kind, name, args or {})


class stage:
    """``with stage(5, "cli", "put in"):`` writes the begin and the end of a stage around its body.

    An exception out of the body is the stage's end too: ret -1 and the exception's text.
    """

    def __init__(self, number: int, actor: str, name: str, why: str = "") -> None:
        self.number = number
        self.actor = actor
        self.name = name
        self.why = why

    def __enter__(self) -> stage:
        global _stage, _actor
        _stage, _actor = self.number, self.actor
        self.started = now()
        emit("begin", self.name, why=self.why)
        if gatekeeper:
            gatekeeper(self.number, "begin")
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.end()
        else:
            emit("end", self.name, {"error": str(error)}, ret=-1, start=self.started)

    def end(self) -> None:
        """Write the stage's end. Called by hand if its last act does not return (execve)."""
        emit("end", self.name, start=self.started)
        if gatekeeper:
            gatekeeper(self.number, "end")
