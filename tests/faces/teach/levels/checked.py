"""Call `minirun level check`, and read what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from conftest import Program
from faces.teach.levels import level10
from minirun.faces.teach.levels import programs
from minirun.faces.teach.levels.programs import Level
from required import installed

LEVELS = programs.levels()
PUBLISHED = [level for level in LEVELS if not level.is_open]
NEEDS = {8: ["nft", "ip"]}
"""Programs that a level calls besides."""


def check(
    minirun: Program, level: Level, *command: str, status: int = 1, flags: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """`level check`, which asks in English; its exit status is the expected one."""
    for name in NEEDS.get(level.number, []):
        installed(name)
    words = ("level", "check", *flags, str(level.number), *command)
    done = minirun("--lang", "en", *words, timeout=1000)  # a test has less, by pytest's own limit
    assert done.returncode == status, done.stdout + done.stderr
    return done


def finding(done: subprocess.CompletedProcess[str]) -> str:
    found = re.search(r"^Not yet \((.*)\)\. \d+ of \d+ checks hold", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return found[1]


def text_of(level: Level) -> str:
    """A level's whole program; what no learner sees of an open one is in level10.py."""
    return level10.text() if level.is_open else level.text


def beside_the_library(folder: Path, level: Level, text: str) -> str:
    """Write a program of a level, with linux.py beside it."""
    shutil.copy(programs.folder() / programs.LIBRARY, folder)
    (folder / level.file).write_text(text)
    return str(folder / level.file)
