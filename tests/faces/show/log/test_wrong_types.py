"""Events whose fields, or arguments, are of other types than minirun writes, in every view."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from minirun.faces.recordings import path as recording
from minirun.faces.show.compare import snapshots
from minirun.faces.show.log.event import event_of
from minirun.faces.show.log.recording import Recording, read
from minirun.faces.show.step import anatomy
from night import CASES
from shapes import FEW, VALUES, call, fault, nodes, replaced

VIEWS = (
    ("timeline", "FILE"), ("timeline", "--text", "FILE"), ("timeline", "--plain", "FILE"),
    ("timeline", "--html", "-", "FILE"), ("timeline", "--trace", "-", "FILE"),
    ("timeline", "--svg", "OUT", "FILE"), ("timeline", "--svg", "OUT", "--figure", "1", "FILE"),
    ("timeline", "--svg", "OUT", "--figure", "2", "FILE"),
    ("timeline", "--svg", "OUT", "--figure", "3", "--upto", "5", "FILE"),
    ("timeline", "--svg", "OUT", "--figure", "4", "FILE"),
    ("timeline", "--level", "syscalls", "FILE"), ("timeline", "--level", "summary", "FILE"),
    ("timeline", "--stage", "5", "FILE"), ("replay", "--speed", "0", "FILE"), ("diff", "FILE"),
    ("replay", "--speed", "0", "--plain", "FILE"), ("diff", "--json", "FILE"),
    ("diff", "FILE", "FILE"), ("diff", "--html", "-", "FILE", "FILE"), ("diff", "--files", "FILE"),
)  # fmt: skip
RECORDINGS = ("gpus-0-1", "failing-hook", "figure-1", "pod", "cdi")
"""Of a GPU, of a hook that fails, of several containers, of an engine, of GPUs by CDI."""


def places(events: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the fields of all events, and the arguments of each call or message by its name."""
    fields = {(key,) for event in events for key in event}
    arguments = {(str(e["name"]), key) for e in events for key in e.get("args") or {}}
    return [*sorted(fields), *sorted(arguments)]


def changed(event: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    if len(place) == 1:
        return event | {place[0]: value} if place[0] in event else event
    if event["name"] == place[0] and place[1] in (event.get("args") or {}):
        return event | {"args": event["args"] | {place[1]: value}}
    return event


# a command may leave files open, since its process ends with it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", RECORDINGS)
def test_no_view_fails_in_python(minirun: Program, tmp_path: Path, name: str) -> None:
    """The views of a wrong field are shared out among the recordings; at night each has all."""
    events = [json.loads(line) for line in recording(name).read_text().splitlines()]
    file, out = tmp_path / "events.jsonl", tmp_path / "out"
    faults: dict[str, list[str]] = {}
    turn = 0
    views = VIEWS if CASES else VIEWS[RECORDINGS.index(name) :: len(RECORDINGS)]
    for index, place in enumerate(places(events)):
        for value in VALUES if CASES else [FEW[index % len(FEW)]]:
            rows = [changed(event, place, value) for event in events]
            half = rows[: len(rows) // 2] + events[len(rows) // 2 :]
            text = "\n".join(json.dumps(row) for row in (half if turn % 3 else rows))
            file.write_text(f"{text}\n")
            turn += 1
            for view in views if len(place) == 1 else [VIEWS[turn % len(VIEWS)]]:
                words = [{"FILE": str(file), "OUT": str(out)}.get(word, word) for word in view]
                status, said = call(minirun, *words)
                if found := fault(status, said):
                    faults.setdefault(found, []).append(f"{place} = {value!r}: {' '.join(view)}")
    assert not faults, "\n".join(f"{key}  ({len(row)}: {row[0]})" for key, row in faults.items())


def test_a_snapshot_of_another_shape_is_none() -> None:
    """The views of snapshots take each that is left; at least a process id may be of any kind."""
    [gpus] = read(recording("gpus-0-1"))
    whole = gpus.snapshots["5:end"]
    taken = next(e for e in gpus.events if e.name == "snapshot" and e.args["at"] == "5:end")
    text = json.dumps(taken.fields())
    left = 0
    for place in nodes(taken.args):
        for value in VALUES if place else ({},):
            event = event_of(json.loads(replaced(text, ("args", *place), value)))
            for snapshot in Recording("c", [event]).snapshots.values():
                left += 1
                snapshots.compare(whole, snapshot)
                snapshots.since(whole, snapshot)
                anatomy.page(snapshot)
    assert left
