"""A recording as text: played at its own pace, or all at once (`timeline`, `replay`)."""

import os
from collections.abc import Callable

from minirun.common import screen
from minirun.faces.show.log import event_row, narrate
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.recorded import result
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.text import paint

_LEAST = 12
"""Columns that an id keeps, however narrow the terminal is."""


def title(found: Recording, *, plain: bool = False) -> str:
    """Return one line about a recording."""
    end = found.stages[-1].end or 0 if found.complete else 0
    took = end - found.start - found.waits.before(end) if end else 0
    parts = [
        result(found) + (f" after {event_row.duration(took)}" if took else ""),
        _held(found),
        f"{found.unreadable} lines unreadable" if found.unreadable else "",
    ]
    mark = " (GPUs SIMULATED)" if found.simulated else ""
    rest = f"{mark}: {', '.join(part for part in parts if part)}{'.' * plain}"
    unicode, name = screen.speaks_unicode(), found.name
    if not plain and os.isatty(1):
        room = screen.width(1) - len("container ") - len(rest)
        name = event_row.cut(name, max(room, _LEAST), event_row.dots(unicode))
    return event_row.clean(f"container {name}{rest}", unicode)


def _held(found: Recording) -> str:
    """Say how long the run stood still at gates, up to its last stage's end."""
    end = found.stages[-1].end if found.stages else None
    spans = [span for span in found.waits.spans if span[0] <= (end or found.end)]
    if not spans:
        return ""
    held = event_row.duration(sum(last - first for first, last in spans))
    return f"{held} at {len(spans)} gate{'s' * (len(spans) > 1)}"


def draw(
    found: Recording,
    style: str,
    level: str,
    pause: Callable[[int], None] | None,
    write: Callable[[str], object],
    wanted: Callable[[Event], bool] = lambda event: True,
) -> None:
    """Draw a recording. `style`: show.text.paint; `level`: show.log.narrate.

    Only what is `wanted` is drawn; times and counts are those of the whole start. `write` gets the
    text. `pause` is called before each event, with the nanoseconds since the one before; None: all
    at once.
    """
    narrator = narrate.Narrator(level, found.init)
    painted = paint.painter(1, style, full=True)
    told = zip(found.events, found.unheld.events, strict=True)
    shown = ((event, narrator.rows(own)) for event, own in told)
    if pause is None:
        write(painted([row for event, rows in shown if wanted(event) for row in rows]))
        return
    before = found.start
    for event, rows in shown:
        pause(max(0, event.t - before))
        before = event.t
        if rows and wanted(event):
            write(painted(rows))
