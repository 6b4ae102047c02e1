"""Rows as the text that goes out: lanes, sentences or columns, with colours if they can be had.

    lanes    the picture of show.text.lanes; on a terminal of its width, else of 80 columns
    summary  a line a stage (minirun.faces.show.log.summary), as wide
    plain    sentences (minirun.faces.show.text.sentences)
    columns  one line an event, for files; uncut if `full`

Colours only on a terminal that is not dumb, speaks UTF-8, and if NO_COLOR is not set.
Nothing here needs Linux: `minirun replay` runs wherever Python does.
"""

from __future__ import annotations

import os
import stat

from minirun.common import screen
from minirun.faces.show.log import event_row, summary
from minirun.faces.show.text import lanes, sentences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Paint = Callable[[list[event_row.Row]], str]
    RowLayout = Callable[[list[event_row.Row]], list[tuple[event_row.Row | None, lanes.Pieces]]]
    """Each row (None: a header), and its pieces: (column's name, text)."""

_STYLES = {"time": "2", "stage": "1", "heading": "1", "what": "", "why": "2;3", "lane": "2"}
"""Column → how it looks, in the numbers of ECMA-48 SGR: console_codes(4). 1 bold, 2 dim, 3 italic,
31 to 36 red, green, yellow, blue, magenta, cyan."""
_WEIGHTS = {"bold": "1", "dim": "2", "": ""}


def painter(out_fd: int, style: str = "lanes", *, full: bool | None = None) -> Paint:
    """Return the function that makes text of the rows of one container, for `out_fd`.

    `full`: columns are not cut; by default if `out_fd` is a regular file.
    """
    terminal = os.isatty(out_fd)
    unicode = screen.speaks_unicode()
    if full is None:
        full = stat.S_ISREG(os.fstat(out_fd).st_mode)
    end = "\r\n" if terminal else "\n"  # a terminal in raw mode (run -it) needs the return too
    if style == "plain":
        return lambda rows: "".join(sentences.sentence(row, unicode) + end for row in rows)
    room = max(screen.width(out_fd), 40)
    drawn = lanes.Lanes(room, unicode)
    layouts: dict[str, RowLayout] = {"lanes": drawn.draw, "summary": _summary(room, unicode)}
    paint = layouts.get(style) or _listing(room, unicode, full)
    if screen.has_colours(out_fd):
        return _colourful(paint, end)
    return lambda rows: "".join(
        "".join(part for _, part in pieces).rstrip() + end for _, pieces in paint(rows)
    )


def _listing(width: int, unicode: bool, full: bool) -> RowLayout:
    return lambda rows: [
        (row, event_row.columns(row, width, unicode=unicode, full=full)) for row in rows
    ]


def _summary(width: int, unicode: bool) -> RowLayout:
    return lambda rows: [(row, summary.pieces(row, width, unicode=unicode)) for row in rows]


def _colourful(lay_out: RowLayout, end: str) -> Paint:
    def line(row: event_row.Row | None, pieces: lanes.Pieces) -> str:
        styled = ((part, _style(name, row)) for name, part in pieces)
        return "".join(
            f"\x1b[{sgr}m{part}\x1b[0m" if sgr and part else part for part, sgr in styled
        )

    return lambda rows: "".join(line(row, pieces) + end for row, pieces in lay_out(rows))


def _style(name: str, row: event_row.Row | None) -> str:
    if row is None:
        return "2"
    colour = lanes.SGR_COLOURS.get(row.actor, "")
    if name == "arrow":
        return f"{_WEIGHTS[event_row.weight(row.what.split(' ')[0])]};{colour}".strip(";")
    if name == "actor":
        return colour
    if name == "result":
        failed = row.result not in ("", "ok") and not row.result.startswith("=")
        return "1;31" if failed else "32"
    if name == "what" and row.result == "FAILED":
        return "1;31"
    return _STYLES[name]
