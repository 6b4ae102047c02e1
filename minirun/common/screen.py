"""What a terminal can show: its width, its colours, and how wide a text is on it."""

from __future__ import annotations

import os
import stat
import unicodedata

from minirun.core.keeping.numbers import whole

WIDTH = 80
"""Columns where there is no terminal."""


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
        return min(given, 9999) or WIDTH
    terminal = out_fd if os.isatty(out_fd) else 2
    is_piped = terminal == out_fd or stat.S_ISFIFO(os.fstat(out_fd).st_mode)
    columns = is_piped and os.isatty(terminal) and os.get_terminal_size(terminal).columns
    return columns or WIDTH


def speaks_unicode() -> bool:
    """Return True if the first of locale(7)'s variables that is set says UTF-8."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if os.environ.get(name):
            return "utf8" in os.environ[name].lower().replace("-", "")
    return False


def display_width(text: str) -> int:
    """Return how many columns `text` takes: two for each wide character (East Asian)."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, width: int) -> str:
    """Return `text` with blanks up to `width` columns."""
    return text + " " * (width - display_width(text))
