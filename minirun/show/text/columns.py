"""Rows as aligned columns: one plain aligner for all tables.

Engines and scripts read these tables (`list` is runc's, `ps` is docker's) and wait for them, so
there is no line, no colour, and no rich, which takes longer to import than the command runs.
"""

from __future__ import annotations

from minirun.show.text.event_row import clean, display_width, padded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def aligned(
    rows: Sequence[Sequence[str]], gap: int = 2, least: int = 0, *, unicode: bool = True
) -> list[str]:
    """Return one line for each row; all rows have as many cells as the first one.

    A column is as wide as its widest cell and `gap` blanks, and at least `least`. Cells are made
    printable (minirun.core.keeping.visible), in ASCII without `unicode`; a wide character counts as
    two.
    """
    cells = [[clean(cell, unicode) for cell in row] for row in rows]
    columns = zip(*cells, strict=True)
    widths = [max(least, gap + max(map(display_width, column))) for column in columns]
    return ["".join(map(padded, row, widths)).rstrip() for row in cells]
