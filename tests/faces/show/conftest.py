"""Fixtures of the views' tests."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from faces.show.browser import Browser
from faces.show.pages import shipped, show
from faces.show.terminal import Start, Terminal

_NUMBERS = itertools.count()
"""Of tmux's sockets: a server that is about to end still answers at its own."""


@pytest.fixture
def terminal() -> Iterator[Start]:
    """Opens terminals (tmux) with a command in them; they are closed at the test's end."""
    opened: list[Terminal] = []

    def start(argv: list[str], columns: int = 80, lines: int = 40) -> Terminal:
        opened.append(Terminal(f"minirun-{os.getpid()}-{next(_NUMBERS)}", argv, columns, lines))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    """The recording of a container with two GPUs, open. Whatever it complains of is a failure."""
    browser.events.clear()
    show(browser, tmp_path, shipped("gpus-0-1"))
    yield browser
    assert browser.complaints() == []
