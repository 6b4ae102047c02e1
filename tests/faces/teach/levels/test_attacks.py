"""`level attack`: what gets out of a container of each level, and what its program holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import Program
from faces.teach.levels.checked import LEVELS, NEEDS, PUBLISHED, beside_the_library
from minirun.faces.teach.levels import attacks, programs
from minirun.faces.teach.levels.programs import Level
from required import installed


def attack(minirun: Program, level: Level, program: str) -> tuple[int, list[str], str]:
    """The exit status, the names of the attacks that got out, and all that was said."""
    for name in NEEDS.get(level.number, []):
        installed(name)
    done = minirun("--lang", "en", "level", "attack", str(level.number), program, timeout=280)
    names = {said: name for name, said in programs.attacks().items()}
    marks = re.findall(r"^([✓✗]) \d  (.*)$", done.stdout, re.MULTILINE)
    assert [names[said] for _, said in marks] == [
        each.check.__name__ for each in attacks.attacks(level.number)
    ], done.stdout + done.stderr
    return done.returncode, [names[said] for mark, said in marks if mark == "✗"], done.stdout


@pytest.mark.parametrize("level", PUBLISHED, ids=lambda level: str(level.number))
def test_each_is_held_from_its_level_on_and_not_before(minirun: Program, level: Level) -> None:
    status, out, said = attack(minirun, level, str(level.path))
    expected = [each for each in attacks.attacks(level.number) if level.number < each.since]
    assert out == [each.check.__name__ for each in expected], said
    assert status == 0 and said.count("It gets out") == len(out)


HOLES = [
    (1, " linux.CLONE_NEWUTS |", "", "rename"),
    (7, 'linux.syscall("close_range", 3, 0xFFFFFFFF, 4)', "pass", "follow"),
]


@pytest.mark.parametrize(("number", "old", "new", "name"), HOLES, ids=[row[3] for row in HOLES])
def test_a_program_that_lets_one_out(
    minirun: Program, tmp_path: Path, number: int, old: str, new: str, name: str
) -> None:
    level = LEVELS[number]
    text = level.path.read_text()
    assert text.count(old) == 1
    program = beside_the_library(tmp_path, level, text.replace(old, new))
    status, out, said = attack(minirun, level, program)
    assert status == 1 and name in out and f"A program of level {number} holds it." in said


def test_a_program_that_does_not_run(minirun: Program, tmp_path: Path) -> None:
    """What the check says of it is said."""
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    done = minirun("--lang", "en", "level", "attack", "2", str(program))
    assert done.returncode == 1 and "command-not-run" in done.stdout, done.stdout
