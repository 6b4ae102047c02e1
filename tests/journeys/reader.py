"""Reads a journey: what a user types, in its order, and what must be seen. One file in table/ each.

    # A container in the background       the title; the rows of the table are in the files' order
    # promised in README.md containers.md
    # needs podman uidmap                 Debian packages that the user installs first
    # only in root flushed                no other surrounding
    # takes minutes                       `make test` leaves it out
    # types 01-process.en.md              a lesson's commands, after those below

    $ minirun run -d --name web busybox sleep 600
    web
    $ minirun exec web sh -c 'exit 3'
    [3]
    $ for each in 1 2; do
    >     echo $each
    > done
    …

    # not possible in user offline: a bridge needs root
    $ minirun run -p 8080:80 busybox true
    minirun: …
    [125]

`$ ` begins a command, `> ` goes on with it. `root# ` is one that root types, also where the journey
is a user's: those before and after it are two shells then. Below it stands all that it prints, on
both streams, as in the lessons (tutorials/publish/runner.py): a line … stands for any lines, … in a
line for any characters, runs of blanks count as one. Nothing below it: it prints nothing. `[3]` at
the end is its exit status, if that is not 0. A line's first blanks are not compared.

A journey may end otherwise in some surroundings. `not possible in` has the reason, and the session
that is typed there instead: it sees that minirun itself gives the reason.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP)]

from tutorials.publish import runner  # noqa: E402

TABLE = Path(__file__).parent / "table"
_HEAD = re.compile(r"# (promised in|needs|only in|takes|types) (.+)")
_OTHERWISE = re.compile(r"# not possible in ([\w -]+): (.+)")


class Step(NamedTuple):
    """One command; `line` is where it stands in the file."""

    line: int
    command: str
    expected: str = ""
    status: int = 0
    is_roots: bool = False


class Otherwise(NamedTuple):
    """Why it is not possible in some surroundings, and the session that is typed there."""

    reason: str
    steps: tuple[Step, ...]


class Journey(NamedTuple):
    """A journey; `only` is empty if it is made everywhere. `make test` makes none that is long."""

    name: str
    title: str
    promised: tuple[str, ...]
    needs: tuple[str, ...]
    only: tuple[str, ...]
    steps: tuple[Step, ...]
    otherwise: dict[str, Otherwise]
    is_long: bool = False


class Section(NamedTuple):
    """Lines of a file, with their numbers, below `# not possible in WHICH:`, or above all such."""

    which: str
    reason: str
    lines: list[tuple[int, str]]


def journeys(folder: Path = TABLE) -> list[Journey]:
    """Return the table, in its order. Raises ValueError for a file of another form."""
    return [read(path.stem, path.read_text()) for path in sorted(folder.glob("*.session"))]


def read(name: str, text: str) -> Journey:
    """Return one journey. Raises ValueError with the line that is of another form."""
    heads: dict[str, tuple[str, ...]] = {}
    otherwise: dict[str, Otherwise] = {}
    sections: list[Section] = [Section("", "", [])]
    lines = text.splitlines()
    if not lines or not lines[0].startswith("# "):
        raise ValueError(f"{name}:1: a title is missing")
    for number, line in enumerate(lines[1:], 2):
        if head := _HEAD.fullmatch(line):
            heads[head[1]] = tuple(head[2].split())
        elif other := _OTHERWISE.fullmatch(line):
            sections.append(Section(other[1], other[2], []))
        elif line.startswith("# ") and not sections[-1].lines:  # a reason may be long
            sections[-1] = sections[-1]._replace(reason=f"{sections[-1].reason} {line[2:]}")
        else:
            sections[-1].lines.append((number, line))
    lessons = [step for lesson in heads.get("types", ()) for step in _lesson(lesson)]
    steps: tuple[Step, ...] = ()
    for section in sections:
        found = _steps(name, section.lines)
        if not section.which:
            steps = (*found, *lessons)
            continue
        if not found:
            raise ValueError(f"{name}: not possible in {section.which}: no command shows it")
        places = section.which.split()
        otherwise |= {each: Otherwise(section.reason, found) for each in places}
    if not steps or "promised in" not in heads:
        raise ValueError(f"{name}: a session, or the page that promises it, is missing")
    needs, only = heads.get("needs", ()), heads.get("only in", ())
    promised, is_long = heads["promised in"], "takes" in heads
    return Journey(name, lines[0][2:], promised, needs, only, steps, otherwise, is_long)


def _lesson(name: str) -> list[Step]:
    """Return the commands of a lesson: each block is one, and its lines are the lesson's."""
    found = runner.blocks((TOP / "tutorials" / name).read_text())
    said = ["…" if each.expected is None else each.expected.rstrip("\n") for each in found]
    return [Step(each.line, each.commands, text) for each, text in zip(found, said, strict=True)]


def _steps(name: str, lines: list[tuple[int, str]]) -> tuple[Step, ...]:
    """Return a section's commands."""
    steps: list[Step] = []
    for number, line in lines:
        if line.startswith(("$ ", "root# ")):
            prompt, _, command = line.partition(" ")
            steps.append(Step(number, command, is_roots=prompt != "$"))
        elif line.startswith("> ") and steps and not steps[-1].expected:
            steps[-1] = steps[-1]._replace(command=f"{steps[-1].command}\n{line[2:]}")
        elif status := re.fullmatch(r"\[(\d+)\]", line):
            steps[-1] = steps[-1]._replace(status=int(status[1]))
        elif steps:
            steps[-1] = steps[-1]._replace(expected=f"{steps[-1].expected}{line}\n")
        elif line:
            raise ValueError(f"{name}:{number}: text above the first command: {line}")
    return tuple(step._replace(expected=step.expected.rstrip("\n")) for step in steps)
