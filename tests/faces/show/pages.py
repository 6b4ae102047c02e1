"""What the tests of the page share: opening a recording's page, and asking it."""

import json
from pathlib import Path
from typing import Any

from faces.show.browser import Browser
from minirun.faces import recordings
from minirun.faces.show.log import recording
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.page import html


def shipped(name: str) -> list[Recording]:
    return recording.read(recordings.path(name))


def show(
    browser: Browser, tmp_path: Path, found: list[Recording], language: str = "en", **options: Any
) -> None:
    path = tmp_path / "page.html"
    path.write_text(html.render(found, language=language), encoding="utf-8")
    browser.open(path, **options)


def text(browser: Browser, selector: str) -> str:
    found: str = browser.run(f"document.querySelector({json.dumps(selector)}).textContent")
    return found


def hidden(browser: Browser, selector: str) -> bool:
    """Whether nothing of an element is painted."""
    rects = f"document.querySelector({json.dumps(selector)}).getClientRects().length"
    return bool(browser.run(rects) == 0)
