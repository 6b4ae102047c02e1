"""The labs as nbgrader's assignment: the solved notebook passes, the students' does not."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from conftest import Program
from minirun.faces.teach.lab import labs as catalogue
from minirun.faces.teach.levels import programs
from notebooks import files
from tutorials.publish import assignment

pytestmark = pytest.mark.root  # nbgrader is one process for all tests, and in no cell

if find_spec("nbgrader") is None:  # to import it takes seconds, in each worker
    pytest.skip("nbgrader is not installed", allow_module_level=True)
LESSONS = ("03-overlayfs", "05-hooks")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released") / "course"
    labs = [lab for lab in catalogue.labs() if lab.lesson in LESSONS]
    assignment.write(folder, "en", labs)
    assignment.release(folder, "labs-en")
    assignment.write_levels(folder, "en", [programs.find("2")])
    assignment.release(folder, "ladder-en")
    return folder


@pytest.fixture
def course(released: Path, tmp_path: Path) -> Path:
    """The course's folders, for a test to change."""
    return shutil.copytree(released, tmp_path / "course")


VALIDATE = """
import json, os, sys
from nbgrader.validator import Validator
for line in sys.stdin:
    file, env = json.loads(line)
    os.chdir(os.path.dirname(file))
    os.environ.update(env)
    print("\\n" + json.dumps(Validator().validate(file).get("failed", [])))
    print("END", flush=True)
"""
FailedTests = Callable[[Path], list[str]]
"""Lets nbgrader play a notebook as a student would check it; gives the cells that fail."""


@pytest.fixture(scope="module")
def validator() -> "Iterator[subprocess.Popen[str]]":
    """nbgrader, in one process for all notebooks: its imports take longer than most of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", VALIDATE], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    yield process
    process.communicate()
    assert process.returncode == 0


@pytest.fixture
def failed_tests(validator: "subprocess.Popen[str]", minirun: Program) -> FailedTests:
    def failed(notebook: Path) -> list[str]:
        config = f"{notebook.parent}/.jupyter"
        own = {**minirun.environment(), "JUPYTER_CONFIG_DIR": config}
        assert validator.stdin and validator.stdout
        validator.stdin.write(f"{json.dumps([str(notebook), own])}\n")
        validator.stdin.flush()
        *_, found = iter(validator.stdout.readline, "END\n")
        return [cell["source"] for cell in json.loads(found)]

    return failed


@pytest.mark.parametrize("lesson", LESSONS)
def test_solved_passes_and_unsolved_fails(
    course: Path, minirun: Program, failed_tests: FailedTests, lesson: str
) -> None:
    solved = course / "source" / "labs-en" / f"{lesson}.ipynb"
    students = course / "release" / "labs-en" / f"{lesson}.ipynb"
    assert failed_tests(solved) == []
    failed = failed_tests(students)
    assert any("lab.is_mended()" in source for source in failed)
    assert not (minirun.root / ".labs").exists()


def test_a_level_written_passes_and_its_gaps_fail(course: Path, failed_tests: FailedTests) -> None:
    solved = course / "source" / "ladder-en" / "level-2.ipynb"
    students = course / "release" / "ladder-en" / "level-2.ipynb"
    assert failed_tests(solved) == []
    assert any("level.holds()" in source for source in failed_tests(students))
    text = students.read_text()
    assert text.count("YOUR CODE HERE") == len(programs.find("2").gaps)
    assert "linux.pivot_root(" in solved.read_text() and "linux.pivot_root(" not in text


LEVELS = [level for level in programs.levels("ko") if not level.is_open]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_every_level_has_its_cells(level: programs.Level) -> None:
    _, start, program, test = assignment.level_notebook(level, "ko").cells
    tags = [cell.metadata["nbgrader"] for cell in (start, program, test)]
    assert [(tag["solution"], tag["grade"], tag["locked"]) for tag in tags] == [
        (False, False, True), (True, False, False), (False, True, True),
    ]  # fmt: skip
    assert program.source.count("### BEGIN SOLUTION") == len(level.gaps)
    compile(program.source.partition("\n")[2], level.file, "exec")


APPLY = [
    'lab.mend("minirun lab solution {0} --apply")',
    'lab.mend("minirun lab solution {0} | sh")',
    'lab.mend(lab.solution())',
    'lab.mend("minirun lab reset {0}; minirun lab start {0}; minirun lab solution {0} --apply")',
]  # fmt: skip


@pytest.mark.parametrize("trick", APPLY)
def test_the_solution_is_out_of_reach(course: Path, failed_tests: FailedTests, trick: str) -> None:
    """What minirun shows to a learner who practises earns no point in an assignment."""
    students = course / "release" / "labs-en" / "03-overlayfs.ipynb"
    notebook = files.read(students)
    for cell in notebook.cells:
        if "YOUR CODE HERE" in cell.source:
            cell.source = trick.format(cell.id.removesuffix("-mend"))
    files.write(notebook, students)
    failed = failed_tests(students)
    assert any("lab.is_mended()" in source for source in failed)


def test_the_students_version_has_no_solution(course: Path) -> None:
    for file in (course / "release" / "labs-en").glob("*.ipynb"):
        text = file.read_text()
        assert "YOUR CODE HERE" in text and "SOLUTION" not in text
        assert "lab.mend(r" not in text


@pytest.mark.parametrize("lab", catalogue.labs("ko"), ids=lambda lab: lab.name)
def test_every_lab_has_its_cells(lab: catalogue.LabTexts) -> None:
    cells = assignment.notebook(lab.lesson, "ko", [lab]).cells
    tags = [cell.metadata["nbgrader"] for cell in cells if cell.cell_type == "code"]
    assert [tag["grade"] for tag in tags] == [False, False, False, True, False]
    assert [tag["solution"] for tag in tags] == [False, False, True, False, False]
    assert sum(tag.get("points", 0) for tag in tags) == 1
