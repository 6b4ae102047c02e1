"""The stages of a run in a notebook's cell, while they happen; as plain lines anywhere else.

In a kernel, one display (IPython's display_id) is made once and updated as events arrive, so that
the cell's output grows in place. Without IPython, or in its terminal, each line is printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from minirun.faces.api.drawing import Drawing, plain
from minirun.faces.show.log.event import Event

PAUSE = 0.08
"""Seconds between two updates of a display: a browser has to draw each."""


Show = Callable[[Iterable[Event], bool], None]
"""Shows more events; True with the last ones."""


def screen() -> Show:
    """Return what shows a run: in the cell of a notebook's kernel, or on standard output."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return _printed(Drawing()) if getattr(shell, "kernel", None) is None else Cell().show


def _printed(drawing: Drawing) -> Show:
    """Return what prints each line as it comes."""

    def show(events: Iterable[Event], last: bool) -> None:
        for line in drawing.take(events, last=last):
            print(plain(line), flush=True)

    return show


class Cell:
    """One display in the output of the cell that runs; it grows."""

    def __init__(self) -> None:
        from IPython.display import display

        self.drawing = Drawing(100)
        self.pending = False
        self.shown_at = time.monotonic()
        self.handle: Any = display(self.drawing, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, events: Iterable[Event], last: bool) -> None:
        """Draw more; update the display at the end, or if the last time is long enough ago."""
        self.pending |= bool(self.drawing.take(events, last=last))
        if self.pending and (last or time.monotonic() - self.shown_at >= PAUSE):
            self.handle.update(self.drawing)
            self.pending, self.shown_at = False, time.monotonic()


OWN = "minirun: "
"""What each line of minirun's own begins with on standard error."""


_HELD = 0.3
"""Seconds that minirun's own last line is held back: after an error it ends at once."""


class Echo:
    """Output of minirun and of the container's command, written on as it comes.

    A last line of minirun's own is left out: if the run fails, it is the exception's text, and is
    not printed twice.
    """

    def __init__(self, streams: tuple[str, ...]) -> None:
        """`streams`: "stdout", "stderr": those that are echoed."""
        self.streams = streams
        self.held = ""
        self.since = 0.0

    def __call__(self, name: str, text: str) -> None:
        """Write what came on a stream."""
        if name not in self.streams:
            return
        if name == "stdout":
            sys.stdout.write(text)
            return
        lines = (self.held + text).splitlines(keepends=True)
        self.held = lines.pop() if lines[-1].startswith(OWN) else ""
        self.since = time.monotonic()
        sys.stderr.write("".join(lines))

    def write_held(self) -> None:
        """Write what has been held for long enough: minirun goes on, so it was no error."""
        if self.held and time.monotonic() - self.since > _HELD:
            self.end()

    def end(self) -> None:
        """Write what is held."""
        sys.stderr.write(self.held)
        self.held = ""
