"""Looks at every link of a static site: to files, to anchors, to other hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser fetches by itself."""
BY_SCRIPT = "event-"
"""Anchors that a recording's page makes when it is opened: tests/faces/show clicks through it."""
_HINTS = {"canonical", "prev", "next", "search", "author", "index"}
"""Kinds of <link> that are not fetched."""


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag has."""
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        hint = tag == "link" and _HINTS & set(given.get("rel", "").split())
        if tag in LOADED and given.get(LOADED[tag]) and not hint:
            self.loads.append(given[LOADED[tag]])


_URL = re.compile(r"url\(['\"]?(?:https?:)?(//[^)]*)")


@dataclass
class Found:
    """What there is."""

    pages: int = 0
    links: int = 0
    bytes: int = 0
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB"
        return f"{self.pages} pages, {size}, {self.links} links, {len(self.broken)} broken"


def look(site: Path) -> Found:
    """Return how many pages there are, and which links lead nowhere, or outside unasked."""
    pages = {file.resolve(): Page(file) for file in site.rglob("*.html")}
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    found = Found(pages=len(pages), bytes=size)
    for file, page in pages.items():
        for target in page.loads:
            if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
                found.broken.append(f"{file}: loads {target}")
        for target in [*page.links, *page.loads]:
            found.links += 1
            if not _leads(file, target, pages):
                found.broken.append(f"{file.relative_to(site.resolve())}: {target}")
    for file in site.rglob("*.css"):
        for target in _URL.findall(file.read_text(encoding="utf-8")):
            found.broken.append(f"{file.relative_to(site)}: loads {target}")
    return found


def _leads(file: Path, target: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return True
    there = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not there.is_file():
        return False
    anchor = unquote(parts.fragment)
    if file == there and anchor.startswith(BY_SCRIPT):
        return True
    return not anchor or there not in pages or anchor in pages[there].ids
