"""What a live page shows now: the events so far, where the run is held, and what was answered."""

from __future__ import annotations

import threading
from typing import Any

from minirun.core.errors import UsageError
from minirun.faces.show.compare.snapshots import LineDifference
from minirun.faces.show.log.event import Event
from minirun.faces.show.page import growing, html

_FIRST = 20.0
"""Seconds that a page waits for the first event."""


class Board:
    """Written by what holds the run, read by what serves its pages: threads of one process."""

    def __init__(self, container_id: str, language: str) -> None:
        self.id = container_id
        self.language = language
        self.changed = threading.Condition()
        self.events: list[Event] = []
        self.version = 0
        """Counts the changes of all that are no events."""
        self.stop = ""
        """Where the run is held, in words; "" if it goes on."""
        self.stage = 0
        self.changes: list[LineDifference] = []
        self.said = ""
        """The answer to the last button: text of the container, or of minirun."""
        self.over = False
        self.recorded = False
        """True if the run is a recording: there is no container to enter or to give up."""
        self.streams = 0
        """Pages that wait for news."""

    def add(self, *events: Event) -> None:
        """Add events."""
        with self.changed:
            self.events += events
            self.stage = next((e.stage for e in reversed(events) if e.stage), self.stage)
            self.changed.notify_all()

    def show(self, **news: Any) -> None:
        """Set fields, and tell every page."""
        with self.changed:
            for name, value in news.items():
                setattr(self, name, value)
            self.version += 1
            self.changed.notify_all()

    def page(self, *, presenter: bool, framed: bool = False) -> str:
        """Return the page as it is now. Raises UsageError if no event comes.

        `presenter`: it has the buttons. `framed`: it speaks with the page around it, as a
        notebook's widget does, and not with a server.
        """
        with self.changed:
            if not self.changed.wait_for(lambda: self.events or self.over, _FIRST):
                raise UsageError("no event yet")
            found = growing.recording(self.id, list(self.events))
            live = self._live() | {"presenter": presenter, "framed": framed}
        return html.render([found], language=self.language, live=live)

    def news(self, version: int, had: int, seconds: float) -> dict[str, Any] | None:
        """Return what a page lacks that has `had` events and that version; wait until it does.

        None if nothing came within the time. Shape: {"live": …, "grown": … of growing.news, and at
        the end "still": SVG}.
        """
        with self.changed:
            lacks = lambda: self.version != version or len(self.events) != had  # noqa: E731
            if not self.changed.wait_for(lacks, seconds):
                return None
            events, live = list(self.events), self._live()
        found: dict[str, Any] = {"live": live}
        over = live["over"] and bool(events)
        if over or len(events) != had:  # a stage that has not come by the end does not come
            found["grown"] = growing.news(self.id, events, had, self.language, over=over)
        if over:
            found["still"] = growing.still(self.id, events)
        return found

    def _live(self) -> dict[str, Any]:
        return {
            "stop": self.stop, "stage": self.stage, "said": self.said, "over": self.over,
            "version": self.version, "had": len(self.events), "recorded": self.recorded,
            "changes": [change._asdict() for change in self.changes],
        }  # fmt: skip
