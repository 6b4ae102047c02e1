"""`minirun diff` as text: two snapshots of a start, and two starts. The marks are diff(1)'s.

The list of files comes out as the seed of this project has it: names as `find .` prints them, in
the form of diff(1), `> ./dev/nvidia0` for what is new and `< …` for what has gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minirun.common import screen
from minirun.faces.knowledge.texts import Topic
from minirun.faces.show.compare import comparer, starts
from minirun.faces.show.compare.snapshots import LineDifference, lines
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.event_row import clean
from minirun.faces.show.log.recorded import result
from minirun.faces.show.log.recording import Recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.snapshot import Snapshot

_WIDTH, _IN = 96, " " * 6
"""Columns of a reason, and how far it is from the edge."""


def of_snapshots(changes: list[LineDifference], parts: Sequence[str]) -> str:
    """Return what differs in these parts; parts in which nothing does say so."""
    rows = {part: ["  the same"] for part in parts}
    for change in changes:
        rows[change.part] = [f"< {clean(line)}" for line in change.gone]
        rows[change.part] += [f"> {clean(line)}" for line in change.new]
    return "".join("\n".join([f"{part}:", *rows[part]]) + "\n" for part in parts)


def of_files(before: Snapshot, after: Snapshot) -> str:
    """Return the names of files that differ as diff(1) prints two listings of find(1).

    Each block begins with the lines' numbers and what happened: 48a49 for a line that came.
    """
    sides = (
        {"files": [(name, (at, name)) for at, name in enumerate(map(_name, lines(one, "files")))]}
        for one in (before, after)
    )
    blocks, longer = [], 0
    for _, gone, new in comparer.compare(*sides, in_order=True):
        old_at = gone[0][0] if gone else new[0][0] - longer
        new_at = new[0][0] if new else gone[0][0] + longer
        how = "c" if gone and new else "a" if new else "d"
        blocks.append(f"{_range(old_at, len(gone))}{how}{_range(new_at, len(new))}")
        blocks += [f"< {clean(name)}" for _, name in gone]
        blocks += ["---"] if gone and new else []
        blocks += [f"> {clean(name)}" for _, name in new]
        longer += len(new) - len(gone)
    return "".join(f"{line}\n" for line in blocks)


def _name(line: str) -> str:
    """Return the name alone: without a link's target, a node's numbers, a directory's slash."""
    name = line.partition(" -> ")[0]
    head, _, tail = name.rpartition(" ")
    if ":" in tail and head.endswith((" c", " b")):
        name = head[:-2]
    return name.rstrip("/|=")


def _range(start: int, count: int) -> str:
    """Return `count` lines after the first `start`, as diff(1) writes them; the line before if
    there are none."""
    if not count:
        return str(start)
    return str(start + 1) if count == 1 else f"{start + 1},{start + count}"


def of_starts(first: Recording, second: Recording, language: str = "en") -> str:
    """Return the differences as text, with one line for what is the same; and known reasons."""
    changes = starts.compare(first, second)
    lines = [f"< {_title(first)}", f"> {_title(second)}"]
    lines.append(f"the same in both: {starts.same(first, second, changes)} events")
    head: starts.Part | None = None
    explained: set[Topic] = set()
    titles = event_row.stages(observed=first.observed or second.observed)
    for change in changes:
        if head != change.part:
            head = stage, actor = change.part
            lines += ["", f"{stage} {actor:<8} {titles.get(stage, 'before stage 1')}"]
        lines += _rows("<", change.gone, first, language, explained)
        lines += _rows(">", change.new, second, language, explained)
    return "".join(f"{clean(line)}\n" for line in lines)


def _title(recording: Recording) -> str:
    mark = " (GPUs SIMULATED)" if recording.simulated else ""
    return f"{recording.name}: {result(recording)}{mark}"


def _rows(
    mark: str, events: list[Event], recording: Recording, language: str, explained: set[Topic]
) -> Iterator[str]:
    """Yield a line for each event, and below those that stand together why, if that is new."""
    for topic, each in starts.by_reason(events, recording, language):
        yield from (f"  {mark} {starts.line(event)}" for event in each)
        if topic and topic not in explained:
            explained.add(topic)
            yield from event_row.wrap(
                f"{topic.title}. {topic.here}", min(_WIDTH, screen.width(1)), _IN
            )
