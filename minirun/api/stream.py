"""The stages of a run in a notebook's cell, while they happen; as plain lines anywhere else.

In a kernel, one display (IPython's display_id) is made once and updated as events arrive, so that
the cell's output grows in place. Without IPython, or in its terminal, each line is printed.
"""

import sys
import time
from collections.abc import Iterable
from typing import Any, Protocol

from minirun.api.drawing import Drawing, plain
from minirun.view.recording import Event

PAUSE = 0.08
"""Seconds between two updates of a display: a browser has to draw each."""


class Screen(Protocol):
    """Where a run is shown."""

    def take(self, events: Iterable[Event]) -> None:
        """Show more events."""

    def finish(self) -> None:
        """Show what has not been shown yet."""


def screen(wanted: bool) -> Screen:
    """Return where to show a run: the cell of a notebook, standard output, or nowhere."""
    if not wanted:
        return Nowhere()
    return Cell() if in_notebook() else Printed()


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


class Nowhere:
    """Shows nothing."""

    def take(self, events: Iterable[Event]) -> None:
        """Drop them."""

    def finish(self) -> None:
        """Do nothing."""


class Printed:
    """Prints each line as it comes."""

    def __init__(self) -> None:
        self.drawing = Drawing()

    def take(self, events: Iterable[Event]) -> None:
        """Print them."""
        for line in self.drawing.take(events):
            print(plain(line), flush=True)

    def finish(self) -> None:
        """All is printed."""


class Cell:
    """One display in the output of the cell that runs; it grows."""

    def __init__(self) -> None:
        from IPython.display import display

        self.drawing = Drawing(100)
        self.pending = False
        self.shown_at = time.monotonic()
        self.handle: Any = display(self.drawing, display_id=True)  # type: ignore[no-untyped-call]

    def take(self, events: Iterable[Event]) -> None:
        """Draw more, and update the display where the last time is long enough ago."""
        self.pending |= bool(self.drawing.take(events))
        if time.monotonic() - self.shown_at >= PAUSE:
            self.finish()

    def finish(self) -> None:
        """Bring the display up to date."""
        if self.pending:
            self.handle.update(self.drawing)
            self.pending, self.shown_at = False, time.monotonic()
