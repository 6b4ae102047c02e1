"""What a page says that one types and gets: it is typed on the machines that it names.

node1$ COMMAND      on the machine node1, by its shell; with & at its end it goes on
LINE                what it prints, up to the next prompt
"""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_PROMPT = re.compile(r"([a-z]+\d*)\$ (.*)")
_STARTS = re.compile(r"^srun|^docker service create")
"""What is typed once; a command that only looks is typed again until it shows what it should."""
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-z]{25}\b|\b[0-9a-f]{12}\b|\b[0-9a-z]{12}\b"), "ID"),
    (re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"(Running|Pending) .* ago"), r"\1 AGO"),
    (re.compile(r"\s+"), " "),
)
"""What is another each time, and what stands for it."""


class Typed(NamedTuple):
    """A command on a page, and what the page says that it prints."""

    machine: str
    command: str
    prints: list[str]


def typed(page: Path, title: str) -> Iterator[Typed]:
    """Yield what stands in the indented blocks of the section with this title."""
    section = page.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    last = None
    for line in section.splitlines():
        if not line.startswith("    "):
            continue
        if prompt := _PROMPT.fullmatch(line[4:]):
            if last:
                yield last
            last = Typed(prompt[1], prompt[2], [])
        elif last:
            last.prints.append(line[4:])
    if last:
        yield last


def play(page: Path, title: str, run: Callable[[str, str], str]) -> None:
    """Type a section's commands, one after the other; `run` is given machine and command.

    Raises AssertionError if one prints other lines.
    """
    rows = list(typed(page, title))
    assert rows, f"{page.name} has no command in {title!r}"
    for row in rows:
        shown = [same(line) for line in row.prints]
        deadline = time.monotonic() + (0 if _STARTS.search(row.command) else 20)
        while (printed := lines(run(row.machine, row.command))) != shown:
            assert time.monotonic() < deadline, f"{row.command}: {printed}, not {shown}"
            time.sleep(0.5)


def lines(text: str) -> list[str]:
    """Return the lines of an output, as :func:`same` has them."""
    return [same(line) for line in text.splitlines()]


def same(line: str) -> str:
    """Return a line without what is another each time."""
    for pattern, instead in _CHANGING:
        line = pattern.sub(instead, line)
    return line.strip()
