"""Programs that the Makefile calls: each finds what it imports, with the path that it has there."""

import re
import subprocess
import sys

import pytest

from machines.bare import TOP

PROGRAMS = sorted({*re.findall(r"\$\(PYTHON\) (\S+\.py)", (TOP / "Makefile").read_text())})
IMPORT = """
import os, runpy, sys
program = sys.argv[1]
sys.path[0] = os.path.dirname(program)
runpy.run_path(program, run_name="imported")
"""


def test_there_are_some() -> None:
    assert len(PROGRAMS) > 10


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_imported_as_it_is_called(program: str) -> None:
    command = [sys.executable, "-c", IMPORT, program]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
