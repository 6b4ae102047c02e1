"""A recording as one HTML page, and as the fragment that notebooks show.

The page stands alone: style and script are inside it, its Content-Security-Policy lets nothing be
loaded and nothing else run, and it needs no network. What it says is there without the script too:
a still picture (minirun.show.figure) and a table of all events. The script (page/*.js) draws the
lanes from the table and adds zoom, search, filters, the details of an event, and the comparison of
two snapshots.

Names, paths and arguments were chosen by the container's image. They reach the page escaped, or as
JSON in a block that no browser executes, and the script only ever makes text of them.
"""

import hashlib
import html
import json
import re
from base64 import b64encode
from pathlib import Path
from string import Template
from typing import Any

from minirun import knowledge
from minirun.core.settings import BOUNDARIES
from minirun.knowledge.texts import Phrases
from minirun.show import figure, text
from minirun.show.axis import Axis, began
from minirun.show.differ import PARTS, lines
from minirun.show.event import Event
from minirun.show.narrate import Narrator
from minirun.show.order import Clock
from minirun.show.recording import Recording
from minirun.show.topics import Topics

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = (
    "draw.js", "layout.js", "events.js", "search.js", "differ.js", "present.js", "export.js",
    "live.js", "page.js",
)  # fmt: skip
_MARKED = re.compile(r"{{(.*?)}}")
"""A phrase of page.html that is translated."""
_ENGLISH = Phrases()
_SIMULATED = "SIMULATED: the GPUs are the simulated driver's. No GPU was used."


def render(
    recordings: list[Recording],
    language: str = knowledge.ENGLISH,
    live: "dict[str, Any] | None" = None,
) -> str:
    """Return one self-contained HTML page that shows `recordings` on a common axis of time.

    `language` is that of the page and its topics; what the log says stays in English. `live`: where
    the run is held, for a page that asks its server for news (minirun.show.web).
    Raises ValueError if there is no recording.
    """
    if not recordings:
        raise ValueError("there is no recording to show")
    axis = Axis(recordings)
    say = Phrases(language)
    style = (_PAGE / "page.css").read_text(encoding="utf-8")
    script = "".join((_PAGE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = '"use strict";\n(() => {\n' + script + "})();\n"
    page = (_PAGE / "page.html").read_text(encoding="utf-8")
    page = _MARKED.sub(lambda found: html.escape(say(found[1])), page)
    return Template(page).substitute(
        language=language,
        title=html.escape(_heading(recordings, say)),
        policy=_policy(style, script) + ("; connect-src 'self'" if live else ""),
        style=style,
        script=script,
        facts="".join(f"<li>{_facts(r, say)}</li>" for r in recordings),
        banner=_banner(recordings, say),
        stages=_stages(recordings, say),
        figures="".join(
            f"<figure><figcaption>{_facts(r)}</figcaption>{figure.svg(r, axis)}</figure>"
            for r in recordings
        ),
        tables="".join(_table(r, n, axis.start) for n, r in enumerate(recordings)),
        data=_json({**_data(recordings, axis, language), "live": live}),
    )


def fragment(recording: Recording) -> str:
    """Return a small piece of HTML without script or style sheet: the lanes, and the same as text.

    It takes the colour of the text around it, so it suits a notebook's light and dark theme.
    """
    narrator = Narrator("stages", recording.init)
    rows = [row for event in recording.events for row in narrator.rows(event)]
    items = "".join(f"<li>{html.escape(_sentence(row))}</li>" for row in rows)
    banner = f"<strong>{_SIMULATED}</strong>" if recording.simulated else ""
    return (
        f'<figure style="margin: 0.5em 0; max-width: {figure.WIDTH}px; color: inherit">'
        f"<figcaption>{_facts(recording)} {banner}</figcaption>{figure.svg(recording)}"
        '<details><summary style="cursor: pointer">The same as text</summary>'
        f'<ol style="font-size: 90%; overflow-wrap: anywhere">{items}</ol></details></figure>'
    )


def _policy(style: str, script: str) -> str:
    """Return a policy under which only these two run: Content Security Policy Level 3."""

    def sha256(source: str) -> str:
        digest = hashlib.sha256(source.encode()).digest()
        return f"'sha256-{b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; img-src data:; style-src {sha256(style)}; "
        f"script-src {sha256(script)}; base-uri 'none'; form-action 'none'"
    )


def _heading(recordings: list[Recording], say: Phrases) -> str:
    names = [text.clean(r.id) for r in recordings]
    if len(names) == 1:
        return say("How container {} was made", names[0])
    return say("How containers {} and {} were made", ", ".join(names[:-1]), names[-1])


def _facts(recording: Recording, say: Phrases = _ENGLISH) -> str:
    """Return one line: whose recording, how much of it, and how it went."""
    failed = [s for s in recording.stages if s.error]
    facts = [
        say("{} events", len(recording.events)),
        text.duration(recording.end - recording.start),
        *(say("stage {} failed: {}", s.number, text.clean(s.error)) for s in failed),
    ]
    if not failed:
        facts.append(say("complete") if recording.complete else say("not complete"))
    if gates := sum(event.kind == "gate" for event in recording.events):
        held = text.duration(recording.waits.within(recording.start, recording.end))
        facts.append(say("held at {} gates for {}, which no stage's time includes", gates, held))
    if recording.unreadable:
        facts.append(say("{} lines of the file are no events", recording.unreadable))
    return f"<b>{html.escape(text.clean(recording.id))}</b>: " + html.escape(", ".join(facts))


def _banner(recordings: list[Recording], say: Phrases) -> str:
    names = [text.clean(r.id) for r in recordings if r.simulated]
    if not names:
        return ""
    whose = "" if len(names) == len(recordings) else f" ({say('container {}', ', '.join(names))})"
    return f'<p class="banner" role="note">{html.escape(say(_SIMULATED) + whose, quote=False)}</p>'


def _stages(recordings: list[Recording], say: Phrases) -> str:
    """Return the seven stages as list items, with their true length if there is only one run."""
    found = {s.number: s for r in reversed(recordings) for s in r.stages}
    items = []
    for number, what in text.STAGES.items():
        stage = found.get(number)
        facts = say("not in this recording")
        if stage:
            facts = text.clean(stage.actor)
            facts += f" · {figure.took(recordings[0], stage)}" if len(recordings) == 1 else ""
        items.append(
            f'<li><button type="button" data-stage="{number}" disabled>'
            f'<span><b class="number">{number}</b> <span class="who">{html.escape(facts)}</span>'
            "</span>"
            f'<span class="what">{html.escape(say(what))}</span></button></li>'
        )
    return "".join(items)


def _table(recording: Recording, number: int, start: int) -> str:
    """Return all events as a table; the script reads its texts, so they stand here once."""
    rows, clock = [], Clock()
    for index, event in enumerate(recording.events):
        birth = event is recording.birth
        row = text.row(event, start, clock.time(event, birth=birth))
        if row.kind == "end":
            row = row._replace(took=text.duration(recording.worked(event)))
        cells = (row.time, row.stage, row.actor, row.what, row.result, row.took, row.why)
        name = f"{number}-{index}"
        mark = f' class="{row.kind}"' if row.kind in ("begin", "end") else ""
        rows.append(
            f'<tr id="row-{name}"{mark}><th scope="row"><a href="#event-{name}">{index + 1}</a>'
            + "".join(f"<td>{html.escape(text.clean(cell))}" for cell in cells)
        )
    heads = ("", "time", "stage", "who", "what", "result", "took", "why")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="caption-{number}"><table>'
        f'<caption id="caption-{number}">All events of {_facts(recording)}</caption>'
        "<thead><tr>" + "".join(f'<th scope="col">{head}' for head in heads) + "</thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _sentence(row: text.Row) -> str:
    """Return a row as one sentence, for a reader or a screen reader."""
    head = f"stage {row.stage}, {row.actor}:" if row.kind == "begin" else f"{row.actor}:"
    words = [row.time, head, row.what, row.result, row.took, f"({row.why})" if row.why else ""]
    return text.clean(" ".join(word for word in words if word))


def _json(data: dict[str, Any]) -> str:
    """Return JSON that can stand in a script element: nothing in it ends one or begins one."""
    packed = json.dumps(data, separators=(",", ":"))
    return packed.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(recordings: list[Recording], axis: Axis, language: str) -> dict[str, Any]:
    """Return what the script needs beside the tables' texts."""
    topics = Topics(language)
    return {
        "knots": axis.knots,
        "breaks": [(begin - axis.start, end - axis.start) for begin, end in axis.breaks],
        "recordings": [
            {
                "id": text.clean(recording.id),
                "simulated": recording.simulated,
                "lanes": [text.clean(actor) for actor in figure.lanes(recording)],
                "events": [_event(e, recording, axis.start, topics) for e in recording.events],
                "snapshots": _snapshots(recording),
            }
            for recording in recordings
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
