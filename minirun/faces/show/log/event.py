"""The events of a log, as all views read them: one record, and one reader of events.jsonl.

A line of the log is an event if it is a JSON object with a time "t" and if each field that it has
is of the type that minirun.core.events writes. A line without a newline is not whole yet: it is
waited for, or, at the end of a finished log, left out. Any other line is broken (the disk was full,
or the file is no log): it is left out and counted, and each view says so once.
"""

from __future__ import annotations

import os
import time

from minirun.core.keeping import jsonlite
from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Event(Record):
    """One event: see minirun.core.events, which writes it, and tutorials/reference/events.md."""

    v: int
    t: int
    """When it was written: CLOCK_MONOTONIC, in nanoseconds."""
    id: str
    """The container's id."""
    stage: int
    actor: str
    pid: int
    """The process id, on the host, of the process that did it."""
    kind: str
    name: str
    args: dict[str, Any]
    ret: int | None
    errno: str | None
    """The error's name, such as ENOENT; None if there was none."""
    dur: int
    """Nanoseconds."""
    why: str
    more: dict[str, Any]
    """Fields of the line that this version does not know."""

    @property
    def failed(self) -> bool:
        """Return True if it is a call that failed, or the end of a stage that failed."""
        return bool(self.errno or (self.kind == "end" and self.ret))

    @property
    def observed(self) -> bool:
        """Return True if it was inferred from what strace saw: minirun observe."""
        return self.more.get("observed") is True

    def words(self, name: str = "argv") -> list[str]:
        """Return an argument that is a list, as texts; none if it is of another type."""
        value = self.args.get(name)
        return list(map(str, value)) if isinstance(value, (list, tuple)) else []

    def fields(self) -> dict[str, Any]:
        """Return it as the log has it: name of a field → value."""
        fields: dict[str, Any] = self._asdict()
        more: dict[str, Any] = fields.pop("more")
        return fields | more


def began(event: Event) -> int:
    """Return how long before its time an event began, ns: a call is logged when it has returned.

    An `end` carries its stage's length, which is none of its own.
    """
    length: int = event.dur if event.kind in ("syscall", "exec") else 0
    return length


_TYPES: dict[str, tuple[Any, Any]] = {
    "v": (1, int), "t": (0, int), "id": ("", str), "stage": (0, int), "actor": ("", str),
    "pid": (0, int), "kind": ("note", str), "name": ("", str), "args": ({}, dict),
    "ret": (None, (int, type(None))), "errno": (None, (str, type(None))), "dur": (0, int),
    "why": ("", str),
}  # fmt: skip
"""Field → the value that it has if the line lacks it, and its type."""
_LARGEST = 2**63


def event_of(fields: dict[str, Any]) -> Event:
    """Return the event with these fields. Raises ValueError if one is of another type."""
    values: dict[str, Any] = {}
    for key, (default, kind) in _TYPES.items():
        value = fields.get(key, default)
        wrong = not isinstance(value, kind) or isinstance(value, bool)  # which is an int
        if wrong or (isinstance(value, int) and abs(value) >= _LARGEST):
            raise ValueError(f"the field {key} of an event cannot be {value!r}")
        values[key] = value
    return Event(**values, more={key: fields[key] for key in fields if key not in _TYPES})


class Reader:
    """Makes events of a log's bytes, which may come in pieces."""

    def __init__(self) -> None:
        self.rest = b""
        """The begin of a line that is not whole yet."""
        self.unreadable = 0
        """How many lines were no events."""

    def take(self, data: bytes) -> list[Event]:
        """Return the events of the lines that `data` makes whole."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [event for line in lines if (event := self._event(line))]

    def end(self) -> list[Event]:
        """Return the event of the last line if it lacks only its newline."""
        before, last = self.unreadable, self._event(self.rest)
        self.rest, self.unreadable = b"", before
        return [last] if last else []

    def _event(self, line: bytes) -> Event | None:
        if not line.strip():
            return None
        try:
            fields = jsonlite.loads(line.decode(errors="replace"))
            if isinstance(fields, dict) and "t" in fields:
                return event_of(fields)
        except ValueError:
            pass
        self.unreadable += 1
        return None


class Tail:
    """The end of a log that grows: a path, which need not be there yet, or a descriptor."""

    def __init__(self, log: str | int) -> None:
        self.path = log if isinstance(log, str) else ""
        self.fd = -1 if isinstance(log, str) else log
        self.reader = Reader()
        self.warned = False

    def events(self) -> list[Event]:
        """Return the events written since the last call, and once a note that lines are broken.

        Raises OSError.
        """
        if self.fd < 0:
            try:
                self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return []
        found = []
        while chunk := os.read(self.fd, 65536):
            found += self.reader.take(chunk)
        if self.reader.unreadable and not self.warned:
            self.warned = True
            when = found[-1].t if found else time.monotonic_ns()
            found.append(event_of({"t": when, "name": "lines of the log are unreadable: left out"}))
        return found

    def close(self) -> None:
        """Let go of the file."""
        if self.fd >= 0:
            os.close(self.fd)
