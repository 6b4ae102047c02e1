"""What the page's script knows: the events of recordings as plain records, once for all views.

A page that is there already, of a run that goes on, is told only what it lacks: `news`.
"""

import json
from typing import Any

from minirun import knowledge
from minirun.core.settings import BOUNDARIES
from minirun.knowledge.texts import Phrases
from minirun.show import figure, text
from minirun.show.axis import Axis, began
from minirun.show.differ import PARTS, lines
from minirun.show.event import Event
from minirun.show.milestones import of_one
from minirun.show.narrate import Narrator
from minirun.show.order import Clock, steps
from minirun.show.recording import Recording
from minirun.show.topics import Topics

_MILESTONE = 76
"""Characters of a milestone at most: one line of a card that fits on a projector."""
_NOTES = ("nvidia-container-cli", "warning")
SIMULATED = "SIMULATED: the GPUs are the simulated driver's. No GPU was used."


def facts(recording: Recording, say: Phrases) -> str:
    """Return how much a recording has, and how it went."""
    failed = [s for s in recording.stages if s.error]
    words = [
        say("{} events", len(recording.events)),
        text.duration(recording.end - recording.start),
        *(say("stage {} failed: {}", s.number, text.clean(s.error)) for s in failed),
    ]
    if recording.observed:
        words.append(say("observed: actors, messages and stages are inferred from strace"))
    if not failed:
        words.append(say("complete") if recording.complete else say("not complete"))
    if gates := sum(event.kind == "gate" for event in recording.events):
        held = text.duration(recording.held or recording.waits.sums[-1])
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
    names = [text.clean(r.id) for r in recordings if r.simulated]
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
    took = f" · {figure.took(recordings[0], stage, say)}" if len(recordings) == 1 else ""
    return text.clean(stage.actor) + took


def rows(recording: Recording, start: int) -> list[text.Row]:
    """Return a row of the table for each event; times since `start`, which never run backwards."""
    found, clock = [], Clock()
    for event in recording.events:
        row = text.row(event, start, clock.time(event))
        if row.kind == "end":
            row = row._replace(took=text.duration(recording.worked(event)))
        found.append(row)
    return found


def cells(row: text.Row) -> list[str]:
    """Return the texts of a row: time, stage, who, what, result, took, why."""
    words = (row.time, row.stage, row.actor, row.what, row.result, row.took, row.why)
    return [text.clean(word) for word in words]


def data(recordings: list[Recording], axis: Axis, language: str) -> dict[str, Any]:
    """Return what the script needs beside the tables' texts."""
    topics = Topics(language)
    numbers = steps([recording.events for recording in recordings])
    return {
        "knots": axis.knots,
        "breaks": [(begin - axis.start, end - axis.start) for begin, end in axis.breaks],
        "recordings": [
            {
                "id": text.clean(recording.id),
                "simulated": recording.simulated,
                "observed": recording.observed,
                "lanes": [text.clean(actor) for actor in figure.lanes(recording)],
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
        "kind": text.clean(event.kind),
        "name": text.clean(event.name),
        "failed": event.failed,
        "weight": text.weight(event.name),
        "to": "init" if event is recording.birth else text.clean(str(to)),
        "args": {text.clean(str(key)): _word(value) for key, value in args.items()},
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
        for row, own in narrator.told(event):
            if not _is_presented(row, event):
                continue
            what = f"{event.name}: {row.why}" if event is recording.birth else row.what
            found.append({
                "stage": event.stage, "what": text.fit(text.clean(what), _MILESTONE),
                "actor": text.clean(row.actor), "events": [numbers[id(each)] for each in own],
            })  # fmt: skip
    return found


def _is_presented(row: text.Row, event: Event) -> bool:
    """Return False for the edges of a stage, and for what only the machinery needs."""
    if row.kind == "message":
        return text.is_named(event.name)
    if row.kind == "note":
        return bool(of_one(event)) or event.name in _NOTES
    return row.kind not in ("begin", "end")


def _word(value: object) -> str:
    if isinstance(value, str):
        return text.clean(value)
    return text.clean(json.dumps(value, ensure_ascii=False))


def _snapshots(recording: Recording) -> dict[str, Any]:
    """Return the boundaries, and for each part its lines with a mask: bit n, there at boundary n.

    Snapshots differ little from one to the next, so a line stands here once.
    """
    taken = [at for at in recording.snapshots if at in BOUNDARIES]
    parts: dict[str, dict[str, int]] = {part: {} for part in PARTS}
    for bit, at in enumerate(taken):
        for part, masks in parts.items():
            for line in lines(recording.snapshots[at], part):
                name = text.clean(line)
                masks[name] = masks.get(name, 0) | 1 << bit
    return {
        "at": taken,
        "parts": {part: sorted(masks.items()) for part, masks in parts.items()},
    }
