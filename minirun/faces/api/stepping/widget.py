"""The page of a stepped run in a notebook.

It needs anywidget (pip install 'minirun[notebook]'), and a front end that has it: JupyterLab and
Notebook 7. It stands in a frame without rights (HTML, "sandbox"): the names that a container chose
for its files never run beside the notebook's own scripts. Source: anywidget's documentation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget

from minirun.core.errors import MinirunError
from minirun.faces.show.web.board import Board

_HERE = Path(__file__).parent
_PAUSE = 0.1
"""Seconds between two news: what happens between them comes together."""
_KEYS = ("next", "continue", "until", "back", "why", "inspect", "shell", "quit")


class PageWidget(anywidget.AnyWidget):
    """The live page of minirun.faces.show.web.board, in a frame; it may be shown more than once."""

    _esm = (_HERE / "widget.js").read_text(encoding="utf-8")

    def __init__(self, board: Board, press: Callable[[str, str], None]) -> None:
        super().__init__()
        self.board = board
        self.press = press
        self.on_msg(self._receive)
        threading.Thread(target=self._send_news, daemon=True).start()

    def _receive(self, widget: PageWidget, content: Any, buffers: Any) -> None:
        """Take a message of a view: that it is there, what it has, or a button."""
        view = content.get("view")
        if content.get("open"):
            page = self.board.page(presenter=True, framed=True)
            self.send({"view": view, "page": page})
        elif "had" in content:
            news = self.board.news(int(content["version"]), int(content["had"]), 0)
            if news:
                self.send({"view": view, "news": news})
        elif content.get("key") in _KEYS and isinstance(content.get("argument"), str):
            try:
                self.press(content["key"], content["argument"])
            except MinirunError as error:
                self.board.show(said=str(error))

    def _send_news(self) -> None:
        """Send all views how the run goes on, until it is over and cannot go back."""
        version, had = self.board.version, len(self.board.events)
        pause = threading.Event()
        while True:
            news = self.board.news(version, had, 3600)
            if news is None:
                continue
            live = news["live"]
            version, had = live["version"], live["had"]
            self.send({"news": news})
            if live["over"] and not live["recorded"]:
                return
            pause.wait(_PAUSE)
