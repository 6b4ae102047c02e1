"""Tables and pages: drawn by rich on a terminal; anywhere else plain, in aligned columns, whole.

Engines and scripts read them (`list` is runc's, `ps` is docker's) and wait for them, so for them
there is no colour, and no rich, which takes longer to import (0.1 s) than the command runs.

What stands in them may have been chosen by a container: it is cleaned, and it is no markup.
"""

from __future__ import annotations

import os

from minirun.common import screen
from minirun.common.screen import display_width, padded
from minirun.core.keeping.visible import clean
from minirun.core.lazy import lazy

with lazy:
    from rich import padding as rich_padding
    from rich import table as rich_table
    from rich import text as rich_text

    from minirun.common import rich_console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    Rows = Sequence[Sequence[str]]

_STYLES = {
    "ok": "green", "yes": "green", "started": "green", "running": "green",
    "NO": "bold red", "failed": "bold red", "damaged": "bold red", "--": "dim",
}  # fmt: skip
"""What a cell says → how it looks on a terminal."""
_NARROW = 20
"""Columns that a text needs which is broken at blanks."""
_ENDLESS = 10_000
"""Columns: more than any table has."""


def aligned(rows: Rows, gap: int = 2, least: int = 0, *, unicode: bool = True) -> list[str]:
    """Return one line for each row; all rows have as many cells as the first one.

    A column is as wide as its widest cell and `gap` blanks, and at least `least`. Cells are made
    printable (minirun.core.keeping.visible), in ASCII without `unicode`; a wide character counts as
    two.
    """
    cells = [[clean(cell, unicode) for cell in row] for row in rows]
    columns = zip(*cells, strict=True)
    widths = [max(least, gap + max(map(display_width, column))) for column in columns]
    return ["".join(map(padded, row, widths)).rstrip() for row in cells]


def text(
    rows: Rows, gap: int = 2, *, indent: int = 0, heads: bool = True, unicode: bool = True
) -> str:
    """Return rows as text for standard output, `gap` columns apart; with `heads` the first is bold.

    On a terminal a cell that does not fit is broken at blanks. A column without blanks, as of ids,
    stays whole, to be copied: where even that has no room, each row stays one line.
    """
    if not (rows and os.isatty(1)):
        return "".join(f"{' ' * indent}{line}\n" for line in aligned(rows, gap, unicode=unicode))
    console, unicode = _console(1), screen.speaks_unicode()
    cells = [[clean(cell, unicode) for cell in row] for row in rows]
    table = rich_table.Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=heads)
    first, needed = int(heads), indent - gap
    for column in zip(*cells, strict=True):
        has_blanks = any(" " in cell for cell in column[first:])
        widest = max(map(display_width, column))
        needed += gap + (min(widest, _NARROW) if has_blanks else widest)
        table.add_column(column[0] if heads else "", no_wrap=not has_blanks, overflow="fold")
    for row in cells[first:]:
        table.add_row(*(rich_text.Text(cell, _STYLES.get(cell, "")) for cell in row))
    if needed > console.width:
        console.width = _ENDLESS
    return _printed(console, rich_padding.Padding(table, (0, 0, 0, indent), expand=False))


def title(words: str) -> str:
    """Return a line that stands above others, for standard output: bold on a terminal."""
    if not os.isatty(1):
        return f"{clean(words)}\n"
    return _printed(_console(1), rich_console.text(words, "bold"))


def page(lines: Sequence[str], *, unicode: bool = True, fd: int = 1) -> str:
    """Return lines as text for standard output (or `fd`), made printable.

    On a terminal a line is bold that stands above an indented one: it is a title.
    """
    shown = [clean(line, unicode) for line in lines]
    if os.isatty(fd):
        below = [line.startswith(" ") for line in shown[1:]]
        titles = [
            rich_text.Text(line, "bold" if is_title and line[:1] != " " else "")
            for line, is_title in zip(shown, [*below, False], strict=True)
        ]
        return _printed(_console(fd), rich_text.Text("\n").join(titles))
    return "".join(f"{line}\n" for line in shown)


def _console(fd: int) -> Console:
    return rich_console.console(fd, styled=screen.has_colours(fd))


def _printed(console: Console, drawn: RenderableType) -> str:
    with console.capture() as capture:
        console.print(drawn, soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
