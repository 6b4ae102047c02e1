"""The machine of a site's tab, near a notebook in a browser's Python, as JupyterLite has it.

The page tab/ of `make tab` runs a real Linux in an emulator. A notebook of the same site, lite/,
reaches it by a channel between pages of one origin (HTML, "Broadcasting to other browsing
contexts"): what is sent is typed into the terminal of each such page that is open. Nothing comes
back: Python in a browser can't wait for another page, and the terminal shows what was printed.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from minirun.core.errors import UsageError
from minirun.faces.api.table import Shown

CHANNEL = "minirun-tab"
"""page/host.js of the tab listens to it."""
_NOTEBOOKS, _TAB = "/lite/", "/tab/"
"""Folders of the site."""


class Typed(Shown):
    """What a cell says whose commands were typed into the tab."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __str__(self) -> str:
        return self.words


def is_near() -> bool:
    """Return True if this is a browser's Python, whose site may have a tab."""
    return sys.platform == "emscripten"


def type_into(commands: str) -> None:
    """Type them into the machine's terminal, at its next prompt. Raises UsageError."""
    page = _page()
    channel = page.BroadcastChannel.new(CHANNEL)
    channel.postMessage(page.JSON.parse(json.dumps({"run": commands})))
    channel.close()


def address() -> str:
    """Return the page's address, if the site has one. Raises UsageError."""
    site, _, _ = str(_page().location.href).partition(_NOTEBOOKS)
    return site + _TAB


def _page() -> Any:
    """Return the browser's names: https://pyodide.org, "import js"."""
    if not is_near():
        raise UsageError("%%minirun types into a browser's tab: use %%shell here")
    return importlib.import_module("js")
