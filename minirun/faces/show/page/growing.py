"""A page of a run that goes on: what it lacks, as a record that its script adds (page/grow.js)."""

from itertools import takewhile
from typing import Any

from minirun.faces.knowledge.texts import Phrases
from minirun.faces.show.figures import figure_3
from minirun.faces.show.log.axis import Axis
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.order import clones_before_children
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.page import page_data


def recording(container_id: str, events: list[Event]) -> Recording:
    """Return a recording of the events so far, in the order of causes, without time at gates."""
    return Recording(container_id, clones_before_children(events)).unheld


def news(
    container_id: str, events: list[Event], had: int, language: str, *, over: bool = False
) -> dict[str, Any]:
    """Return what a page lacks that was made of the first `had` of these events.

    `from`: how many of its events stay as they are; those after it are replaced by `events`, with
    `rows` (the texts of the table) beside them. All else is as it is now: see page_data.data.
    `over`: no stage is to come any more.
    """
    now = recording(container_id, events)
    since = _unchanged(recording(container_id, events[:had]), now)
    axis, say = Axis([now]), Phrases(language)
    whole = page_data.data([now], axis, language)
    own = whole["recordings"][0]
    return {
        "from": since,
        "events": own["events"][since:],
        "rows": [page_data.cells(row) for row in page_data.rows(now, axis.start)[since:]],
        "lanes": own["lanes"],
        "simulated": own["simulated"],
        "snapshots": own["snapshots"],
        "milestones": own["milestones"],
        "knots": whole["knots"],
        "breaks": whole["breaks"],
        "topics": whole["topics"],
        "facts": page_data.facts(now, say),
        "stages": [page_data.stage_facts([now], n, say, live=not over) for n in range(1, 8)],
        "banner": page_data.simulated([now], say),
    }


def still(container_id: str, events: list[Event]) -> str:
    """Return the picture that is printed, as SVG: of a run that is over."""
    return figure_3.svg(recording(container_id, events))


def _unchanged(before: Recording, now: Recording) -> int:
    """Return how many events of a page stay: a clone may be told after what its child did."""
    pairs = zip(before.events, now.events, strict=False)
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    if before.birth is not now.birth and now.birth:
        same = min(same, now.events.index(now.birth))
    return same
