"""Slides of a lesson: each section, question and look on a screen of its own.

    make slides                      build/slides/en/NN-topic.html, …/ko/…
    make slides LESSONS="07-devices"

One file without any other: text, figures and script. The keys are a presenter's: right and left,
space, Home, End. A question stands before its look; its reason comes after it.
"""

from __future__ import annotations

import base64
import html
import re
import sys
from pathlib import Path

from markdown_it import MarkdownIt

from tutorials.publish.notebooks import LANGUAGES, ROOT, TUTORIALS, lessons, source
from tutorials.publish.source import Part, parts

OUT = ROOT / "build" / "slides"
FRAME = Path(__file__).parent / "pages" / "slides.html"
_IMAGE = re.compile(r'src="(?P<path>[^"]+\.svg)"')
_LEFT_OUT = ("Before you begin", "시작하기 전에", "Clean up", "뒷정리")


def main() -> int:
    """Write the slides of the chosen lessons, or of all."""
    for name in sys.argv[1:] or lessons():
        for language in LANGUAGES:
            file = OUT / language / f"{name}.html"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(page(name, language), encoding="utf-8")
    print(f"{OUT}: open a page in a browser; the arrow keys turn the slides")
    return 0


def page(name: str, language: str) -> str:
    """Return the slides of one lesson as one page."""
    texts = slides(source(name, language))
    marked = MarkdownIt("commonmark", {"html": False}).enable("table")
    shown = "\n".join(f"<section>\n{_embedded(marked.render(text))}</section>" for text in texts)
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
    return [slide for slide in found if not slide.startswith(tuple(f"## {w}" for w in _LEFT_OUT))]


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
