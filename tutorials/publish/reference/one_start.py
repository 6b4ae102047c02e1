"""Writes tutorials/reference/one-start.md from starts that are traced: `make path`.

start.py traces them. The page lists a function once, in the first section in which it runs.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

from tutorials.publish.reference import start
from tutorials.publish.reference.start import Function, Start

PAGE = Path(__file__).parents[2] / "reference" / "one-start.md"


class Section(NamedTuple):
    """A part of the page: what one process calls from a function on, until its next one begins."""

    process: str
    begins: str
    """File and name of the function whose first call begins it; "" for what modules call."""
    title: str
    text: str


TEXTS = tomllib.loads(Path(__file__).with_name("one_start.toml").read_text())
SECTIONS = [Section(**row) for row in TEXTS["section"]]
_LOADING = SECTIONS[-1]


class Count(NamedTuple):
    """How much of minirun runs in a start."""

    functions: int
    lines: int
    executed: int


class Starts(NamedTuple):
    """The starts that the page is made of: cgroup version 1 if nothing else is said."""

    plain: Start
    gpus: Start
    network: Start
    plain_2: Start
    gpus_2: Start


def trace() -> Starts:
    """Start the containers. Raises RuntimeError, OSError."""
    return Starts(
        start.run("plain", 1), start.run("gpus", 1), start.run("plain", 1, "bridge"),
        start.run("plain", 2), start.run("gpus", 2),
    )  # fmt: skip


def text(starts: Starts) -> str:
    """Return the page."""
    plain, gpus, network = (
        each.functions() for each in (starts.plain, starts.gpus, starts.network)
    )
    plain_2, gpus_2 = starts.plain_2.functions(), starts.gpus_2.functions()
    absent = (plain | gpus).keys() - (plain_2 | gpus_2).keys()
    new_2 = (plain_2 | gpus_2).keys() - (plain | gpus).keys()
    told: set[Section] = set()

    def head(part: str, count: int) -> str:
        return _filled(TEXTS[part].format(count=count))

    parts = [
        _head(starts.plain, starts.gpus), *tables(starts.plain, (), absent, told),
        head("gpus", len(gpus.keys() - plain)), *tables(starts.gpus, plain, absent, told),
        head("version_2", len(new_2)), *tables(starts.plain_2, plain | gpus, (), told),
        *tables(starts.gpus_2, plain | gpus | plain_2, (), told),
        head("network", len(network.keys() - plain)), *tables(starts.network, plain, (), told),
    ]  # fmt: skip
    return "\n".join(parts)


def _head(plain: Start, gpus: Start) -> str:
    counts = {"plain": _count(plain, plain.functions()), "gpus": _count(gpus, gpus.functions())}
    return _filled(TEXTS["head"].format(**counts, rooms=_rooms(plain, gpus)))


def sections(traced: Start) -> dict[Section, dict[Function, None]]:
    """Return section → the functions that it calls, in the order of the first call there."""
    found: dict[Section, dict[Function, None]] = {each: {} for each in SECTIONS}
    for process, calls in traced.calls.items():
        own = [each for each in SECTIONS if each.process == process]
        at = own[0]
        for stage, function in calls:
            if stage == "load":
                found[_LOADING][function] = None
                continue
            later = own[own.index(at) + 1 :]
            named = f"{function.file} {function.name}"
            at = next((each for each in later if each.begins == named), at)
            found[at][function] = None
    return found


def tables(
    traced: Start,
    before: Container[Function] = (),
    absent: Container[Function] = (),
    told: set[Section] | None = None,
) -> list[str]:
    """Return the sections, with each function once, and none of those that ran `before`.

    `absent` are marked: those that version 2 does without. A section says what happens only if it
    is not among those that are `told` already.
    """
    told = set() if told is None else told
    parts: list[str] = []
    seen: set[Function] = set()
    for section, functions in sections(traced).items():
        rows = [each for each in functions if each not in before and each not in seen]
        seen.update(rows)
        if rows:
            text = "" if section in told else f"{_filled(section.text)}\n"
            parts.append(f"### {section.title}\n\n{text}{_table(traced, rows, absent)}")
            told.add(section)
    return parts


def _filled(text: str) -> str:
    """Return paragraphs with lines of at most 110 characters."""
    paragraphs = [
        each if each.startswith("|") else textwrap.fill(each, 110, break_on_hyphens=False)
        for each in text.strip().split("\n\n")
    ]
    return "\n\n".join(paragraphs) + "\n"


def _table(traced: Start, rows: Iterable[Function], absent: Container[Function]) -> str:
    lines = ["| function | file | lines | |", "|---|---|---|---|"]
    for each in rows:
        mark = "¹" if each in absent else ""
        link = f"[`{each.file}`](../../minirun/{each.file})"
        size = f"{traced.executed(each)} of {len(each.code)}"
        lines.append(f"| `{each.name}`{mark} | {link} | {size} | {_shown(each.text)} |")
    return "\n".join(lines) + "\n"


def _shown(sentence: str) -> str:
    """Return a sentence of a docstring as Markdown."""
    sentence = re.sub(r":\w+:(?=`)", "", sentence).replace("``", "`")
    return re.sub(r"([|*<\[])(?=[^`]*(?:`[^`]*`[^`]*)*$)", r"\\\1", sentence)


def _count(traced: Start, functions: Iterable[Function]) -> Count:
    chosen = list(functions)
    lines = sum(len(each.lines) for each in chosen)
    return Count(len(chosen), lines, sum(map(traced.executed, chosen)))


def _rooms(plain: Start, gpus: Start) -> str:
    """Return the table of how much of each room runs."""
    lines = ["| room | functions | lines | run | with GPUs: functions | lines | run |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    rooms = dict.fromkeys(_room(each) for each in [*plain.functions(), *gpus.functions()])
    for room in sorted(rooms):
        cells: list[object] = []
        for traced in (plain, gpus):
            cells += _count(traced, (e for e in traced.functions() if _room(e) == room))
        lines.append(f"| {room} | {' | '.join(map(str, cells))} |")
    sums = [each for traced in (plain, gpus) for each in _count(traced, traced.functions())]
    lines.append(f"| all | {' | '.join(map(str, sums))} |")
    return "\n".join(lines)


def _room(function: Function) -> str:
    folder, slash, _ = function.file.partition("/")
    return f"{folder}/" if slash else "minirun/ itself"


if __name__ == "__main__":
    PAGE.write_text(text(trace()))
