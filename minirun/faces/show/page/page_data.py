"""What the page's script knows: the events of recordings as plain records, once for all views.

A page that is there already, of a run that goes on, is told only what it lacks: `news`.
"""

import json
from typing import Any

from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces import knowledge
from minirun.faces.knowledge.texts import Phrases
from minirun.faces.show.compare.snapshots import PARTS, lines
from minirun.faces.show.figures import figure_3
from minirun.faces.show.log import event_row
from minirun.faces.show.log.axis import Axis, began
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.milestones import of_one
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.order import Clock, steps
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.log.topics import Topics

_MILESTONE = 76
"""Characters of a milestone at most: one line of a card that fits on a projector."""
_NOTES = ("nvidia-container-cli", "warning", "network")
_FORMS = {"netlink": "syscall"}
"""A request of rtnetlink is drawn as what it is too: a call into the kernel."""
SIMULATED = "SIMULATED: the GPUs are the simulated driver's. No GPU was used."


def facts(recording: Recording, say: Phrases) -> str:
    """Return how much a recording has, and how it went."""
    failed = [s for s in recording.stages if s.error]
    words = [
        say("{} events", len(recording.events)),
        event_row.duration(recording.end - recording.start),
        *(say("stage {} failed: {}", s.number, event_row.clean(s.error)) for s in failed),
    ]
    if recording.observed:
        words.append(say("observed: actors, messages and stages are inferred from strace"))
    if not failed:
        words.append(say("complete") if recording.complete else say("not complete"))
    if gates := sum(event.kind == "gate" for event in recording.events):
        held = event_row.duration(recording.held or recording.waits.sums[-1])
        where = say("1 gate") if gates == 1 else say("{} gates", gates)
        if recording.held:
            words.append(say("held at {} for {}, which no time here includes", where, held))
        else:
            words.append(say("held at {} for {}, which no stage's time includes", where, held))
    if recording.unreadable:
        words.append(say("{} lines of the file are no events", recording.unreadable))
    return ", ".join(words)


def simulated(recordings: list[Recording], say: Phrases) -> str:
    """Return that GPUs are simulated, and whose; "" if none are."""
    names = [event_row.clean(r.name) for r in recordings if r.simulated]
    if not names:
        return ""
    whose = "" if len(names) == len(recordings) else f" ({say('container {}', ', '.join(names))})"
    return say(SIMULATED) + whose


def stage_facts(
    recordings: list[Recording], number: int, say: Phrases, *, live: bool = False
) -> str:
    """Return who did a stage, and how long it took if there is only one run."""
    found = {s.number: s for r in reversed(recordings) for s in r.stages}
    stage = found.get(number)
    if not stage:
        return say("not yet") if live else say("not in this recording")
    took = f" · {figure_3.took(recordings[0], stage, say)}" if len(recordings) == 1 else ""
    return event_row.clean(stage.actor) + took


def rows(recording: Recording, start: int) -> list[event_row.Row]:
    """Return a row of the table for each event; times since `start`, which never run backwards."""
    found, clock = [], Clock()
    for event in recording.events:
        row = event_row.row(event, start, clock.time(event))
        if row.kind == "end":
            row = row._replace(took=event_row.duration(recording.worked(event)))
        found.append(row)
    return found


def cells(row: event_row.Row) -> list[str]:
    """Return the texts of a row: time, stage, who, what, result, took, why."""
    words = (row.time, row.stage, row.actor, row.what, row.result, row.took, row.why)
    return [event_row.clean(word) for word in words]


def data(recordings: list[Recording], axis: Axis, language: str) -> dict[str, Any]:
    """Return what the script needs beside the tables' texts."""
    topics = Topics(language)
    numbers = steps([recording.events for recording in recordings])
    return {
        "knots": axis.knots,
        "breaks": [(begin - axis.start, end - axis.start) for begin, end in axis.breaks],
        "recordings": [
            {
                "id": event_row.clean(recording.name),
                "simulated": recording.simulated,
                "observed": recording.observed,
                "lanes": [event_row.clean(actor) for actor in figure_3.lanes(recording)],
                "events": [
                    {"step": step, **_event(event, recording, axis.start, topics)}
                    for step, event in zip(mine, recording.events, strict=True)
                ],
                "snapshots": _snapshots(recording),
                "milestones": _milestones(recording),
            }
            for recording, mine in zip(recordings, numbers, strict=True)
        ],
        "topics": topics.found,
        "parts": knowledge.words(language)["parts"],
        "words": Phrases(language).known,
    }


def _event(event: Event, recording: Recording, start: int, topics: Topics) -> dict[str, Any]:
    args = {} if event.name == "snapshot" else event.args
    to = event.args.get("to", "") if event.kind == "message" else ""
    return {
        "t": event.t - start,
        "began": began(event),
        "stage": event.stage,
        "pid": event.pid,
        "kind": _FORMS.get(event.kind, event_row.clean(event.kind)),
        "name": event_row.clean(event.name),
        "failed": event.failed,
        "weight": event_row.weight(event.name),
        "to": "init" if event is recording.birth else event_row.clean(str(to)),
        "args": {event_row.clean(str(key)): _word(value) for key, value in args.items()},
        "topics": topics.places_of(event),
    }


def _milestones(recording: Recording) -> list[dict[str, Any]]:
    """Return what a presenter names of each stage: what many calls come to, what is said and done.

    Each with the numbers of its events.
    """
    recording = recording.unheld
    narrator, found = Narrator("stages", recording.init), []
    numbers = {id(event): at for at, event in enumerate(recording.events)}
    for event in recording.events:
        for row, own in narrator.rows_with_events(event):
            if not _is_presented(row, event):
                continue
            what = f"{event.name}: {row.why}" if event is recording.birth else row.what
            found.append({
                "stage": event.stage, "what": event_row.fit(event_row.clean(what), _MILESTONE),
                "actor": event_row.clean(row.actor), "events": [numbers[id(each)] for each in own],
            })  # fmt: skip
    return found


def _is_presented(row: event_row.Row, event: Event) -> bool:
    """Return False for the edges of a stage, and for what only the machinery needs."""
    if row.kind == "message":
        return event_row.is_named(event.name)
    if row.kind == "note":
        return bool(of_one(event)) or event.name in _NOTES
    return row.kind not in ("begin", "end")


def _word(value: object) -> str:
    if isinstance(value, str):
        return event_row.clean(value)
    return event_row.clean(json.dumps(value, ensure_ascii=False))


def _snapshots(recording: Recording) -> dict[str, Any]:
    """Return the boundaries, and for each part its lines with a mask: bit n, there at boundary n.

    Snapshots differ little from one to the next, so a line stands here once.
    """
    taken = [at for at in recording.snapshots if at in BOUNDARIES]
    parts: dict[str, dict[str, int]] = {part: {} for part in PARTS}
    for bit, at in enumerate(taken):
        for part, masks in parts.items():
            for line in lines(recording.snapshots[at], part):
                name = event_row.clean(line)
                masks[name] = masks.get(name, 0) | 1 << bit
    return {
        "at": taken,
        "parts": {part: sorted(masks.items()) for part, masks in parts.items()},
    }
