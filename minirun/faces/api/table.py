"""A small table that shows itself: as text at a prompt, as HTML in a notebook.

What stands in it may have been chosen by a container: nothing of it reaches a terminal as an
escape sequence, or a page as markup.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from typing import Any

from minirun.common.table import aligned
from minirun.faces.show.log.event_row import clean


class Shown:
    """Base of all that shows itself: `__str__` is the text, `_repr_html_` the page's form."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython's text form."""
        printer.text(str(self))


class Tabular(Shown, ABC):
    """Base of what shows itself as one table."""

    @abstractmethod
    def _table(self) -> Table:
        """Return the table as it is now."""

    def __str__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


class Table(Shown):
    """Rows of text under a heading. `mark`: the numbers of the rows to set in bold."""

    def __init__(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[object]],
        caption: str = "",
        mark: Sequence[int] = (),
    ) -> None:
        self.head = tuple(head)
        self.rows = [tuple(map(str, row)) for row in rows]
        self.caption = caption
        self.mark = frozenset(mark)

    def __str__(self) -> str:
        caption = [clean(self.caption)] if self.caption else []
        return "\n".join([*caption, *aligned([self.head, *self.rows])])

    def _repr_html_(self) -> str:
        head = "".join(_cell("th", text) for text in self.head)
        body = "".join(
            "<tr>" + "".join(_cell("td", text, bold=at in self.mark) for text in row) + "</tr>"
            for at, row in enumerate(self.rows)
        )
        style = "text-align:left;font-weight:bold;padding:4px 0"
        caption = f'<caption style="{style}">{printable(self.caption)}</caption>'
        return (
            f"<table>{caption if self.caption else ''}"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def _cell(tag: str, text: str, *, bold: bool = False) -> str:
    inside = f"<b>{printable(text)}</b>" if bold else printable(text)
    scope = ' scope="col"' if tag == "th" else ""
    return f'<{tag}{scope} style="text-align:left">{inside}</{tag}>'


def printable(text: str) -> str:
    """Return `text` as HTML that shows it and does nothing else."""
    return escape(clean(text))
