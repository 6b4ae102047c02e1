"""A recording as one HTML page, and as the fragment that notebooks show.

The page stands alone: style and script are inside it, its Content-Security-Policy lets nothing be
loaded and nothing else run, and it needs no network. What it says is there without the script too:
a still picture (minirun.faces.show.figures.figure_3) and a table of all events. The script
(page/*.js) draws the lanes from the table and adds zoom, search, filters, the details of an event,
and the comparison of two snapshots.

Names, paths and arguments were chosen by the container's image. They reach the page escaped, or as
JSON in a block that no browser executes, and the script only ever makes text of them.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from base64 import b64encode
from pathlib import Path
from string import Template
from typing import Any

from minirun.faces import knowledge
from minirun.faces.knowledge.texts import Phrases
from minirun.faces.show.compare.starts_page import Pair
from minirun.faces.show.figures import figure_3
from minirun.faces.show.log import event_row
from minirun.faces.show.log.axis import Axis
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.recording import Recording, unheld
from minirun.faces.show.page import page_data

_PAGE = Path(__file__).parent
_SCRIPTS = (
    "sizes.js", "draw.js", "time_axis.js", "labels.js", "events.js", "search.js", "differ.js",
    "present.js", "export.js", "grow.js", "live.js", "page.js",
)  # fmt: skip
_MARKED = re.compile(r"{{(.*?)}}")
"""A phrase of page.html that is translated."""
_ENGLISH = Phrases()


def render(
    recordings: list[Recording],
    language: str = knowledge.ENGLISH,
    live: dict[str, Any] | None = None,
    pair: Pair | None = None,
) -> str:
    """Return one self-contained HTML page that shows `recordings` on a common axis of time.

    `language` is that of the page and its topics; what the log says stays in English. `live`: where
    the run is held, for a page that is told how it goes on: see minirun.faces.show.web.board.
    `pair`: the two `recordings` are two starts that are compared
    (minirun.faces.show.compare.starts_page). Raises ValueError if there is no recording.
    """
    if not recordings:
        raise ValueError("there is no recording to show")
    recordings = unheld(recordings)
    axis = Axis(recordings)
    say = Phrases(language)
    style = (_PAGE / "page.css").read_text(encoding="utf-8")
    script = "".join((_PAGE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = '"use strict";\n(() => {\n' + script + "})();\n"
    page = (_PAGE / "page.html").read_text(encoding="utf-8")
    known = page_data.data(recordings, axis, language)
    page = _MARKED.sub(lambda found: html.escape(say(found[1])), page)
    return Template(page).substitute(
        language=language,
        title=html.escape(_heading(recordings, say)),
        policy=_policy(style, script) + _reach(live),
        style=style,
        script=script,
        facts="".join(f"<li>{_facts(r, say)}</li>" for r in recordings),
        banner=_banner(recordings, say),
        starts=pair.section(say) if pair else "",
        stages=_stages(recordings, say, live=bool(live and not live["over"])),
        figures="".join(
            f"<figure><figcaption>{_facts(r)}</figcaption>{figure_3.svg(r, axis)}</figure>"
            for r in recordings
        ),
        tables="".join(_table(r, n, axis.start) for n, r in enumerate(recordings)),
        data=_json({**known, "live": live, "only": pair.only() if pair else []}),
    )


def fragment(recording: Recording, *, held: bool = False) -> str:
    """Return a small piece of HTML without script or style sheet: the lanes, and the same as text.

    It takes the colour of the text around it, so it suits a notebook's light and dark theme.
    `held`: the run stands still after the last event, which has a line of its own.
    """
    recording = recording.unheld
    narrator = Narrator("stages", recording.init)
    rows = [row for event in recording.events for row in narrator.rows(event)]
    pids = [event.pid for event in recording.events if event.actor != "step"]
    rows += narrator.last_of(pids[-1]) if held and pids else []
    items = "".join(f"<li>{html.escape(_sentence(row))}</li>" for row in rows)
    banner = f"<strong>{page_data.SIMULATED}</strong>" if recording.simulated else ""
    return (
        f'<figure style="margin: 0.5em 0; max-width: {figure_3.WIDTH}px; color: inherit">'
        f"<figcaption>{_facts(recording)} {banner}</figcaption>{figure_3.svg(recording)}"
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


def _reach(live: dict[str, Any] | None) -> str:
    """Return what a live page may speak to: its server; in a frame, the page around it."""
    return "; connect-src 'self'" if live and not live.get("framed") else ""


def _heading(recordings: list[Recording], say: Phrases) -> str:
    names = [event_row.clean(r.name) for r in recordings]
    if len(names) == 1:
        return say("How container {} was made", names[0])
    return say("How containers {} and {} were made", ", ".join(names[:-1]), names[-1])


def _facts(recording: Recording, say: Phrases = _ENGLISH) -> str:
    """Return one line: whose recording, how much of it, and how it went."""
    name = html.escape(event_row.clean(recording.name))
    return f"<b>{name}</b>: {html.escape(page_data.facts(recording, say))}"


def _banner(recordings: list[Recording], say: Phrases) -> str:
    words = page_data.simulated(recordings, say)
    return f'<p class="banner" role="note">{html.escape(words, quote=False)}</p>' if words else ""


def _stages(recordings: list[Recording], say: Phrases, *, live: bool) -> str:
    """Return the seven stages as list items."""
    facts = {n: page_data.stage_facts(recordings, n, say, live=live) for n in event_row.STAGES}
    who = {number: html.escape(words) for number, words in facts.items()}
    return "".join(
        f'<li><button type="button" data-stage="{number}" disabled>'
        f'<span><b class="number">{number}</b> '
        f'<span class="who">{who[number]}</span></span>'
        f'<span class="what">{html.escape(say(what))}</span></button></li>'
        for number, what in event_row.stages(observed=any(r.observed for r in recordings)).items()
    )


def _table(recording: Recording, number: int, start: int) -> str:
    """Return all events as a table; the script reads its texts, so they stand here once."""
    lines = []
    for index, row in enumerate(page_data.rows(recording, start)):
        name = f"{number}-{index}"
        mark = f' class="{row.kind}"' if row.kind in ("begin", "end") else ""
        lines.append(
            f'<tr id="row-{name}"{mark}><th scope="row"><a href="#event-{name}">{index + 1}</a>'
            + "".join(f"<td>{html.escape(cell)}" for cell in page_data.cells(row))
        )
    heads = ("", "time", "stage", "who", "what", "result", "took", "why")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="caption-{number}"><table>'
        f'<caption id="caption-{number}">All events of {_facts(recording)}</caption>'
        "<thead><tr>" + "".join(f'<th scope="col">{head}' for head in heads) + "</thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _sentence(row: event_row.Row) -> str:
    """Return a row as one sentence, for a reader or a screen reader."""
    head = f"stage {row.stage}, {row.actor}:" if row.kind == "begin" else f"{row.actor}:"
    words = [row.time, head, row.what, row.result, row.took, f"({row.why})" if row.why else ""]
    return event_row.clean(" ".join(word for word in words if word))


def _json(data: dict[str, Any]) -> str:
    """Return JSON that can stand in a script element: nothing in it ends one or begins one."""
    packed = json.dumps(data, separators=(",", ":"))
    return packed.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
