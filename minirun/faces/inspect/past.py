"""What the log still knows of a container: its stages, and what became of its hooks."""

import os
from typing import Any

from minirun.core.container import Container
from minirun.core.errors import StateError
from minirun.core.keeping import places
from minirun.faces.inspect.document import Ending, HookFacts, StageFacts
from minirun.faces.show.log import recording
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.recording import Recording

KINDS = (
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
)  # fmt: skip
"""Hooks in the order in which they run: runtime-spec, config.md, "POSIX-platform Hooks"."""


def read(container: Container) -> Recording | None:
    """Return the container's recording; None if it has no log."""
    try:
        return recording.read(f"{container.directory}/{places.EVENTS}")[0]
    except (OSError, StateError):
        return None


def started(log: str) -> tuple[float, int] | None:
    """Return when the command of a log's last start began: in seconds since the epoch, and by
    CLOCK_MONOTONIC in ns; None if it has not.

    A log's times count from the boot; when it was written last says what they are by the clock.
    Raises OSError.
    """
    events = _events(log)
    execs = [e.t for e in events if (e.kind, e.name, e.stage) == ("exec", "execve", 7)]
    if not execs:
        return None
    return os.stat(log).st_mtime - (events[-1].t - execs[-1]) / 1e9, execs[-1]


def exit_status(log: str, pid: int = 0) -> int | None:
    """Return the exit status of a container that is gone, by its log; None if that does not say,
    or if `pid` was not its first process. Raises OSError."""
    events = _events(log)
    if pid and pid not in (event.pid for event in events):
        return None
    found = [e.args.get("status") for e in events if (e.kind, e.name) == ("note", "command ended")]
    return found[-1] if found and isinstance(found[-1], int) else None


def image(log: str) -> str:
    """Return the name of the image of a container that is gone, by its log; "" if that does not
    say. Raises OSError."""
    return str(origin(log).get("image") or "")


def origin(log: str) -> dict[str, Any]:
    """Return what the log of a container that is gone says of it: name, image, labels; each may be
    missing. Raises OSError."""
    found: dict[str, Any] = {}
    for event in _events(log):
        if event.kind == "note" and event.name in ("origin", "renamed"):
            found |= event.args
    return found


def _events(log: str) -> list[Event]:
    """Return the events of a log; none if it has no whole recording. Raises OSError."""
    try:
        return recording.read(log)[0].events
    except (StateError, LookupError):
        return []


def stages(found: Recording | None) -> list[StageFacts]:
    """Return the stages: number, actor, name, duration in ns (None: it never ended), error."""
    return [
        {
            "stage": one.number, "actor": one.actor, "name": one.name,
            "duration": one.duration if one.end is not None else None, "error": one.error,
        }
        for one in (found.stages if found else [])
    ]  # fmt: skip


def hooks(container: Container, found: Recording | None) -> list[HookFacts]:
    """Return config.json's hooks, each with its exit status and its duration in ns.

    `status` is None for a hook that has not run, or has not ended by itself.
    """
    events = found.events if found else []
    rows: list[HookFacts] = []
    for kind in KINDS:
        number = 0  # as the log counts: NVIDIA's hook, run in-line, is not among them
        for hook in container.config.hooks(kind):
            if kind in ("prestart", "createRuntime") and container.config.in_line(hook):
                result = _in_line(found)
            else:
                result = _ended(events, f"{kind} hook {number} ({hook['path']})", hook["path"])
                number += 1
            rows.append({"kind": kind, "path": hook["path"], **result})
    return rows


def _ended(events: list[Event], name: str, path: str) -> Ending:
    """Find a hook's birth in the log, by its name, and its end behind it."""
    born = None
    for event in events:
        if event.name == "clone3" and event.why.startswith(name):
            born = event
        elif born and event.name == "hook ended" and event.args.get("path") == path:
            status = event.args.get("status")
            return {"ran": True, "status": status, "duration": event.t - born.t}
    return {"ran": born is not None, "status": None, "duration": None}


def _in_line(found: Recording | None) -> Ending:
    """Return the ending of NVIDIA's hook, which is stages 4 and 5: well if both ended well."""
    parts = [one for one in (found.stages if found else []) if one.number in (4, 5)]
    if not parts or any(one.end is None for one in parts):
        return {"ran": bool(parts), "status": None, "duration": None, "inLine": True}
    failed = any(one.error for one in parts)
    total = sum(one.duration for one in parts)
    return {"ran": True, "status": int(failed), "duration": total, "inLine": True}
