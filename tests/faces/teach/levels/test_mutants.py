"""Wrong programs: each check of the ladder finds what was left out, on its level and above.

wrong.toml has what people get wrong in a level's program. The levels above are made of the same
lines, so each row is tried twice: on its own level, and on the highest one that has its lines.
A finding that says no more than that something failed has the hint for the call's error: `hint`,
one of several if the program races.
MUTANTS says which quarter of them is tried, 1 to 4, or all: `make mutants`.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from faces.teach.levels.checked import (
    LEVELS,
    PUBLISHED,
    beside_the_library,
    check,
    finding,
    text_of,
)
from minirun.faces.knowledge.texts import ENGLISH, table
from minirun.faces.teach.levels import programs
from minirun.faces.teach.levels.programs import Level

ROWS = tomllib.loads(Path(__file__).with_name("wrong.toml").read_text())
RIGHT = tomllib.loads(Path(__file__).with_name("right.toml").read_text())
QUARTER = os.environ.get("MUTANTS", "1")
TEXTS = {level.number: text_of(level) for level in LEVELS}


def levels_of(name: str, row: dict[str, Any]) -> list[Level]:
    """The levels whose program has the lines that a row changes, from its own on.

    An open level is only for rows of its own.
    """
    own = programs.find(name)
    levels = [own] if own.is_open else PUBLISHED[own.number : row.get("until", 99) + 1]
    return [
        level for level in levels
        if all(TEXTS[level.number].count(old) == 1 for old, _ in row["edits"])
    ]  # fmt: skip


MUTANTS = [
    pytest.param(LEVELS[number], row, id=f"{number} {row['title']}".replace(" ", "-"))
    for name, rows in ROWS.items() for row in rows
    for number in sorted({levels_of(name, row)[at].number for at in (0, -1)})
]  # fmt: skip
CHOSEN = MUTANTS if QUARTER == "all" else MUTANTS[int(QUARTER) - 1 :: 4]


@pytest.mark.parametrize(("level", "row"), CHOSEN)
def test_a_wrong_program_gets_its_hint(
    minirun: Program, level: Level, row: dict[str, Any], tmp_path: Path
) -> None:
    program = beside_the_library(tmp_path, level, changed(level, row))
    done = check(minirun, level, program, flags=("--first",))
    is_own = row in ROWS.get(level.name, [])
    wanted = finding(done)  # a program that races may show its own fault above, too
    assert wanted == row["finding"] or (not is_own and wanted == row.get("above")), done.stdout
    hints = [programs.findings()[wanted].hint]
    if wanted in programs.GENERAL and "hint" in row:
        names = [row["hint"]] if isinstance(row["hint"], str) else row["hint"]
        hints = [table("levels", ENGLISH)["error"][name] for name in names]
    shown = " ".join(done.stdout.partition("Hint:")[2].split())
    assert shown.startswith(tuple(hint.partition("{")[0] for hint in hints)), shown


@pytest.mark.parametrize(
    ("name", "row"), [(name, row) for name, rows in RIGHT.items() for row in rows],
    ids=lambda each: each if isinstance(each, str) else each["title"].replace(" ", "-"),
)  # fmt: skip
def test_a_right_program_is_not_refused(
    minirun: Program, name: str, row: dict[str, Any], tmp_path: Path
) -> None:
    """Nor is it with a script before it, which waits for it."""
    level = programs.find(name)
    program = beside_the_library(tmp_path, level, changed(level, row))
    script = tmp_path / "script"
    script.write_text(f'#!/bin/sh\n"{sys.executable}" "{program}" "$@"\nexit $?\n')
    script.chmod(0o755)
    check(minirun, level, "--", str(script), status=0)


def changed(level: Level, row: dict[str, Any]) -> str:
    """A level's program with the texts of a row replaced."""
    text = TEXTS[level.number]
    for old, new in row["edits"]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_each_row_belongs_to_its_level() -> None:
    for name, rows in ROWS.items():
        for row in rows:
            assert levels_of(name, row)[0].name == name, row["title"]
            assert row["finding"] in programs.findings()


def test_each_level_has_five_wrong_programs() -> None:
    assert all(len(ROWS[level.name]) >= 5 for level in LEVELS)
    assert len(MUTANTS) >= 250
