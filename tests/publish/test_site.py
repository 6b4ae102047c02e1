"""The site: it is built from two lessons, all its links lead somewhere, and it needs no network."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from required import installed, skip
from show.browser import Browser
from tutorials.publish import links
from tutorials.publish.notebooks import LANGUAGES, ROOT, source

pytest.importorskip("myst_parser")
from tutorials.publish import slides
from tutorials.publish.site import build

NAME = "07-devices"
OTHER = "00-seven-stages"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not os.stat(ROOT).st_mode & 0o001:
        skip(f"user nobody, who plays the notebooks, cannot read {ROOT}")
    out = tmp_path_factory.mktemp("web") / "site"
    build(out, [OTHER, NAME])
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    installed("chromium")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


def test_every_link_leads_somewhere(site: Path) -> None:
    found = links.look(site)
    assert found.broken == []
    assert found.pages > 40 and found.links > 1000


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text('<p id="here">')
    targets = ("there.html#here", "there.html#gone", "gone.html", "https://example.org/")
    text = "".join(f'<a href="{link}">' for link in targets)
    loads = '<script src="https://example.org/x.js"></script><img src="//example.org/x.png">'
    (tmp_path / "index.html").write_text(text + loads)
    (tmp_path / "site.css").write_text("p { background: url(https://example.org/x.png) }")
    said = " ".join(links.look(tmp_path).broken)
    for bad in ("#gone", "gone.html", "x.js", "//example.org/x.png", "site.css"):
        assert bad in said, bad
    assert len(links.look(tmp_path).broken) == 5


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", ["tutorials/{0}.{1}", "notebooks/{1}/{0}", "index"])
def test_a_page_without_a_network(site: Path, browser: Browser, language: str, path: str) -> None:
    """Narrow and wide, light and dark: nothing is cut off, all is loaded."""
    file = site / language / f"{path.format(NAME, language)}.html"
    colours = set()
    for width, scheme in ((400, "light"), (400, "dark"), (1400, "light"), (1400, "dark")):
        browser.open(file, width=width, scheme=scheme)
        assert browser.run("document.documentElement.scrollWidth") <= width
        colours.add(browser.run("getComputedStyle(document.body).backgroundColor"))
        pictures = "[...document.images].every(i => i.complete && i.naturalWidth > 0)"
        assert browser.run(pictures)
    assert len(colours) == 2
    assert browser.run("document.documentElement.lang") == language


@pytest.mark.parametrize(("language", "contents"), [("en", "README"), ("ko", "README.ko")])
def test_the_companion_is_read_from_its_first_page_on(
    site: Path, language: str, contents: str
) -> None:
    """The index leads to it; it leads to each chapter, and a chapter back, in one language."""
    book = site / language / "tutorials" / "book"
    chapters = sorted(path.name for path in book.glob(f"*-*.{language}.html"))
    index = [link for link in links.Page(site / language / "index.html").links if "book/" in link]
    names = [f"{contents}.html", *chapters]
    assert list(dict.fromkeys(index)) == [f"tutorials/book/{name}" for name in names]
    main = (book / f"{contents}.html").read_text().partition('role="main"')[2]
    assert len(chapters) == 11 and all(f'href="{name}"' in main for name in chapters)
    for name in chapters:
        text = (book / name).read_text().partition('role="main"')[2]
        other = name.replace(f".{language}.", ".ko." if language == "en" else ".en.")
        assert f'href="{contents}.html"' in text and f"/tutorials/book/{other}" in text


def test_a_notebook_has_its_outputs(site: Path) -> None:
    page = (site / "en" / "notebooks" / "en" / f"{NAME}.html").read_text()
    assert "crw-rw-rw- 1 root root 195, 255" in page


def test_slides_are_turned_by_the_keys(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "slides.html"
    file.write_text(slides.page(NAME, "en"))
    browser.open(file)
    seen = "document.querySelector('section.now').textContent"
    number = "document.querySelector('footer').textContent"
    many = browser.run("document.querySelectorAll('section').length")
    assert many > 20 and browser.run(number) == f"1 / {many}"
    browser.press("ArrowRight")
    assert browser.run(number) == f"2 / {many}" and "A node is two numbers" in browser.run(seen)
    browser.press("End")
    assert browser.run(number) == f"{many} / {many}"
    browser.press("ArrowLeft")
    assert browser.run(number) == f"{many - 1} / {many}"


def test_marking_a_command_on_a_slide_does_not_turn_it(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "slides.html"
    file.write_text(slides.page(NAME, "en"))
    browser.open(file)
    browser.press("ArrowRight")
    browser.run("getSelection().selectAllChildren(document.querySelector('section.now pre'))")
    browser.run("document.querySelector('section.now pre').click()")
    assert browser.run("document.querySelector('footer').textContent").startswith("2 /")
    browser.run("getSelection().removeAllRanges()")
    browser.click(1000, 400)
    assert browser.run("document.querySelector('footer').textContent").startswith("3 /")


def test_korean_is_broken_between_words(site: Path, browser: Browser, tmp_path: Path) -> None:
    """Browsers break Korean after any syllable; its readers expect it after a word."""
    file = tmp_path / "slides.html"
    file.write_text(slides.page(NAME, "ko"))
    for path in (file, site / "ko" / "tutorials" / f"{NAME}.ko.html"):
        browser.open(path)
        assert browser.run("getComputedStyle(document.querySelector('p')).wordBreak") == "keep-all"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_slide_asks_before_it_shows(language: str) -> None:
    """No slide has a question and its answer; each reason stands with what it explains."""
    texts = slides.slides(source(NAME, language))
    questions = [text for text in texts if "\n> - `" in text]
    assert len(questions) >= 6
    assert not any("```" in text for text in questions)
