"""The slides: keys turn them, each fits in its window, a question stands before its look."""

import subprocess
import sys
from pathlib import Path

import pytest

from faces.show.browser import Browser
from tutorials.publish.notebooks import LANGUAGES, ROOT, lessons, source

pytest.importorskip("markdown_it")
from tutorials.publish import slides

NAME = "07-devices"
FILLED = """slides.map((slide, n) => {
    go(n);
    const first = slide.firstElementChild, last = slide.lastElementChild.getBoundingClientRect();
    return {
        above: first.getBoundingClientRect().top, below: innerHeight - last.bottom,
        high: document.documentElement.scrollHeight, wide: document.documentElement.scrollWidth,
        size: parseInt(slide.style.fontSize), is_title: first.tagName === "H1",
    };
})"""
"""Of each slide: what is free above and below, how high and wide it is, its letters in percent."""


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1024, 768)])
def test_no_slide_is_cut(
    browser: Browser, tmp_path: Path, language: str, width: int, height: int
) -> None:
    """Of all lessons; the letters become smaller, but stay readable. Titles stand in the middle."""
    for name in lessons():
        file = tmp_path / f"{name}.html"
        file.write_text(slides.page(name, language))
        browser.open(file, width=width, height=height)
        found = browser.run(FILLED)
        for number, slide in enumerate(found, 1):
            where = f"{name}, slide {number} of {language}: {slide}"
            assert slide["high"] <= height and slide["wide"] <= width, where
            assert slide["above"] >= 0 and slide["below"] >= 0 and slide["size"] >= 60, where
        assert [slide["is_title"] for slide in found] == [True] + [False] * (len(found) - 1)
        title = found[0]
        assert abs(title["above"] - title["below"]) < height / 8, f"{name}: {title}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_line_of_a_lesson_is_lost(language: str) -> None:
    """Cut into slides, a lesson has all its lines but for two sections and the line of links."""
    count = 0
    for name in lessons():
        text = source(name, language)
        shown, heading = "\n".join(slides.slides(text)), ""
        for part in slides.parts(text):
            for line in part.body.splitlines() if part.kind not in ("cell", "skeleton") else ():
                if part.kind == "text" and line.startswith("## "):
                    heading = line.removeprefix("## ")
                is_of_links = not heading and line.startswith(("[English]", "[한국어]"))
                if not heading.startswith(slides.LEFT_OUT) and not is_of_links:
                    assert line.strip() in shown, f"{name}: {line}"
                    count += 1
    assert count > 2000


@pytest.mark.parametrize("target", ["slides", "site", "assignment", "notebooks"])
def test_no_such_lesson(target: str) -> None:
    argv = [sys.executable, "-m", f"tutorials.publish.{target}", "07-devices", "99-nothing"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("no such lesson: 99-nothing (") and done.stderr.count("\n") == 1


def test_slides_are_turned_by_the_keys(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "slides.html"
    file.write_text(slides.page(NAME, "en"))
    browser.open(file)
    seen = "document.querySelector('section.now').textContent"
    number = "document.querySelector('footer').textContent"
    many = browser.run("document.querySelectorAll('section').length")
    assert many > 20 and browser.run(number) == f"1 / {many}"
    browser.press("ArrowRight")
    assert browser.run(number) == f"2 / {many}"
    browser.press(" ")
    assert browser.run(number) == f"3 / {many}" and "A node is two numbers" in browser.run(seen)
    browser.press("End")
    assert browser.run(number) == f"{many} / {many}"
    browser.press("ArrowLeft")
    assert browser.run(number) == f"{many - 1} / {many}"


def test_marking_a_command_on_a_slide_does_not_turn_it(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "slides.html"
    file.write_text(slides.page(NAME, "en"))
    browser.open(file)
    browser.run("go(slides.findIndex((slide) => slide.querySelector('pre')))")
    before = int(browser.run("document.querySelector('footer').textContent").split(" ")[0])
    browser.run("getSelection().selectAllChildren(document.querySelector('section.now pre'))")
    browser.run("document.querySelector('section.now pre').click()")
    assert browser.run("document.querySelector('footer').textContent").startswith(f"{before} /")
    browser.run("getSelection().removeAllRanges()")
    browser.click(1000, 400)
    assert browser.run("document.querySelector('footer').textContent").startswith(f"{before + 1} /")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_slide_asks_before_it_shows(language: str) -> None:
    """No slide has a question and its answer; each reason stands with what it explains."""
    texts = slides.slides(source(NAME, language))
    questions = [text for text in texts if "\n> - `" in text]
    assert len(questions) >= 6
    assert not any("```" in text for text in questions)
