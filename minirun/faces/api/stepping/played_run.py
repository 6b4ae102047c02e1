"""A recording, stepped through as if it were happening. Needs no root, no Linux, no container."""

from __future__ import annotations

from typing import NoReturn

from minirun.core.errors import StateError, UsageError
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces.api.stepping.holder import check
from minirun.faces.show.compare import snapshots
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.pattern import Pattern
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.step import anatomy, destinations
from minirun.faces.show.web.board import Board

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.snapshot import Snapshot

_WIDTH = 100
"""Columns of a text on the page."""


class PlayedRun:
    """A recording, stepped through as if it were happening."""

    def __init__(self, recording: Recording, language: str) -> None:
        self.board = Board(recording.name, language)
        self.board.recorded = True
        self.recording = recording
        self.language = language
        self.stops = _boundaries(recording.events)
        """The places of the events at which a run is held, in their order."""
        self.at = -1
        """The place of the last event that is shown."""
        self._go(self.stops[0] if self.stops else len(recording.events) - 1)

    def press(self, key: str, argument: str) -> None:
        """Do what a key asks for. Raises StateError for what needs a container, UsageError."""
        check(key, argument, (event.name for event in self.recording.events))
        if key in ("shell", "quit"):
            self._refuse()
        elif key == "back":
            self._go(max((at for at in self.stops if at < self.at), default=self.stops[0]))
        elif key == "until":
            self._go(self._found(argument))
        elif key in ("next", "continue"):
            end = len(self.recording.events) - 1
            self._go(next((at for at in self.stops if at > self.at), end) if key == "next" else end)
        elif key == "why":
            self.board.show(said=self._why())
        else:
            taken = self._snapshot()
            page = anatomy.page(taken, _WIDTH) if taken else "recorded without snapshots"
            self.board.show(said=page)

    def close(self) -> None:
        """Nothing to close: a recording has no process."""

    def _refuse(self) -> NoReturn:
        raise StateError("this is a recording: there is no container in which a command could run")

    def _go(self, at: int) -> None:
        """Show everything up to the event with this place, and stop there."""
        events = self.recording.events
        before, self.at = self._snapshot(), at
        over = at == len(events) - 1
        now = self._snapshot()
        changes = snapshots.since(before, now) if now and now is not before else []
        with self.board.changed:
            self.board.events = events[: at + 1]
            place = "" if over else self._place(events[at])
            self.board.show(
                stop=place, stage=events[at].stage, changes=changes, said="", over=over
            )  # fmt: skip

    def _place(self, event: Event) -> str:
        return event_row.place(_boundary(event), event.stage, event_row.in_words(event))

    def _found(self, words: str) -> int:
        """Return the place of the next event that is meant. Raises UsageError."""
        boundary = destinations.boundary(words)
        events = self.recording.events
        for at in range(self.at + 1, len(events)):
            event = events[at]
            if boundary:
                if at in self.stops and _boundary(event) == boundary:
                    return at
            elif event.actor != "step" and Pattern(words).matches(event.name, event.args):
                return at
        raise UsageError(f"no event after this one is {words!r}", "Back goes to the stops before")

    def _snapshot(self) -> Snapshot | None:
        """Return what is known of the container at this stop: what was taken there last."""
        passed = Recording("", self.recording.events[: self.at + 2]).snapshots
        return list(passed.values())[-1] if passed else None

    def _why(self) -> str:
        here = self.recording.events[self.at]
        earlier = [e for e in self.recording.events[: self.at] if e.pid == here.pid]
        last = earlier[-1] if earlier else None
        if not _boundary(here):
            last = here
        return anatomy.why(here, last, self.language, _WIDTH)


def _boundary(event: Event) -> str:
    """Return the boundary that an event is at; "" for none."""
    if event.kind == "gate":
        return event.name
    return f"{event.stage}:{event.kind}" if event.kind in ("begin", "end") else ""


def _boundaries(events: list[Event]) -> list[int]:
    """Return the places of the gates; of the begins and ends if the run was never held."""
    gates = [at for at, e in enumerate(events) if e.kind == "gate" and e.name in BOUNDARIES]
    edges = [at for at, e in enumerate(events) if e.kind in ("begin", "end")]
    return gates or edges
