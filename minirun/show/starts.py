"""Two starts side by side: what one did that the other did not (works on my node, not on yours).

Aligned by stage and by actor, since runtime and init work at the same time. What is each start's
own does not count as a difference: ids, pids, descriptors, times, and where the container's
directory lies. Nor do the cgroups above its own, which other containers may have made before. What
follows the start (the command's end, the clean-up) is not compared. The marks are diff(1)'s: < is
what only the first did, > what only the second did.
"""

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from minirun.show import text
from minirun.show.event import Event
from minirun.show.recorded import result
from minirun.show.recording import Recording

_OWN = ("fd", "dirfd", "userns", "old_fd", "new_fd", "pid", "to_pid", "prog_fd", "target_fd", "at")
"""Arguments that are numbers of one process: descriptors and pids."""
_NUMBERS = re.compile(r"(/proc/|/fd/|--pid=|pid[ =:]*)\d+")
_CGROUP = "/sys/fs/cgroup"
_PASSED_OVER = ("snapshot", "gate opened", "origin")
_LAST = 7
_ACTORS = ("runtime", "init", "hook", "cli")


class Change(NamedTuple):
    """What one of two starts did, in a row, at one place of a stage: events of either."""

    stage: int
    actor: str
    first: list[Event]
    second: list[Event]


def compare(first: Recording, second: Recording) -> list[Change]:
    """Return the differences of two starts, in the order of stages; none if both did the same."""
    one, other = _acts(first), _acts(second)
    keys = sorted({*one, *other}, key=lambda key: (key[0], _order(key[1])))
    return [change for key in keys for change in _changes(key, one, other)]


def _order(actor: str) -> tuple[int, str]:
    return (_ACTORS.index(actor) if actor in _ACTORS else len(_ACTORS), actor)


Acts = dict[tuple[int, str], list[tuple[str, Event]]]
"""Stage and actor → what it did: each event with what is compared of it."""


def _acts(found: Recording) -> Acts:
    acts: Acts = {}
    ends = [at for at, e in enumerate(found.events) if e.kind == "end" and e.stage == _LAST]
    for event in found.events[: ends[0] + 1 if ends else None]:
        if event.kind == "gate" or event.actor == "step" or event.name in _PASSED_OVER:
            continue
        if not _is_above(event, found.id):
            key = (event.stage, event.actor)
            acts.setdefault(key, []).append((_compared(event, found.id), event))
    return acts


def _is_above(event: Event, container_id: str) -> bool:
    """Return True for an act on a cgroup above the container's own."""
    path = str(event.args.get("path", ""))
    return path.startswith(_CGROUP) and container_id not in path


def _compared(event: Event, container_id: str) -> str:
    """Return an event without what is this one start's own."""
    args = {key: value for key, value in event.args.items() if key not in _OWN}
    said = json.dumps([event.kind, event.name, args, event.errno, event.failed], sort_keys=True)
    name = re.escape(container_id)
    said = re.sub(rf"/{name}\.[0-9a-f]{{8}}\b", f"/{container_id}", said)  # its cgroup
    said = re.sub(rf"(?!{_CGROUP})/[\w./-]*/{name}\b", "CONTAINER", said)
    said = re.sub(rf"(?<![\w-]){name}(?![\w-])", "ID", said)
    return _NUMBERS.sub(r"\1N", said)


def _changes(key: tuple[int, str], one: Acts, other: Acts) -> Iterator[Change]:
    before, after = one.get(key, []), other.get(key, [])
    matcher = SequenceMatcher(
        None, [said for said, _ in before], [said for said, _ in after], autojunk=False
    )
    for how, a, b, c, d in matcher.get_opcodes():
        if how != "equal":
            yield Change(*key, [event for _, event in before[a:b]], [e for _, e in after[c:d]])


def page(first: Recording, second: Recording) -> str:
    """Return the differences as text, with one line for what is the same."""
    changes = compare(first, second)
    lines = [f"< {_title(first)}", f"> {_title(second)}"]
    lines.append(f"the same in both: {same(first, changes)} events")
    head: tuple[int, str] | None = None
    titles = text.stages(observed=first.observed or second.observed)
    for change in changes:
        if head != (change.stage, change.actor):
            head = change.stage, change.actor
            what = titles.get(change.stage, "before stage 1")
            lines += ["", f"{change.stage} {change.actor:<8} {what}"]
        lines += [f"  < {line(event)}" for event in change.first]
        lines += [f"  > {line(event)}" for event in change.second]
    return "".join(f"{text.clean(line)}\n" for line in lines)


def same(first: Recording, changes: list[Change]) -> int:
    """Return how many events of the first start the second has too."""
    acts = sum(len(acts) for acts in _acts(first).values())
    return acts - sum(len(change.first) for change in changes)


def _title(found: Recording) -> str:
    mark = " (GPUs SIMULATED)" if found.simulated else ""
    return f"{found.id}: {result(found)}{mark}"


def line(event: Event) -> str:
    """Return what an event is, and its error."""
    row = text.row(event)
    outcome = f" = {event.errno}" if event.errno else ""
    return f"{row.what}{outcome}"
