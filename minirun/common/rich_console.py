"""What rich draws with: a console for a terminal, and texts that are printable and no markup."""

import os
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from minirun.common import screen
from minirun.core.keeping.visible import clean


def console(fd: int, *, styled: bool, styles: Mapping[str, str] | None = None) -> Console:
    """Return a console as wide as the terminal `fd`; without colours if NO_COLOR is set.

    `styled`: bold, reverse and colours can be had. `styles`: names besides rich's own → how they
    look.
    """
    return Console(
        stderr=fd == 2, color_system="standard" if styled else None,
        no_color=bool(os.environ.get("NO_COLOR")), width=screen.width(fd), height=25,
        markup=False, emoji=False, highlight=False, theme=Theme(styles),
    )  # fmt: skip


def lines(rows: list[str]) -> Text:
    """Return lines as one text, the first of them bold; none is broken."""
    shown = Text("\n", no_wrap=True, overflow="crop").join(map(text, rows[1:]))
    return (
        Text("\n").join([text(rows[0], "bold"), *([shown] if rows[1:] else [])]) if rows else shown
    )


def text(words: str, style: str = "") -> Text:
    """Return a text; what a terminal would obey in it is shown as an escape."""
    return Text(clean(words, screen.speaks_unicode()), style)
