"""The README's terminal: a recording of a real one, and the picture that is made of it."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import Program
from recordings import film
from recordings.typed import COLUMNS, LINES, PROMPT
from required import installed
from show.browser import Browser
from show.terminal import Terminal

PICTURES = Path(__file__).parents[2] / "tutorials/pictures"
CAST = (PICTURES / "first-run.cast").read_text()
SVG = "{http://www.w3.org/2000/svg}"
HEAD, *ROWS = map(json.loads, CAST.splitlines())


def test_it_is_an_asciicast_of_the_first_command() -> None:
    assert (HEAD["version"], HEAD["width"], HEAD["height"]) == (2, COLUMNS, LINES)
    times = [when for when, kind, what in ROWS if kind == "o" and what]
    assert times == sorted(times) and len(times) == len(ROWS)
    lines = film.text(CAST)
    assert lines[0] == PROMPT + HEAD["title"], "the command is still on the screen"
    assert lines[-1] == PROMPT.strip()


def test_it_shows_what_a_run_does_today(minirun: Program) -> None:
    """If this fails, what a run prints has changed: `make recordings`."""
    words = shlex.split(HEAD["title"])
    terminal = Terminal("film-today", minirun.argv(*words[1:]), COLUMNS, LINES)
    try:
        terminal.wait("ended with")
        lines = terminal.visible()
    finally:
        terminal.close()
    assert "ended with 0" in lines
    assert [_shape(line) for line in lines if _shape(line)] == [
        _shape(line) for line in film.text(CAST) if _shape(line)
    ]


def _shape(line: str) -> str:
    """Return what a line of output says on every machine; "" for other lines."""
    if match := re.match(r"crw.*(\d+, +\d+) .*(/dev/\S+)$", line):
        return match.expand(r"\1 \2")
    match = re.match(r"[1-7] (runtime|init|hook|cli) .*[mµ]?s$|GPU \d: [\w -]+", line)
    return match[0][:10] if match else ""


def test_the_emulator_shows_what_a_terminal_shows(tmp_path: Path) -> None:
    data = tmp_path / "output"
    data.write_text("".join(what for _, _, what in ROWS))
    shown = ["sh", "-c", f'stty raw; cat "{data}"; sleep 60']
    terminal = Terminal("film-emulator", shown, COLUMNS, LINES)
    try:
        terminal.wait("7 init")
        assert [line for line in terminal.visible() if line] == film.text(CAST)
    finally:
        terminal.close()


def test_the_picture_is_made_of_it() -> None:
    kept = (PICTURES / "first-run.svg").read_text()
    assert kept == film.draw(CAST), "make pictures"
    assert len(kept.encode()) < 60_000
    tree = ElementTree.fromstring(kept)
    assert not {each.tag for each in tree.iter()} & {f"{SVG}script", f"{SVG}image", f"{SVG}a"}
    described = tree.find(f"{SVG}desc")
    assert described is not None and described.text == "\n".join(film.text(CAST))


def test_another_recording_is_another_picture() -> None:
    evil = "</text><script>alert(1)</script>&"
    rows = [[0, "o", "\x1b[31mred\x1b[0m "], [1, "i", "typed"], [2, "o", evil]]
    head = {"version": 2, "width": 40, "height": 2, "title": evil}
    tree = ElementTree.fromstring(film.draw("\n".join(map(json.dumps, [head, *rows]))))
    assert not [each for each in tree.iter() if "script" in each.tag]
    words = {each.text: each.get("class") for each in tree.iter(f"{SVG}text")}
    assert words == {"red": "red", evil: None}


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    installed("chromium")
    found = Browser(tmp_path / "profile")
    yield found
    found.close()


SHOWN = """(() => {
    const rows = {};
    for (const one of document.querySelectorAll('text'))
        if (getComputedStyle(one).visibility === 'visible')
            (rows[one.getAttribute('y')] ||= []).push(one);
    return Object.keys(rows).map(Number).sort((a, b) => a - b).map(y => rows[y]
        .sort((a, b) => a.getAttribute('x') - b.getAttribute('x'))
        .map(one => one.textContent).join(' '));
})()"""


def blanks(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def test_in_a_browser_it_grows_once_and_stands_still(browser: Browser) -> None:
    browser.open(PICTURES / "first-run.svg")
    at = "document.getAnimations().forEach(one => { one.pause(); one.currentTime = %d; })"
    browser.run(at % 0)
    assert browser.run(SHOWN) == [PROMPT.strip()]
    browser.run(at % 1500)
    (typed,) = browser.run(SHOWN)
    assert typed.startswith("# minirun") and film.text(CAST)[0].startswith(typed)
    browser.run("document.getAnimations().forEach(one => one.finish())")
    assert blanks(browser.run(SHOWN)) == blanks(film.text(CAST))
    assert browser.run("document.getAnimations().length") == 0, "it ends"


def test_where_motion_is_not_wanted_there_is_none(browser: Browser) -> None:
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.open(PICTURES / "first-run.svg")
    browser.call("Emulation.setEmulatedMedia", features=features)
    assert browser.run("document.getAnimations().length") == 0
    assert blanks(browser.run(SHOWN)) == blanks(film.text(CAST))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_can_be_read(browser: Browser, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: the contrast of each text with the paper is 4.5 or more."""
    browser.open(PICTURES / "first-run.svg", scheme=scheme)
    paper = browser.run("getComputedStyle(document.documentElement).backgroundColor")
    words = "[...document.querySelectorAll('text')].map(one => getComputedStyle(one).fill)"
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
