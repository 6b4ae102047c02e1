"""The stages of a run in a notebook's cell, while they happen; as plain lines anywhere else.

In a kernel, one display (IPython's display_id) is made once and updated as events arrive, so that
the cell's output grows in place. Without IPython, or in its terminal, each line is printed.
"""

import sys
import time
from collections.abc import Iterable
from html import escape
from typing import Any, Protocol

from minirun.api.table import Shown
from minirun.view import text
from minirun.view.lanes import Lanes
from minirun.view.narrate import Narrator

Pieces = list[tuple[str, str]]

_BOLD = "font-weight:600"
PAUSE = 0.08
"""Seconds between two updates of a display: a browser has to draw each."""
COLOURS = {"runtime": "#1a7f9c", "init": "#2e8540", "hook": "#a86500", "cli": "#b0489b"}
"""One for each lane; each can be read on white and on black, and the name stands beside it."""


class Screen(Protocol):
    """Where lines go."""

    width: int

    def add(self, lines: Iterable[Pieces]) -> None:
        """Show more lines, each as (column's name, text) pieces."""

    def finish(self) -> None:
        """Show what has not been shown yet."""


class Follower:
    """Draws the events of a run on a screen, in two lanes, as they come."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.narrator = Narrator("stages")
        self.lanes = Lanes(screen.width)
        self.begun = False

    def take(self, events: Iterable[dict[str, Any]]) -> None:
        """Show these events; the gates at which snapshots are taken are nobody's news."""
        rows = (self.narrator.row(event) for event in events if event.get("kind") != "gate")
        lines = [self.lanes.row(row) for row in rows if row]
        if lines and not self.begun:
            self.begun = True
            lines.insert(0, self.lanes.header())
        self.screen.add(lines)

    def finish(self) -> None:
        """Show all that has come."""
        self.screen.finish()


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

    width = text.WIDTH

    def add(self, lines: Iterable[Pieces]) -> None:
        """Drop them."""

    def finish(self) -> None:
        """Do nothing."""


class Printed:
    """Prints each line as it comes."""

    width = text.WIDTH

    def add(self, lines: Iterable[Pieces]) -> None:
        """Print them."""
        for line in lines:
            print("".join(piece for _, piece in line).rstrip(), flush=True)

    def finish(self) -> None:
        """All is printed."""


class Cell:
    """One display in the output of the cell that runs; it grows."""

    width = 100

    def __init__(self) -> None:
        from IPython.display import display

        self.lines: list[Pieces] = []
        self.pending = False
        self.shown_at = time.monotonic()
        self.handle: Any = display(Page(self.lines), display_id=True)  # type: ignore[no-untyped-call]

    def add(self, lines: Iterable[Pieces]) -> None:
        """Add lines, and update the display where the last time is long enough ago."""
        before = len(self.lines)
        self.lines += lines
        self.pending |= len(self.lines) > before
        if time.monotonic() - self.shown_at >= PAUSE:
            self.finish()

    def finish(self) -> None:
        """Bring the display up to date."""
        if self.pending:
            self.handle.update(Page(self.lines))
            self.pending, self.shown_at = False, time.monotonic()


class Page(Shown):
    """The lines so far, as IPython displays them."""

    def __init__(self, lines: Iterable[Pieces]) -> None:
        self.lines = list(lines)

    def __str__(self) -> str:
        return "\n".join("".join(piece for _, piece in line).rstrip() for line in self.lines)

    def _repr_html_(self) -> str:
        style = "margin:0;line-height:1.35;font-size:12px;white-space:pre;overflow-x:auto"
        return f'<pre style="{style}">' + "\n".join(map(_line, self.lines)) + "</pre>"


def _line(line: Pieces) -> str:
    """Return a line as HTML: who acts in a colour, a stage's heading in bold."""
    return "".join(_span(escape(piece), _style(name, piece)) for name, piece in line)


def _span(html: str, style: str) -> str:
    return f'<span style="{style}">{html}</span>' if style else html


def _style(column: str, piece: str) -> str:
    if column == "actor":
        return f"{_BOLD};color:{COLOURS.get(piece.strip(), 'inherit')}"
    if column == "arrow":
        return f"color:{COLOURS['runtime']}"
    return _BOLD if column in ("heading", "stage") else ""
