"""Slides of a lesson: each section, question and look on a screen of its own.

    make slides                      build/slides/en/NN-topic.html, …/ko/…
    make slides LESSONS="07-devices"

One file without any other: text, figures and script. The keys are a presenter's: right and left,
space, Home, End. A question stands before its look; its reason comes after it. The first slide has
the title and what the lesson is about. What is too long for a slide continues on the next, under
the same heading; the page then makes a slide's letters as small as the window needs.
"""

from __future__ import annotations

import base64
import html
import re
import sys
from pathlib import Path

from markdown_it import MarkdownIt

from minirun.common.screen import display_width
from tutorials.publish.notebooks import LANGUAGES, ROOT, TUTORIALS, chosen, source
from tutorials.publish.source import Part, parts

OUT = ROOT / "build" / "slides"
FRAME = Path(__file__).parent / "pages" / "slides.html"
_IMAGE = re.compile(r'src="(?P<path>[^"]+\.svg)"')
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_LINES, _COLUMNS = 21, 84
"""So much text is on a slide: more lines than a window of 16:9 has at the full size of letters."""
LEFT_OUT = ("Before you begin", "시작하기 전에", "Clean up", "뒷정리")


def main() -> int:
    """Write the slides of the chosen lessons, or of all."""
    for name in chosen(sys.argv[1:]):
        for language in LANGUAGES:
            file = OUT / language / f"{name}.html"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(page(name, language), encoding="utf-8")
    print(f"{OUT}: open a page in a browser; the arrow keys turn the slides")
    return 0


def page(name: str, language: str) -> str:
    """Return the slides of one lesson as one page."""
    texts = slides(source(name, language))
    shown = "\n".join(f"<section>\n{_embedded(_MARKDOWN.render(text))}</section>" for text in texts)
    title = texts[0].splitlines()[0].lstrip("# ")
    frame = FRAME.read_text(encoding="utf-8")
    return frame.format(language=language, title=html.escape(title), slides=shown)


def slides(markdown: str) -> list[str]:
    """Return the Markdown of each slide."""
    found: list[str] = []
    heading, before = "", ""
    for part in parts(markdown):
        if part.kind == "text":
            for section in re.split(r"^(?=## )", part.body, flags=re.MULTILINE):
                if section.startswith("## "):
                    heading = section.splitlines()[0]
                _add(found, heading, section)
        elif part.kind not in ("cell", "skeleton"):
            joins = part.kind in ("console", "reason") or (part.kind, before) == ("shell", "text")
            _add(found, heading, _written(part), joins=joins)
        before = part.kind
    left_out = tuple(f"## {words}" for words in LEFT_OUT)
    opening, *others = (slide for slide in found if not slide.startswith(left_out))
    return [slide for text in (*_opening(opening), *others) for slide in _short(text)]


def _opening(text: str) -> list[str]:
    """Return the title with what the lesson is about, and what else stands before its sections."""
    title, _, about, *rest = _blocks(text)  # the second: links to the same in other forms
    more = "\n\n".join((title.replace("# ", "## ", 1), *rest))
    return [f"{title}\n\n{about}"] + [more] * bool(rest)


def _short(text: str) -> list[str]:
    """Return a slide as several, each under the same heading, if it is too long for one."""
    heading, *blocks = (piece for block in _blocks(text) for piece in _pieces(block))
    made, room = [[heading]], 0.0
    for block in blocks:
        height = _height(block)
        if height > room and len(made[-1]) > 1:
            made.append([heading])
        if len(made[-1]) == 1:
            room = _LINES - _height(heading)
        made[-1].append(block)
        room -= height
    return ["\n\n".join(each) for each in made]


def _blocks(text: str) -> list[str]:
    """Return the paragraphs, tables, lists and blocks of code of a text."""
    lines = text.splitlines()
    maps = [token.map for token in _MARKDOWN.parse(text) if token.level == 0 and token.map]
    return ["\n".join(lines[begin:end]).strip("\n") for begin, end in maps]


def _pieces(block: str) -> list[str]:
    """Return a block of code in pieces that fit on a slide, cut at empty lines where there are."""
    if not block.startswith("```") or _height(block) <= _LINES:
        return [block]
    fence, *lines, end = block.splitlines()
    pieces: list[list[str]] = [[]]
    for paragraph in re.split(r"(?<=\n)\n+", "\n".join(lines)):
        for line in paragraph.rstrip("\n").split("\n"):
            if len(pieces[-1]) >= _LINES:
                pieces.append([])
            pieces[-1].append(line)
        if len(pieces[-1]) > _LINES / 2:
            pieces.append([])
        elif pieces[-1]:
            pieces[-1].append("")
    return ["\n".join((fence, *piece, end)) for piece in pieces if any(piece)]


def _height(block: str) -> float:
    """Return about how many lines of text a block is as high as."""
    lines = block.splitlines()
    if block.startswith("```"):
        return 0.8 * sum(1 + display_width(line) // _COLUMNS for line in lines[1:-1]) + 1.5
    if block.startswith("!["):
        return 12
    if block.startswith("|"):
        return sum(1.3 + display_width(line) // _COLUMNS for line in lines)
    starts = re.split(r"\n(?=\s*(?:>\s*)?(?:[-*]|\d+\.) |>\s*\n)", block)
    return sum(1 + display_width(" ".join(one.split())) // _COLUMNS for one in starts) + 0.7


def _add(found: list[str], heading: str, text: str, joins: bool = False) -> None:
    """Put a text on a slide of its own, under its section's heading, or on the last one."""
    if not text.strip():
        return
    if joins and found:
        found[-1] += f"\n\n{text}"
    else:
        found.append(text if text.startswith("#") else f"{heading}\n\n{text}")


def _written(part: Part) -> str:
    if part.kind in ("shell", "answer", "console"):
        return f"```{part.kind}\n{part.body}```"
    return "\n".join(f"> {line}" for line in part.body.splitlines())


def _embedded(text: str) -> str:
    """Return HTML with its figures in it."""

    def figure(found: re.Match[str]) -> str:
        data = (TUTORIALS / found["path"]).read_bytes()
        return f'src="data:image/svg+xml;base64,{base64.b64encode(data).decode()}"'

    return _IMAGE.sub(figure, re.sub(r'<a href="(?!https:)[^"]*">(.*?)</a>', r"\1", text))


if __name__ == "__main__":
    sys.exit(main())
