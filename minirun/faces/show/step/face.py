"""What a stepped run is shown on: lines, the whole screen, a web page. And what it is asked.

The controller (minirun.faces.show.step.controller) holds the run; a face says nothing to the
container itself.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from minirun.faces.show.log import event_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.snapshot import Snapshot
    from minirun.faces.show.compare.snapshots import LineDifference
    from minirun.faces.show.log.event import Event
    from minirun.faces.show.log.event_row import Row
    from minirun.faces.show.step.keys import Key


class Stop(NamedTuple):
    """A place where the run is held, and what is known there."""

    at: str
    """A boundary, "5:begin", or "syscall" after an event."""
    stage: int
    gate: Event
    last: Event | None
    """The event before it, of the process that waits; None if there is none."""
    snapshot: Snapshot
    changes: list[LineDifference]
    """What is not as it was at the stop before."""
    number: int
    """1 for the first stop."""
    row: Row | None = None
    """The event before it as a line of its own; None at a boundary."""

    def after(self, room: int = 0) -> str:
        """Return the event after which the run is held, in at most `room` columns if given.

        It has its arguments and what came of it; "" at a boundary.
        """
        name = str(self.gate.args.get("after", ""))
        if not self.last or self.last.name != name:
            return name
        return event_row.in_words(self.last, room) if room else event_row.in_words(self.last)


class Output(NamedTuple):
    """What a command in the half-built container has printed."""

    status: int
    """Its exit status; 125 if it could not be started."""
    text: str
    """Both streams, as they came, not cleaned: it is the container's. See text.clean."""
    cut: bool
    """True if there was more of it, or if it was ended because it took too long."""


class Face(Protocol):
    """Shows what happens to the user, and asks how the run goes on."""

    def show_event(self, event: Event, rows: list[Row]) -> None:
        """Show an event. `rows`: its lines, empty if the level of detail leaves it out."""

    def stopped(self, stop: Stop) -> None:
        """Show that the run is held. Keys are asked for after it."""

    def key(self) -> Key:
        """Return what is to be done; wait for it. Raises RunEnded if the run ends first.

        The controller carries out next, continue, until PATTERN and quit; every other key comes
        back in `answer`.
        """

    def answer(self, key: Key, stop: Stop) -> None:
        """Show what a key asks for, such as inspect, shell, back, why."""

    def say(self, message: str) -> None:
        """Show a sentence of the controller's: an error, or that the run is given up."""

    def ended(self) -> None:
        """Let go of the screen: the run goes on without stops, or is over. May come twice."""
