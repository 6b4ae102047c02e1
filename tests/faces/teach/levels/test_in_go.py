"""Level 9 in Go, and what can be wrong in it: the checks do not go by Python's ways.

level9.go was written from the lessons and the manual alone. `make mutants` compiles and tries it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from faces.teach.levels.checked import LEVELS, check, finding

SOURCE = Path(__file__).with_name("level9.go")
ROWS = tomllib.loads(Path(__file__).with_name("wrong_go.toml").read_text())["wrong"]


@pytest.fixture(autouse=True)
def asked_for() -> None:
    """Skip in a usual run: it would take minutes, and Go."""
    if os.environ.get("MUTANTS") != "all" or not shutil.which("go"):
        pytest.skip("it takes minutes, and Go: make mutants")


def build(folder: Path, text: str) -> str:
    """Compile a program; return its path."""
    (folder / "mine.go").write_text(text)
    env = os.environ | {"GOFLAGS": "-p=1"}
    words = ["go", "build", "-o", str(folder / "mine"), str(folder / "mine.go")]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(folder / "mine")


def test_it_holds(minirun: Program, tmp_path: Path) -> None:
    check(minirun, LEVELS[9], "--", build(tmp_path, SOURCE.read_text()), status=0)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["title"].replace(" ", "-"))
def test_a_wrong_one_gets_its_hint(minirun: Program, tmp_path: Path, row: dict[str, Any]) -> None:
    text = SOURCE.read_text()
    for old, new in row["edits"]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    done = check(minirun, LEVELS[9], "--", build(tmp_path, text), flags=("--first",))
    assert finding(done) == row["finding"], done.stdout
