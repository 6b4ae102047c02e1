"""The site, all of it but JupyterLite: every page is there, every link leads somewhere.

It needs no network.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faces.show.browser import Browser
from minirun.faces import recordings
from tutorials.publish import contents, links
from tutorials.publish.notebooks import LANGUAGES, ROOT, TUTORIALS, lessons

pytest.importorskip("myst_parser")
from tutorials.publish.site import build

pytestmark = pytest.mark.timeout(600)
NAME = "07-devices"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make site` builds: a warning of Sphinx's, or a cell that fails, is an error."""
    out = tmp_path_factory.mktemp("web") / "site"
    build(out, lessons())
    return out


def main_part(page: Path) -> str:
    return page.read_text().partition('role="main"')[2].partition('class="related-pages"')[0]


def test_every_link_leads_somewhere(site: Path) -> None:
    found = links.look(site)
    assert found.broken == []
    assert found.pages > 180 and found.links > 20_000


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_is_there_and_is_listed(site: Path, language: str) -> None:
    """All Markdown below tutorials/ that readers of a language can read, each notebook and
    recording: a page, which the list in the margin of every page has."""
    other = "ko" if language == "en" else "en"
    texts = [str(path.relative_to(ROOT))[:-3] for path in TUTORIALS.rglob("*.md")
             if path.parent.name not in ("publish", "pages")]  # fmt: skip
    own = {path for path in texts if not path.endswith(f".{other}") and (
        language == "en" or f"{path}.ko" not in texts)}  # fmt: skip
    own |= {f"notebooks/{language}/{name}" for name in lessons()}
    assert len(own) > 2 * len(lessons()) + 25
    assert [path for path in sorted(own) if not (site / language / f"{path}.html").exists()] == []
    margin = (site / language / "index.html").read_text().partition('role="main"')[0]
    listed = {*re.findall(r'class="reference internal" href="([^"]+)\.html"', margin)}
    assert own - listed == set()
    recorded = main_part(site / language / "recordings.html")
    assert all(f'href="recordings/{name}.html"' in recorded for name in recordings.RECORDINGS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_link_of_a_text_is_lost(site: Path, language: str) -> None:
    """If all lessons are in the site, each link of a text to a text is a link of its page."""
    count = 0
    for path in contents.texts(language, lessons()):
        text = (ROOT / path).read_text()
        wanted = {there for there, link in contents.targets(path, text)
                  if there.endswith((".md", ".ipynb")) and not link["picture"]}  # fmt: skip
        file = site / language / f"{path[:-3]}.html"
        to = {(file.parent / link.partition("#")[0]).resolve() for link in links.Page(file).links}
        for there in wanted:
            tree = site / (contents.language_of(there) or language)
            assert tree.resolve() / f"{there.rpartition('.')[0]}.html" in to, f"{path}: {there}"
            count += 1
    assert count > 150


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", ("For whom", "Where to begin")), ("ko", ("누구를 위한 것인가", "어디서 시작하는가"))],
)
def test_the_first_page_says_where_to_begin(
    site: Path, language: str, words: tuple[str, ...]
) -> None:
    """In few links, of which the first is the overview; the margin has lists of lists, no pages."""
    text = main_part(site / language / "index.html")
    assert all(word in text for word in words)
    shown = re.findall(r'<a class="[^"]*" href="([^"]+)"', text)
    pages = [link for link in shown if not link.startswith("#")]
    assert pages[0] == f"tutorials/00-seven-stages.{language}.html" and len(pages) < 12
    margin = (site / language / "index.html").read_text().partition('role="main"')[0]
    top = re.findall(r'<li class="toctree-l1[^"]*"><a class="reference internal" href="([^"]+)"',
                     margin)  # fmt: skip
    ladder = "tutorials/levels/README" + ".ko" * (language == "ko")
    companion = "tutorials/book/README" + ".ko" * (language == "ko")
    assert top == [f"{name}.html" for name in ("lessons", ladder, companion, "notebooks",
                                               "reference", "more", "recordings")]  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_levels_are_no_lessons(site: Path, language: str) -> None:
    """The overview is the first of the lessons; the levels stand on the ladder's page."""
    listed = re.findall(
        r'href="tutorials/([^"]+)\.html"', main_part(site / language / "lessons.html")
    )
    course = [name for name in lessons() if not name.startswith("level-")]
    assert listed[0] == f"00-seven-stages.{language}"
    assert sorted(listed) == [f"{name}.{language}" for name in course]


def test_a_few_lessons_alone(tmp_path: Path) -> None:
    """What was not chosen is no page, and no link."""
    build(tmp_path / "site", [NAME])
    found = links.look(tmp_path / "site")
    assert found.broken == []
    for language in LANGUAGES:
        folder = tmp_path / "site" / language / "tutorials"
        assert [path.name for path in folder.glob("*-*.html")] == [f"{NAME}.{language}.html"]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """A link that leads nowhere ends the build."""
    copy = tmp_path / "clone"
    for folder in ("tutorials", "notebooks"):
        shutil.copytree(ROOT / folder, copy / folder)
    text = copy / "tutorials/reference/gpus.md"
    text.write_text(f"{text.read_text()}\n[gone](gone.md)\n")
    argv = [sys.executable, "-m", "tutorials.publish.site", NAME]
    done = subprocess.run(argv, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "gone.md" in done.stderr
    assert "Traceback" not in done.stderr


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


@pytest.mark.parametrize(("language", "first"), [("en", "README"), ("ko", "README.ko")])
def test_the_companion_is_read_from_its_first_page_on(
    site: Path, language: str, first: str
) -> None:
    """The index leads to it; it leads to each chapter, and a chapter back, in one language."""
    book = site / language / "tutorials" / "book"
    chapters = sorted(path.name for path in book.glob(f"*-*.{language}.html"))
    index = [link for link in links.Page(site / language / "index.html").links if "book/" in link]
    names = [f"{first}.html", *chapters]
    assert list(dict.fromkeys(index)) == [f"tutorials/book/{name}" for name in names]
    main = main_part(book / f"{first}.html")
    assert len(chapters) == 11 and all(f'href="{name}"' in main for name in chapters)
    for name in chapters:
        text = (book / name).read_text().partition('role="main"')[2]
        other = name.replace(f".{language}.", ".ko." if language == "en" else ".en.")
        assert f'href="{first}.html"' in text and f"/tutorials/book/{other}" in text


def test_a_notebook_has_its_outputs(site: Path) -> None:
    page = (site / "en" / "notebooks" / "en" / f"{NAME}.html").read_text()
    assert "crw-rw-rw- 1 root root 195, 255" in page


def test_korean_is_broken_between_words(site: Path, browser: Browser) -> None:
    """Browsers break Korean after any syllable; its readers expect it after a word."""
    browser.open(site / "ko" / "tutorials" / f"{NAME}.ko.html")
    assert browser.run("getComputedStyle(document.querySelector('p')).wordBreak") == "keep-all"
