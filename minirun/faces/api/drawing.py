"""The two lanes of a run as an object that shows itself, and may grow: show.text.lanes."""

from collections.abc import Iterable
from html import escape

from minirun.common import screen
from minirun.faces.api.table import Shown
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.order import Births
from minirun.faces.show.text.lanes import HTML_COLOURS, Lanes, Pieces

_BOLD = "font-weight:600"


class Drawing(Shown):
    """The events that it has taken, as lines of at most `width` columns.

    `level`: "stages" and their milestones, or all "syscalls".
    """

    def __init__(self, width: int = screen.WIDTH, level: str = "stages") -> None:
        self.narrator = Narrator(level)
        self.births = Births()
        self.lanes = Lanes(width)
        self.lines: list[Pieces] = []

    def take(
        self, events: Iterable[Event], *, last: bool = False, held: bool = False
    ) -> list[Pieces]:
        """Draw more events; return the new lines, as (column's name, text) pieces.

        A few may wait for the next call, or for the `last`: a birth is told before what follows.

        `held`: a run stands still after these, so the last one has a line of its own.

        The gates at which snapshots are taken belong to the machinery, and are left out.
        """
        ordered = self.births.take(list(events), last=last)
        self.narrator.init = self.births.init
        acts = [event for event in ordered if event.kind != "gate"]
        shown = [row for event in acts for row in self.narrator.rows(event)]
        if held:
            pids = [event.pid for event in acts if event.actor != "step"]
            shown += self.narrator.last_of(pids[-1]) if pids else []
        new = [pieces for _, pieces in self.lanes.draw(shown)] if shown else []
        self.lines += new
        return new

    def __str__(self) -> str:
        return "\n".join(map(plain, self.lines))

    def _repr_html_(self) -> str:
        style = "margin:0;line-height:1.35;font-size:12px;white-space:pre;overflow-x:auto"
        return f'<pre style="{style}">' + "\n".join(map(_html, self.lines)) + "</pre>"


def plain(line: Pieces) -> str:
    """Return a line as text."""
    return "".join(piece for _, piece in line).rstrip()


def _html(line: Pieces) -> str:
    """Return a line as HTML: who acts in a colour, a stage's heading in bold."""
    styled = [(escape(piece), _style(column, piece)) for column, piece in line]
    return "".join(f'<span style="{css}">{text}</span>' if css else text for text, css in styled)


def _style(column: str, piece: str) -> str:
    if column == "actor":
        return f"{_BOLD};color:{HTML_COLOURS.get(piece.strip(), 'inherit')}"
    if column == "arrow":
        return f"color:{HTML_COLOURS['runtime']}"
    return _BOLD if column in ("heading", "stage") else ""
