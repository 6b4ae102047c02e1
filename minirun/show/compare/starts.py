"""Two starts side by side: what one did that the other did not (works on my node, not on yours).

Aligned by stage and by actor, since runtime and init work at the same time. What is each start's
own does not count as a difference: ids, pids, descriptors, times, and where the container's
directory lies. Nor do the cgroups above its own, which other containers may have made before. What
follows the start (the command's end, the clean-up) is not compared. The marks are diff(1)'s: < is
what only the first did, > what only the second did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from minirun.knowledge.texts import Topic
from minirun.show.compare import programs
from minirun.show.log.event import Event
from minirun.show.log.recorded import result
from minirun.show.log.recording import Recording
from minirun.show.text import event_row, paint

_OWN = ("fd", "dirfd", "userns", "old_fd", "new_fd", "pid", "to_pid", "prog_fd", "target_fd", "at")
"""Arguments that are numbers of one process: descriptors and pids."""
_NUMBERS = re.compile(r"(/proc/|/fd/|--pid=|pid[ =:]*)\d+")
_CGROUP = "/sys/fs/cgroup"
_PASSED_OVER = ("snapshot", "gate opened", "origin")
_LAST = 7
_WIDTH, _IN = 96, " " * 6
"""Columns of a reason, and how far it is from the edge."""
_ACTORS = ("runtime", "init", "hook", "cli")


class StartDifference(NamedTuple):
    """What one of two starts did, in a row, at one place of a stage: events of either."""

    stage: int
    actor: str
    first: list[Event]
    second: list[Event]

    @property
    def sides(self) -> tuple[tuple[int, list[Event]], tuple[int, list[Event]]]:
        """Both, with 0 and 1."""
        return (0, self.first), (1, self.second)


def compare(first: Recording, second: Recording) -> list[StartDifference]:
    """Return the differences of two starts, in the order of stages; none if both did the same."""
    if programs.program(first) != programs.program(second):
        return _unlike(first, second)
    one, other = _acts(first), _acts(second)
    keys = sorted({*one, *other}, key=lambda key: (key[0], _order(key[1])))
    return [change for key in keys for change in _changes(key, one, other)]


def _unlike(first: Recording, second: Recording) -> list[StartDifference]:
    """Return what each of two programs did that the other did not, a change for each actor."""
    one: dict[tuple[int, str], list[Event]] = {}
    other: dict[tuple[int, str], list[Event]] = {}
    for found, at in ((first, one), (second, other)):
        for event in programs.acts(found, _LAST):
            at.setdefault((event.stage, event.actor), []).append(event)
    changes = []
    for key in sorted({*one, *other}, key=lambda key: (key[0], _order(key[1]))):
        mine, theirs = one.get(key, []), other.get(key, [])
        own = programs.only(mine, theirs, first, second), programs.only(theirs, mine, second, first)
        changes += [StartDifference(*key, *own)] if any(own) else []
    return changes


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
        if not programs.is_above(event, found.id):
            key = (event.stage, event.actor)
            acts.setdefault(key, []).append((_compared(event, found.id), event))
    return acts


def _compared(event: Event, container_id: str) -> str:
    """Return an event without what is this one start's own."""
    args = {key: value for key, value in event.args.items() if key not in _OWN}
    said = json.dumps([event.kind, event.name, args, event.errno, event.failed], sort_keys=True)
    name = re.escape(container_id)
    said = re.sub(rf"/{name}\.[0-9a-f]{{8}}\b", f"/{container_id}", said)  # its cgroup
    said = re.sub(rf"(?!{_CGROUP})/[\w./-]*/{name}\b", "CONTAINER", said)
    said = re.sub(rf"(?<![\w-]){name}(?![\w-])", "ID", said)
    return _NUMBERS.sub(r"\1N", said)


def _changes(key: tuple[int, str], one: Acts, other: Acts) -> Iterator[StartDifference]:
    before, after = one.get(key, []), other.get(key, [])
    matcher = SequenceMatcher(
        None, [said for said, _ in before], [said for said, _ in after], autojunk=False
    )
    for how, a, b, c, d in matcher.get_opcodes():
        if how != "equal":
            yield StartDifference(
                *key, [event for _, event in before[a:b]], [e for _, e in after[c:d]]
            )


def page(first: Recording, second: Recording, language: str = "en") -> str:
    """Return the differences as text, with one line for what is the same; and known reasons."""
    changes = compare(first, second)
    lines = [f"< {_title(first)}", f"> {_title(second)}"]
    lines.append(f"the same in both: {same(first, second, changes)} events")
    head: tuple[int, str] | None = None
    told: set[Topic] = set()
    titles = event_row.stages(observed=first.observed or second.observed)
    for change in changes:
        if head != (change.stage, change.actor):
            head = change.stage, change.actor
            what = titles.get(change.stage, "before stage 1")
            lines += ["", f"{change.stage} {change.actor:<8} {what}"]
        lines += _told("<", change.first, first, language, told)
        lines += _told(">", change.second, second, language, told)
    return "".join(f"{event_row.clean(line)}\n" for line in lines)


def _told(
    mark: str, events: list[Event], found: Recording, language: str, told: set[Topic]
) -> Iterator[str]:
    """Yield a line for each event, and below those that stand together why, if that is new."""
    for topic, each in by_reason(events, found, language):
        yield from (f"  {mark} {line(event)}" for event in each)
        if topic and topic not in told:
            told.add(topic)
            yield from event_row.wrap(
                f"{topic.title}. {topic.here}", min(_WIDTH, paint.width(1)), _IN
            )


def by_reason(
    events: list[Event], found: Recording, language: str
) -> Iterator[tuple[Topic | None, list[Event]]]:
    """Yield events that stand together, and why the program did that; None: it is not known."""
    reasons = [programs.reason(found, event, line(event), language) for event in events]
    pairs = zip(reasons, events, strict=True)
    for topic, each in groupby(pairs, key=lambda pair: pair[0]):
        yield topic, [event for _, event in each]


def same(first: Recording, second: Recording, changes: list[StartDifference]) -> int:
    """Return how many events of the first start the second has too."""
    if programs.program(first) != programs.program(second):
        acts = len(list(programs.acts(first, _LAST)))
    else:
        acts = sum(len(acts) for acts in _acts(first).values())
    return acts - sum(len(change.first) for change in changes)


def _title(found: Recording) -> str:
    mark = " (GPUs SIMULATED)" if found.simulated else ""
    return f"{found.id}: {result(found)}{mark}"


def line(event: Event) -> str:
    """Return what an event is, and its error."""
    row = event_row.row(event)
    outcome = f" = {event.errno}" if event.errno else ""
    return f"{row.what}{outcome}"
