"""Two starts: what one did that the other did not (works on my node, not on yours).

Aligned by stage and by actor, since runtime and init work at the same time. What is each start's
own does not count as a difference: ids, pids, descriptors, times, and where the container's
directory lies. Nor do the cgroups above its own, which other containers may have made before. What
follows the start (the command's end, the clean-up) is not compared.

Two starts by one program are compared event by event, in order. Between two programs the order
within a stage says nothing: runc makes its nodes after its mounts, crun before. So only acts are
compared, each by what it does to the container: a place is written from the container's root, a
file of a cgroup from the container's own, and flags have no order. The reasons for what differs are
data: minirun.faces.knowledge, differences.toml.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby

from minirun.core.keeping import state
from minirun.faces import knowledge
from minirun.faces.knowledge.texts import Topic
from minirun.faces.show.compare import comparer
from minirun.faces.show.compare.comparer import PartDifference
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.recording import Recording

_CGROUP = "/sys/fs/cgroup/"
_NUMBERS = re.compile(r"(/proc/|/fd/|--pid=|pid[ =:]*)\d+")
_ACTS = ("syscall", "exec", "message")
_OWN = ("fd", "dirfd", "userns", "old_fd", "new_fd", "pid", "to_pid", "prog_fd", "target_fd", "at")
"""Arguments that are numbers of one process: descriptors and pids."""
_FLAGS = ("flags", "set", "clear")
_LEFT_OUT = ("at", "bytes", "text", "mode", "kind")
"""Arguments that say nothing of what is made, or say it twice."""
_PASSED_OVER = ("snapshot", "gate opened", "origin")
_LAST = 7
_ACTORS = ("runtime", "init", "hook", "cli")

Part = tuple[int, str]
"""A stage, and an actor in it."""
EventDifference = PartDifference[Part, Event]
EventSide = dict[Part, list[tuple[str, Event]]]


def compare(first: Recording, second: Recording) -> list[EventDifference]:
    """Return the differences of two starts, in the order of stages; none if both did the same."""
    alike = program(first) == program(second)
    sides = _side(first, alike=alike), _side(second, alike=alike)
    return sorted(comparer.compare(*sides, in_order=alike), key=lambda each: _order(*each.part))


def same(first: Recording, second: Recording, changes: list[EventDifference]) -> int:
    """Return how many events of the first start the second has too."""
    side = _side(first, alike=program(first) == program(second))
    return sum(map(len, side.values())) - sum(len(change.gone) for change in changes)


def program(recording: Recording) -> str:
    """Return the name of what made a start: minirun, or the runtime that was observed."""
    if not recording.observed:
        return "minirun"
    end = recording.birth.t if recording.birth else recording.end
    runs = [e for e in recording.events if e.kind == "exec" and e.actor == "runtime" and e.t <= end]
    words = runs[-1].words() if runs else []  # the last: env, chroot … come before it
    return words[0].rpartition("/")[2] if words else ""


def reason(recording: Recording, event: Event, language: str) -> Topic | None:
    """Return why the program does this; None if nothing is known."""
    words = f"{program(recording)} {event.actor} {line(event)}"
    return knowledge.difference(words, language)


def by_reason(
    events: list[Event], recording: Recording, language: str
) -> Iterator[tuple[Topic | None, list[Event]]]:
    """Yield events that stand together, and why the program did that; None: it is not known."""
    for topic, each in groupby(events, key=lambda event: reason(recording, event, language)):
        yield topic, list(each)


def line(event: Event) -> str:
    """Return what an event is, and its error."""
    row = event_row.row(event)
    outcome = f" = {event.errno}" if event.errno else ""
    return f"{row.what}{outcome}"


def _order(stage: int, actor: str) -> tuple[int, int, str]:
    return (stage, _ACTORS.index(actor) if actor in _ACTORS else len(_ACTORS), actor)


def _side(recording: Recording, *, alike: bool) -> EventSide:
    """Return what a start did, each event with what is compared of it.

    `alike`: the other start is by the same program.
    """
    side: EventSide = {}
    root = _root(recording)
    for event in _compared(recording):
        if alike:
            text = _exactly(event, recording.id)
        elif event.kind in _ACTS and event.stage:
            text = _by_effect(event, recording.id, root)
        else:
            continue
        side.setdefault((event.stage, event.actor), []).append((text, event))
    return side


def _compared(recording: Recording) -> Iterator[Event]:
    """Yield the events of a start, until its last stage has ended, that can tell two apart."""
    for event in recording.events:
        asked = event.kind == "gate" or event.actor == "step" or event.name in _PASSED_OVER
        if not asked and not _is_above(event, recording.id):
            yield event
        if event.kind == "end" and event.stage == _LAST:
            return


def _is_above(event: Event, container_id: str) -> bool:
    """Return True for an act on a cgroup above the container's own."""
    path = str(event.args.get("path", ""))
    if event.name == "mount":  # inside the container
        return False
    return path.startswith(_CGROUP) and container_id not in path


def _root(recording: Recording) -> str:
    """Return where the container's root lies: what is mounted onto itself; "" if nothing is."""
    for event in recording.events:
        source, target = event.args.get("source"), event.args.get("target")
        if event.name == "mount" and source and source == target:
            return str(target)
    return ""


def _exactly(event: Event, container_id: str) -> str:
    """Return an event without what is this one start's own."""
    args = {key: value for key, value in event.args.items() if key not in _OWN}
    text = json.dumps([event.kind, event.name, args, event.errno, event.failed], sort_keys=True)
    name = re.escape(container_id)
    text = re.sub(rf"/{name}\.[0-9a-f]{{8}}\b", f"/{container_id}", text)  # its cgroup
    text = re.sub(rf"(?!{_CGROUP[:-1]})/[\w./-]*/{name}\b", "CONTAINER", text)
    return _without_numbers(text, container_id)


def _by_effect(event: Event, container_id: str, root: str) -> str:
    """Return what an event does to the container, as another program's event would have it."""
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
        args["path"] = _of_cgroup(str(args["path"]), container_id)
    args = {key: value for key, value in args.items() if value}
    text = json.dumps([event.kind, name, args, event.errno], sort_keys=True)
    return _without_numbers(text, container_id)


def _without_numbers(text: str, container_id: str) -> str:
    own = "|".join(map(re.escape, (container_id, state.short(container_id))))
    text = re.sub(rf"(?<![\w-])(?:{own})(?![\w-])", "ID", text)
    return _NUMBERS.sub(r"\1N", text)


def _value(key: str, value: object) -> object:
    return sorted(str(value).split("|")) if key in _FLAGS and isinstance(value, str) else value


def _inside(path: str, root: str) -> str:
    """Return a place from the container's root."""
    return (path.removeprefix(root) or "/") if root else path


def _of_cgroup(path: str, container_id: str) -> str:
    """Return a file of a container's own cgroup, without where that lies."""
    controller, _, rest = path.removeprefix(_CGROUP).partition("/")
    _, is_own, file = rest.rpartition(container_id)
    return f"{controller}:{file.partition('/')[2]}" if is_own else f"{controller} {rest}"
