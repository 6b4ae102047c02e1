"""Programs in other languages, and what can be wrong in them: no check goes by Python's ways.

Each was written from the lessons and the manual alone; a table beside it has what a learner of that
language gets wrong. C and shell are tried like wrong.toml: MUTANTS says which quarter of the rows.
Those in Go and Rust need their compilers: `make mutants` installs them, and tries all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import Program
from faces.teach.levels.checked import LEVELS, check, finding
from minirun.faces.teach.levels import programs
from required import installed

HERE = Path(__file__).parent
QUARTER = os.environ.get("MUTANTS", "1")


class Own(NamedTuple):
    """A program of a level in a language."""

    source: str
    level: int
    compiler: str
    """The program that builds it; "" for a script."""
    words: tuple[str, ...]
    """What it is called with: {binary} and {source} are paths."""
    is_installed: bool = True
    """Whether `make test` installs the compiler."""

    def build(self, folder: Path, text: str) -> str:
        """Build a program of this text; return its path."""
        source, binary = folder / self.source, folder / "mine"
        source.write_text(text)
        source.chmod(0o755)
        if not self.compiler:
            return str(source)
        words = [word.format(binary=binary, source=source) for word in self.words]
        env = os.environ | {"GOFLAGS": "-p=1"}
        done = subprocess.run([self.compiler, *words], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return str(binary)

    def needs(self) -> None:
        """Skip without the compiler, or if it would take minutes and was not asked for."""
        if not self.is_installed and (QUARTER != "all" or not shutil.which(self.compiler)):
            pytest.skip(f"it takes minutes, and {self.compiler}: make mutants")
        if self.is_installed and self.compiler:
            installed(self.compiler)


OWN = {
    "c": Own("level3.c", 3, "gcc", ("-Wall", "-pthread", "-o", "{binary}", "{source}")),
    "sh": Own("level3.sh", 3, "", ()),
    "rust": Own("level2.rs", 2, "rustc", ("-o", "{binary}", "{source}"), is_installed=False),
    "go": Own("level9.go", 9, "go", ("build", "-o", "{binary}", "{source}"), is_installed=False),
}
ROWS = [
    pytest.param(OWN[name], row, id=f"{name} {row['title']}".replace(" ", "-"))
    for name in OWN
    for row in tomllib.loads((HERE / f"wrong_{name}.toml").read_text())["wrong"]
]
CHOSEN = ROWS if QUARTER == "all" else ROWS[int(QUARTER) - 1 :: 4]


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_it_holds(minirun: Program, tmp_path: Path, own: Own) -> None:
    own.needs()
    program = own.build(tmp_path, (HERE / own.source).read_text())
    check(minirun, LEVELS[own.level], "--", program, status=0)


@pytest.mark.parametrize("flag", ["SECOND_THREAD", "DETACHED"])
def test_other_ways_in_c(minirun: Program, tmp_path: Path, flag: str) -> None:
    """Another thread than the first one clones: the first has no child. The calls of Linux 5.2."""
    OWN["c"].needs()
    text = f"#define {flag}\n" + (HERE / "level3.c").read_text()
    check(minirun, LEVELS[3], "--", OWN["c"].build(tmp_path, text), status=0)


@pytest.mark.parametrize(("own", "row"), CHOSEN)
def test_a_wrong_one_gets_its_hint(
    minirun: Program, tmp_path: Path, own: Own, row: dict[str, Any]
) -> None:
    own.needs()
    text = (HERE / own.source).read_text()
    for old, new in row["edits"]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    done = check(minirun, LEVELS[own.level], "--", own.build(tmp_path, text), flags=("--first",))
    assert finding(done) == row["finding"], done.stdout


def test_each_row_can_be_found() -> None:
    assert {row.values[1]["finding"] for row in ROWS} <= {*programs.findings()}
