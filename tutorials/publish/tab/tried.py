"""Tries the course in the tab's machine: lessons, levels, labs; writes their times into runs.toml.

    python -m tutorials.publish.tab.tried [--fast] [lessons|levels|labs|NAME…]

It needs what `make tab` has made. Each lesson gets a machine of its own, as after a reload; its
blocks run in one session, in order, as runner.py runs them, but for one thing: a command that fails
ends nothing, as nothing ends for a reader. Blocks that runs.toml says do not run are left out, as
the page has no button for them. A lesson runs if no command fails, each block prints what the text
promises, and each look's last line is a choice of its question.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from minirun.faces.teach.lab import labs as catalogue
from minirun.faces.teach.levels import programs
from tutorials.publish.notebooks import lessons, source
from tutorials.publish.runner import blocks, matches
from tutorials.publish.source import keys, parts
from tutorials.publish.tab import disk, page, root, runs
from tutorials.publish.tab.machine import Machine

LIMIT = 7000
"""Seconds for a lesson, a level or a lab."""
_NOTES = "/root/lesson"  # of the disk: a sandbox of a check shows no /run
_SESSION = """
set -E -o pipefail
trap 'echo "$number: $BASH_COMMAND" >>"$notes/failed"' ERR
for number in $numbers; do
    { . "$notes/$number.sh"; } >"$notes/$number.out" 2>&1 </dev/null
done
"""


class Tried(NamedTuple):
    """What has been seen of a lesson, a level or a lab."""

    kind: str
    name: str
    seconds: float
    wrong: list[str]
    """What did not do as it should, each in a few lines; empty if it runs."""


def lesson(image: Path, name: str, *, fast: bool) -> Tried:
    """Type a lesson's blocks."""
    text = source(name, "en")
    every, left_out = blocks(text), runs.rows()["lessons"].get(name, {}).get("blocks", [])
    todo = {each: block for each, block in enumerate(every, 1) if each not in left_out}
    files = {f"{number}.sh": block.commands for number, block in todo.items()}
    numbers = " ".join(map(str, todo))
    words = f"env notes={_NOTES} numbers='{numbers}' HOME={_NOTES}/home LC_ALL=C.UTF-8 PAGER=cat"
    with Machine(image, compiled_once=fast) as machine:
        machine.put(_NOTES, {**files, "session": _SESSION, "home/.keep": ""})
        command = f"(cd /{root.HOME} && timeout {LIMIT} {words} bash {_NOTES}/session)"
        done = machine.shell(command, LIMIT + 100)
        found = machine.get(_NOTES)
    said = {number: found.get(f"{number}.out", "") for number in todo}
    failed = found.get("failed", "").splitlines()
    wrong = [line for line in failed if '. "$notes/' not in line]
    with_output = {number for number in todo for line in wrong if line.startswith(f"{number}: ")}
    wrong += [f"{number} prints\n{said[number]}" for number in sorted(with_output)]
    if done.status:
        wrong.append(f"the session has ended with {done.status}: {done.said}")
    for number, block in todo.items():
        if block.expected is not None and not matches(block.expected, said[number]):
            wrong.append(f"{number}, line {block.line}: {block.commands}prints\n{said[number]}")
    return Tried("lessons", name, done.seconds, [*wrong, *no_choices(text, said)])


def no_choices(text: str, said: dict[int, str]) -> Iterator[str]:
    """Yield what a look of a lesson has found that is no choice of its question."""
    number, choices = 0, list[str]()
    for kind, body in parts(text):
        if kind == "question":
            choices = keys(body)
        elif kind in ("shell", "answer"):
            number += 1
            output = said.get(number, "")
            last = output.rstrip("\n").rpartition("\n")[2].strip()
            if kind == "answer" and number in said and last not in choices:
                yield f"{body}finds {last!r}, which is none of {choices}; it prints\n{output}"


def level(machine: Machine, found: programs.Level) -> Tried:
    """Check a level's own program."""
    file = f"/{root.HOME}/tutorials/levels/{found.file}"
    done = machine.shell(f"minirun level check {found.number} {file}", LIMIT)
    holds = not done.status and f"Level {found.number} holds: " in done.said
    return Tried("levels", found.name, done.seconds, [] if holds else [done.said])


def lab(machine: Machine, found: catalogue.LabTexts) -> Tried:
    """Start a lab, which is broken as announced; mend it, check it, reset it."""
    name, wrong, took = found.name, list[str](), 0.0
    for words, sign in (
        (f"start {name} --predict {found.broken}", "Your prediction was right."),
        (f"solution {name} --apply", ""),
        (f"check {name}", "Solved.\n"),
        (f"reset {name}", name),
    ):
        done = machine.shell(f"minirun lab {words}", LIMIT)
        took += done.seconds
        if done.status or sign not in done.said:
            wrong.append(f"minirun lab {words}: status {done.status}\n{done.said}")
    return Tried("labs", name, took, wrong)


def tried(image: Path, words: set[str], *, fast: bool) -> Iterator[Tried]:
    """Yield each lesson, level and lab that is asked for."""
    for name in lessons():
        if {"lessons", name} & words:
            yield lesson(image, name, fast=fast)
    levels = [each for each in programs.levels() if not each.is_open]
    for each in (each for each in levels if {"levels", each.name} & words):
        with Machine(image, compiled_once=fast) as machine:
            yield level(machine, each)
    for one in (one for one in catalogue.labs() if {"labs", one.name} & words):
        with Machine(image, compiled_once=fast) as machine:
            yield lab(machine, one)


def main(arguments: list[str]) -> int:
    """Try them, and write what has been seen; 1 if runs.toml says otherwise of one."""
    fast = "--fast" in arguments
    words = {*arguments} - {"--fast"} or {*runs.KINDS}
    known = {*runs.KINDS, *lessons()}
    known |= {each.name for each in programs.levels()} | {each.name for each in catalogue.labs()}
    if unknown := sorted(words - known):
        sys.exit(f"{unknown[0]}: no lesson, level or lab; or one of: {', '.join(runs.KINDS)}")
    if not (page.folder() / "tab.json").exists():
        sys.exit(f"{page.folder()} is not here: make tab")
    surprises = 0
    with tempfile.TemporaryDirectory(prefix="minirun-tab.") as work:
        whole = Path(work) / "disk.img"
        (parts_of,) = page.folder().glob("disk-*")
        disk.join(parts_of, whole)
        for each in tried(whole, words, fast=fast):
            kind, name, seconds, wrong = each
            print(f"{kind} {name}: {seconds:.0f} s", *wrong, sep="\n  ", flush=True)
            surprises += runs.keep(kind, name, seconds, runs=not wrong, fast=fast)
    return int(surprises > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
