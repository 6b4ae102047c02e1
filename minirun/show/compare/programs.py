"""Two starts that different programs made: what each does that the other does not, and why.

Aligned by stage and actor. The order within a stage says nothing here: runc makes its nodes after
its mounts, crun before. So each act is counted, and what both did as often is the same. An act is
what it does to the container: a place is told from the container's root, a file of a cgroup from
the container's own, flags have no order. Reasons are data: minirun.knowledge, differences.toml.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator

from minirun import knowledge
from minirun.knowledge.texts import Topic
from minirun.show.log.event import Event
from minirun.show.log.recording import Recording

_CGROUP = "/sys/fs/cgroup/"
_NUMBERS = re.compile(r"(/proc/|/fd/|--pid=|pid[ =:]*)\d+")
_ACTS = ("syscall", "exec", "message")
_FLAGS = ("flags", "set", "clear")
_LEFT_OUT = ("at", "bytes", "text", "mode", "kind")
"""Arguments that say nothing of what is made, or say it twice."""


def program(found: Recording) -> str:
    """Return the name of what made a start: minirun, or the runtime that was observed."""
    if not found.observed:
        return "minirun"
    end = found.birth.t if found.birth else found.end
    runs = [e for e in found.events if e.kind == "exec" and e.actor == "runtime" and e.t <= end]
    argv = runs[-1].args.get("argv") if runs else None  # the last: env, chroot … come before it
    return str(argv[0]).rpartition("/")[2] if argv else ""


def reason(found: Recording, event: Event, line: str, language: str) -> Topic | None:
    """Return why the program does this; None if nothing is known. `line`: the event as a line."""
    return knowledge.difference(f"{program(found)} {event.actor} {line}", language)


def only(
    events: list[Event], others: list[Event], found: Recording, other: Recording
) -> list[Event]:
    """Return the events of one start, at one place, whose acts the other has not as often."""
    left = Counter(_act(event, other, _root(other)) for event in others)
    root, own = _root(found), []
    for event in events:
        act = _act(event, found, root)
        if left[act]:
            left[act] -= 1
        else:
            own.append(event)
    return own


def acts(found: Recording, last: int) -> Iterator[Event]:
    """Yield what is compared: calls, programs and messages, until stage `last` has ended."""
    for event in found.events:
        if event.kind == "end" and event.stage == last:
            return
        above = is_above(event, found.id)
        if event.kind in _ACTS and event.actor != "step" and event.stage and not above:
            yield event


def is_above(event: Event, container_id: str) -> bool:
    """Return True for an act on a cgroup above the container's own."""
    path = str(event.args.get("path", ""))
    if event.name == "mount":  # inside the container
        return False
    return path.startswith(_CGROUP) and container_id not in path


def _root(found: Recording) -> str:
    """Return where the container's root lies: what is mounted onto itself; "" if nothing is."""
    for event in found.events:
        source, target = event.args.get("source"), event.args.get("target")
        if event.name == "mount" and source and source == target:
            return str(target)
    return ""


def _act(event: Event, found: Recording, root: str) -> str:
    """Return what an event does, as another program's event would have it."""
    args = {key: _value(key, value) for key, value in event.args.items() if key not in _LEFT_OUT}
    name = event.name
    if name == "mkfifo" or (name == "mknodat" and event.args.get("kind") == "p"):
        name, args = "fifo", {"path": str(event.args.get("path")).rpartition("/")[2]}
    elif event.kind == "message":
        args = {"to": event.args.get("to")}
    elif name in ("mount", "umount2"):
        path = args.pop("path", "") or args.get("target", "")
        args["target"] = _inside(str(event.args.get("at") or path), root)
    elif name in ("mknodat", "symlinkat"):  # crun names them from a descriptor of their folder
        args["path"] = _inside(str(args.get("path", "")), root).removeprefix("/dev/")
    if str(args.get("path", "")).startswith(_CGROUP):
        args["path"] = _of_cgroup(str(args["path"]), found.id)
    args = {key: value for key, value in args.items() if value}
    said = json.dumps([event.kind, name, args, event.errno], sort_keys=True)
    said = re.sub(rf"(?<![\w-]){re.escape(found.id)}(?![\w-])", "ID", said)
    return _NUMBERS.sub(r"\1N", said)


def _value(key: str, value: object) -> object:
    return sorted(str(value).split("|")) if key in _FLAGS and isinstance(value, str) else value


def _inside(path: str, root: str) -> str:
    """Return a place from the container's root."""
    return (path.removeprefix(root) or "/") if root else path


def _of_cgroup(path: str, container_id: str) -> str:
    """Return a file of a container's own cgroup, without where that lies."""
    controller, _, rest = path.removeprefix(_CGROUP).partition("/")
    _, found, file = rest.rpartition(container_id)
    return f"{controller}:{file.partition('/')[2]}" if found else f"{controller} {rest}"
