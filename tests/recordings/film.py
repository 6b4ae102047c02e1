"""python tests/recordings/film.py FILE.cast FILE.svg: a terminal's recording as one SVG.

The picture is the last screen. Where motion is welcome it comes into being as it did in the
terminal, once, and then stands still: with CSS, without a script, so that a page can show it as an
image. A terminal emulator (pyte) reads the escape sequences.
"""

import html
import json
import sys
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyte
from pyte.screens import Char

LETTER, LINE, MARGIN = 8.0, 17, 12
"""A letter's width, a line's height, and the room around the screen."""
STEP = 0.08
"""Seconds: what changes faster is shown at once."""
_STYLE = """
svg{color:#1e2226;background:#fdfcf9}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
white-space:pre}
.bold{font-weight:700}.italics{font-style:italic}.old{visibility:hidden}
.red{fill:#b3261e}.green{fill:#1b6e2e}.brown{fill:#7d5200}.blue{fill:#1f5fae}.magenta{fill:#872c87}
.cyan{fill:#096373}
@media (prefers-color-scheme:dark){svg{color:#e6e3db;background:#17191c}
.red{fill:#ff8a80}.green{fill:#74c987}.brown{fill:#e0b65c}.blue{fill:#8ab4f8}.magenta{fill:#d79bd7}
.cyan{fill:#5fc9da}}
"""
_COLOURS = ("red", "green", "brown", "blue", "magenta", "cyan")


class Piece(NamedTuple):
    """One line of a screen, or its cursor, as SVG."""

    shape: str
    row: int


def screens(cast: str) -> list[tuple[float, list[Piece]]]:
    """Return the screens of a recording: (seconds, pieces); at most one in each STEP."""
    head, *rows = map(json.loads, cast.splitlines())
    screen = pyte.Screen(head["width"], head["height"])
    stream = pyte.Stream(screen)
    found: list[tuple[float, list[Piece]]] = []
    for when, kind, what in rows:
        if kind == "o":
            stream.feed(what)
            tick = round(when / STEP) * STEP
            if found and found[-1][0] == tick:
                found.pop()
            found.append((tick, _pieces(screen)))
    return found


def _pieces(screen: pyte.Screen) -> list[Piece]:
    lines = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
    found = [Piece(shape, y) for y, line in enumerate(lines) if (shape := _line(line, y))]
    x, y = screen.cursor.x * LETTER, screen.cursor.y
    if not screen.cursor.hidden:
        cursor = f'<rect x="{x}" y="{y * LINE + 2}" width="{LETTER}" height="{LINE - 3}"'
        found.append(Piece(f'{cursor} fill-opacity=".6"/>', y))
    return found


def _line(line: list[Char], row: int) -> str:
    """Return a line of text: a <text> for each stretch of one look, as wide as in the terminal."""
    found, x = "", 0
    for look, letters in groupby(line, key=_look):
        words = "".join(letter.data for letter in letters)
        begin = x + len(words) - len(words.lstrip())
        x, words = x + len(words), words.strip()
        if words:
            found += (
                f'<text x="{begin * LETTER:g}" y="{(row + 1) * LINE - 4}"{look} '
                f'textLength="{len(words) * LETTER:g}">{html.escape(words, quote=False)}</text>'
            )
    return found


def _look(letter: Char) -> str:
    names = [letter.fg] if letter.fg in _COLOURS else []
    names += [name for name in ("bold", "italics") if getattr(letter, name)]
    return f' class="{" ".join(names)}"' if names else ""


def draw(cast: str) -> str:
    """Return the recording as an SVG file."""
    head = json.loads(cast.partition("\n")[0])
    frames = screens(cast)
    moments: dict[Piece, list[int]] = {}
    for number, (_, pieces) in enumerate(frames):
        for piece in pieces:
            moments.setdefault(piece, []).append(number)
    rules, shapes = [], []
    for number, (piece, there) in enumerate(moments.items()):
        keys = _keys(there, frames)
        last = there[-1] == len(frames) - 1
        old = "" if last else ' class="old"'
        shapes.append(f'<g id="p{number}"{old}>{piece.shape}</g>')
        if keys:
            rules.append(f"@keyframes k{number}{{{keys}}}#p{number}{{animation-name:k{number}}}")
    length = f"{frames[-1][0] - frames[0][0]:.2f}s"
    motion = f"g{{animation:{length} step-end}}{''.join(rules)}"
    width, height = head["width"] * LETTER, _used(frames) * LINE
    title = html.escape(f"In a terminal: {head['title']}")
    said = html.escape("\n".join(text(cast)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-MARGIN} {-MARGIN} '
        f'{width + 2 * MARGIN:g} {height + 2 * MARGIN}" role="img" aria-labelledby="title" '
        f'aria-describedby="said" fill="currentColor"><title id="title">{title}</title>'
        f'<desc id="said">{said}</desc><style>{_STYLE}'
        f"@media (prefers-reduced-motion:no-preference){{{motion}}}</style>"
        f"{''.join(shapes)}</svg>\n"
    )


def _keys(there: list[int], frames: list[tuple[float, list[Piece]]]) -> str:
    """Return the keyframes of a piece that some frames have; "" if all have it."""
    begin, length = frames[0][0], frames[-1][0] - frames[0][0]
    found, seen = [], None
    for number, (when, _) in enumerate(frames):
        if (number in there) is not seen:
            seen = number in there
            word = "visible" if seen else "hidden"
            found.append(f"{100 * (when - begin) / length:.4g}%{{visibility:{word}}}")
    return "".join(found) if len(found) > 1 else ""


def _used(frames: list[tuple[float, list[Piece]]]) -> int:
    """Return how many lines are ever written on."""
    return 1 + max(piece.row for _, pieces in frames for piece in pieces)


def text(cast: str) -> list[str]:
    """Return the lines of the last screen."""
    head, *rows = map(json.loads, cast.splitlines())
    screen = pyte.Screen(head["width"], head["height"])
    pyte.Stream(screen).feed("".join(what for _, kind, what in rows if kind == "o"))
    return [line.rstrip() for line in screen.display if line.strip()]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(Path(sys.argv[1]).read_text()))
