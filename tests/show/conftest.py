"""Fixtures of the views' tests."""

import os
from collections.abc import Iterator

import pytest

from show.terminal import Start, Terminal


@pytest.fixture
def terminal() -> Iterator[Start]:
    """Opens terminals (tmux) with a command in them; they are closed at the test's end."""
    opened: list[Terminal] = []

    def start(argv: list[str], columns: int = 80, lines: int = 40) -> Terminal:
        opened.append(Terminal(f"minirun-{os.getpid()}-{len(opened)}", argv, columns, lines))
        return opened[-1]

    yield start
    for each in opened:
        each.close()
