"""What a live page shows now: the events so far, where the run is held, and what was answered."""

import threading
from typing import Any

from minirun.core.errors import UsageError
from minirun.show import html
from minirun.show.changed import Change
from minirun.show.event import Event
from minirun.show.order import clones_before_children
from minirun.show.recording import Recording

_FIRST = 20.0
"""Seconds that a page waits for the first event."""


class Board:
    """Written by the stepper, read by the threads of the server."""

    def __init__(self, container_id: str, language: str) -> None:
        self.id = container_id
        self.language = language
        self.changed = threading.Condition()
        self.events: list[Event] = []
        self.version = 0
        """Counts what a page must be drawn anew for."""
        self.stop = ""
        """Where the run is held, in words; "" if it goes on."""
        self.stage = 0
        self.changes: list[Change] = []
        self.said = ""
        """The answer to the last button: text of the container, or of minirun."""
        self.over = False
        self.drawn_after_end = 0
        """Pages that have been drawn since the end."""
        self.streams = 0
        """Pages that wait for news."""

    def add(self, event: Event) -> None:
        """Add an event."""
        with self.changed:
            self.events.append(event)
            self.stage = event.stage or self.stage
            self.changed.notify_all()

    def show(self, **news: Any) -> None:
        """Set fields, and have every page drawn anew."""
        with self.changed:
            for name, value in news.items():
                setattr(self, name, value)
            self.version += 1
            self.changed.notify_all()

    def page(self, *, presenter: bool) -> str:
        """Return the page as it is now. Raises UsageError if no event comes."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.events or self.over, _FIRST):
                raise UsageError("no event yet")
            recording = Recording(self.id, clones_before_children(list(self.events)))
            live = {
                "presenter": presenter, "stop": self.stop, "stage": self.stage, "said": self.said,
                "version": self.version, "over": self.over,
                "changes": [change._asdict() for change in self.changes],
            }  # fmt: skip
            self.drawn_after_end += self.over
        return html.render([recording], language=self.language, live=live)

    def news(self, seen: int, seconds: float) -> "int | None":
        """Wait until there is another version than `seen`; return it, or None after a time."""
        with self.changed:
            found = self.changed.wait_for(lambda: self.version != seen, seconds)
            return self.version if found else None
