"""Rows as the text that goes out: lanes, sentences or columns, with colours if they can be had.

    lanes    the picture of minirun.show.text.lanes; on a terminal of its width, else of 80 columns
    summary  a line a stage (minirun.show.log.summary), as wide
    plain    sentences (minirun.show.text.sentences)
    columns  one line an event, for files; uncut if `full`

Colours only on a terminal that is not dumb, speaks UTF-8, and if NO_COLOR is not set.
Nothing here needs Linux: `minirun replay` runs wherever Python does.
"""

from __future__ import annotations

import os
import stat

from minirun.core.keeping.numbers import whole
from minirun.show.log import event_row, summary
from minirun.show.text import lanes, sentences

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
    unicode = speaks_unicode()
    if full is None:
        full = stat.S_ISREG(os.fstat(out_fd).st_mode)
    end = "\r\n" if terminal else "\n"  # a terminal in raw mode (run -it) needs the return too
    if style == "plain":
        return lambda rows: "".join(sentences.sentence(row, unicode) + end for row in rows)
    room = max(width(out_fd), 40)
    drawn = lanes.Lanes(room, unicode)
    layouts: dict[str, RowLayout] = {"lanes": drawn.draw, "summary": _summary(room, unicode)}
    paint = layouts.get(style) or _listing(room, unicode, full)
    if has_colours(out_fd):
        return _colourful(paint, end)
    return lambda rows: "".join(
        "".join(part for _, part in pieces).rstrip() + end for _, pieces in paint(rows)
    )


def has_colours(out_fd: int) -> bool:
    """Return True if `out_fd` is a terminal that is to show colours."""
    is_dumb = os.environ.get("TERM", "dumb") == "dumb" or bool(os.environ.get("NO_COLOR"))
    return os.isatty(out_fd) and speaks_unicode() and not is_dumb


def width(out_fd: int) -> int:
    """Return how many columns a terminal has, or a text that goes elsewhere.

    A pager (`minirun timeline ID | less`) writes to the terminal that standard error still is.
    """
    given = whole(os.environ.get("COLUMNS", ""))
    if not os.isatty(out_fd) and given is not None:
        return min(given, 9999) or event_row.WIDTH
    terminal = out_fd if os.isatty(out_fd) else 2
    is_piped = terminal == out_fd or stat.S_ISFIFO(os.fstat(out_fd).st_mode)
    columns = is_piped and os.isatty(terminal) and os.get_terminal_size(terminal).columns
    return columns or event_row.WIDTH


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


def speaks_unicode() -> bool:
    """Return True if the first of locale(7)'s variables that is set says UTF-8."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if os.environ.get(name):
            return "utf8" in os.environ[name].lower().replace("-", "")
    return False
