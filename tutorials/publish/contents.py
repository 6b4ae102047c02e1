"""Which pages the site has, and in which lists they stand. No list here is of pages: a file that is
added to tutorials/, or that a page links to, is in the site.

A tree of pages is of one language. A page is in it if its name says that language, as
07-devices.ko.md does, or none, as reference/gpus.md does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from tutorials.publish.notebooks import ROOT, TUTORIALS

LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
BEGIN = "00-seven-stages"
"""The lesson that a reader begins with."""
_CODE = re.compile(r"^(`{3,}).*?^\1`*\s*$", re.MULTILINE | re.DOTALL)
_LESSON = re.compile(r"(?:tutorials|notebooks/(?:en|ko))/((?:\d\d|level-\d)-[\w-]+)\.")
_GROUPS = (
    ("lessons", "", r"tutorials/\d\d-"),
    ("ladder", "tutorials/levels/README", r"tutorials/level"),
    ("companion", "tutorials/book/README", r"tutorials/book/"),
    ("notebooks", "", r"notebooks/"),
    ("reference", "", r"tutorials/reference/"),
    ("more", "", r""),
)
"""Name, its first page if that is a text of the repository, how the paths of its pages begin."""
_HEADS = {
    "en": ("Lessons", "The ladder: ten programs", "The companion", "Notebooks, with their outputs",
           "Reference", "More"),
    "ko": ("수업", "사다리: 프로그램 열 개", "코드 해설", "출력이 있는 노트북",
           "참고", "더 읽을 것"),
}  # fmt: skip


class Group(NamedTuple):
    """Pages that stand in one list."""

    title: str
    first: str
    """The page that has the list."""
    is_text: bool
    """True if the first page is a text of the repository."""
    pages: list[str]


def texts(language: str, chosen: list[str]) -> list[str]:
    """Return the paths of all texts of a language: those of tutorials/, and what they link to.

    `chosen`: the names of the lessons that are to be in it; the others are not.
    """
    found = dict.fromkeys(
        path for path in sorted(str(each.relative_to(ROOT)) for each in TUTORIALS.rglob("*.md"))
        if not path.startswith("tutorials/publish/") and is_page(path, language, chosen)
    )  # fmt: skip
    todo = list(found)
    while todo:
        here = todo.pop()
        for there, _ in targets(here, (ROOT / here).read_text(encoding="utf-8")):
            if there.endswith(".md") and there not in found and is_page(there, language, chosen):
                found[there] = None
                todo.append(there)
    return list(found)


def is_page(path: str, language: str, chosen: list[str]) -> bool:
    """Return True if a text is there, is in a tree of this language, and no lesson left out."""
    if not path.endswith((".md", ".ipynb")) or not (ROOT / path).is_file():
        return False
    lesson = _LESSON.match(path)
    return language_of(path) in ("", language) and (not lesson or lesson[1] in chosen)


def language_of(path: str) -> str:
    """Return the language that a path says; empty if it is for readers of each."""
    if said := re.search(r"\.(en|ko)\.md$|^notebooks/(en|ko)/", path):
        return said[1] or said[2]
    return "en" if (ROOT / path).with_suffix(".ko.md").exists() else ""


def targets(path: str, text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the file of the repository that each link of a text leads to, and the link itself.

    A folder that is linked to is its README.md. Links to other hosts, and those within the text,
    are left out.
    """
    for between, _ in pieces(text):
        for link in LINK.finditer(between):
            if there := target(path, link):
                yield there, link


def target(path: str, link: re.Match[str]) -> str:
    """Return the file that a link of the text at `path` leads to; empty if it leads elsewhere."""
    to = link["target"].partition("#")[0]
    if not to or to.startswith(("http:", "https:", "mailto:")):
        return ""
    there = os.path.normpath(os.path.join(os.path.dirname(path), to))
    return f"{there}/README.md" if (ROOT / there / "README.md").is_file() else there


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before each block of code, and the block; at last what stands behind."""
    end = 0
    for code in _CODE.finditer(text):
        yield text[end : code.start()], code[0]
        end = code.end()
    yield text[end:], ""


def groups(language: str, pages: list[str]) -> list[Group]:
    """Return the lists, each with its pages; one that has none is left out."""
    found: dict[str, list[str]] = {name: [] for name, _, _ in _GROUPS}
    for page in pages:
        found[next(name for name, _, begin in _GROUPS if re.match(begin, page))].append(page)
    made = []
    for title, (name, first, _) in zip(_HEADS[language], _GROUPS, strict=True):
        own = next((f"{first}{end}" for end in (f".{language}.md", ".md")
                    if first and f"{first}{end}" in pages), "")  # fmt: skip
        rest = sorted((page for page in found[name] if page != own), key=_in_order)
        if own or rest:
            made.append(Group(title, own or f"{name}.md", bool(own), rest))
    return made


def _in_order(page: str) -> tuple[bool, str]:
    lesson = _LESSON.match(page)
    return not (lesson and lesson[1] == BEGIN), page
