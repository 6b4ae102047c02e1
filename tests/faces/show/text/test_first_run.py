"""The README's picture of a terminal, first-run.svg: written by hand, a line of it for each row."""

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import Program
from faces.show.browser import Browser
from faces.show.terminal import Start

PICTURE = Path(__file__).parents[4] / "tutorials/pictures/first-run.svg"
SVG = "{http://www.w3.org/2000/svg}"
COLUMNS, LINES = 80, 24
TREE = ElementTree.parse(PICTURE)
ROWS = ["".join(row.itertext()) for row in TREE.iter(f"{SVG}text")]


def test_it_is_a_terminal_after_the_first_command() -> None:
    title = TREE.findtext(f"{SVG}title", "")
    assert ROWS[0] == title.replace("In a terminal: ", "# ")
    assert ROWS[-1] == "#"
    assert len(ROWS) <= LINES and max(map(len, ROWS)) == COLUMNS
    names = {each.tag.removeprefix(SVG) for each in TREE.iter()}
    assert names == {"svg", "title", "style", "text", "tspan", "rect"}, "no script, no motion"


def test_it_shows_what_a_run_does_today(minirun: Program, terminal: Start) -> None:
    """If this fails, what a run prints has changed: write the picture's lines anew."""
    words = shlex.split(ROWS[0].removeprefix("# "))
    screen = terminal(minirun.argv(*words[1:]), COLUMNS, LINES)
    screen.wait("ended with")
    lines = screen.visible()
    assert "ended with 0" in lines
    assert _shapes(lines) == _shapes(ROWS) != []


def _shapes(lines: list[str]) -> list[str]:
    """Return what lines of output say on every machine."""
    found = []
    for line in lines:
        if match := re.match(r"crw.*(\d+, +\d+) .*(/dev/\S+)$", line):
            found.append(match.expand(r"\1 \2"))
        elif match := re.match(r"[1-7] (runtime|init|hook|cli) .*[mµ]?s$|GPU \d: [\w -]+", line):
            found.append(match[0][:10])
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_can_be_read(browser: Browser, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: the contrast of each text with the paper is 4.5 or more."""
    browser.open(PICTURE, scheme=scheme)
    assert (sum(browser.pixel(3, 3)) > 600) == (scheme == "light")
    paper = browser.run("getComputedStyle(document.documentElement).backgroundColor")
    words = "[...document.querySelectorAll('text, tspan')].map(one => getComputedStyle(one).fill)"
    colours = set(browser.run(words))
    assert len(colours) == 5, "the text's own, and four actors"
    assert all(_contrast(colour, paper) >= 4.5 for colour in colours)


def _contrast(one: str, other: str) -> float:
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_rows_are_as_wide_as_in_a_terminal(browser: Browser) -> None:
    """Blanks count, and no row leaves the picture."""
    browser.open(PICTURE)
    widths = browser.run(
        "[...document.querySelectorAll('text')].map(one => one.getComputedTextLength())"
    )
    letters = {round(width / len(row), 1) for width, row in zip(widths, ROWS, strict=True)}
    assert len(letters) == 1, letters
    assert max(letters) * COLUMNS < 664 - 12, "viewBox"
