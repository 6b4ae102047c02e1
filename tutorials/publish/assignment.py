"""Writes labs and ladder as assignments for nbgrader, which makes the students' version of them.

    make assignment                   build/assignment/release/labs-en, ladder-en; labs-ko, …
    make assignment LESSONS="…"       the labs and levels of these lessons

The folder is a course of nbgrader: source/ has the solutions. A lab's is its own solution.sh, a
level's is its program; a test asks the kernel, through `minirun lab check` and `level check`.
Source: nbgrader's documentation, "Creating and grading assignments" and "nbgrader metadata" (schema
version 3).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.faces.teach.lab import labs as catalogue
from minirun.faces.teach.lab.folder import LabFolder
from minirun.faces.teach.lab.labs import LabTexts
from minirun.faces.teach.levels import programs
from minirun.faces.teach.levels.programs import Level
from tutorials.publish.notebooks import LANGUAGES, ROOT, chosen

with lazy:
    import nbformat

COURSE = ROOT / "build" / "assignment"
_HEAD = {
    "en": "As root, in `make lab`. The commands of `lab.mend` run in the lab's folder.",
    "ko": "`make lab`에서 root로 한다. `lab.mend`로 고친다. 명령은 실습의 폴더에서 실행된다.",
}
_LEVEL_HEAD = {
    "en": "As root, in `make lab`. Write what is missing in the program below, and run its cell, "
          "which writes it beside this notebook. The next cell tries it, and asks the kernel.",
    "ko": "`make lab`에서 root로 한다. 아래 프로그램의 빈 곳을 쓰고 그 셀을 실행하면 이 노트북 "
          "옆에 파일이 쓰인다. 그다음 셀이 프로그램을 시험하고 커널에 묻는다.",
}  # fmt: skip


def main() -> int:
    """Write the course, in both languages; return nbgrader's exit status."""
    names = chosen(sys.argv[1:])
    for language in LANGUAGES:
        labs = [lab for lab in catalogue.labs(language) if lab.lesson in names]
        numbers = {name.split("-")[1] for name in names if name.startswith("level-")}
        levels = [level for level in programs.levels(language) if str(level.number) in numbers]
        write(COURSE, language, labs)
        write_levels(COURSE, language, levels)
        for assignment in (["labs"] if labs else []) + (["ladder"] if levels else []):
            release(COURSE, f"{assignment}-{language}")
    print(f"{COURSE}/release: for the students; {COURSE}/source: with the solutions")
    return 0


def write(course: Path, language: str, labs: list[LabTexts]) -> None:
    """Write the notebooks with their solutions: one for each lesson."""
    folder = course / "source" / f"labs-{language}"
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in dict.fromkeys(lab.lesson for lab in labs):
        mine = [lab for lab in labs if lab.lesson == lesson]
        nbformat.write(notebook(lesson, language, mine), folder / f"{lesson}.ipynb")


def write_levels(course: Path, language: str, levels: list[Level]) -> None:
    """Write the notebooks of the ladder with their solutions: one for each level."""
    folder = course / "source" / f"ladder-{language}"
    for level in levels:
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(level_notebook(level, language), folder / f"level-{level.number}.ipynb")


def release(course: Path, assignment: str) -> None:
    """Let nbgrader make the students' version. Raises CalledProcessError."""
    words = ["generate_assignment", assignment, "--force"]
    own = [f"--CourseDirectory.root={course}"]
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # it calls alembic
    env = os.environ | {"JUPYTER_CONFIG_DIR": str(course / ".jupyter"), "PATH": path}
    program = [sys.executable, "-m", "nbgrader", *words, *own]
    subprocess.run(program, cwd=course, env=env, check=True, capture_output=True)


def notebook(lesson: str, language: str, labs: list[LabTexts]) -> Any:
    """Return a lesson's labs as a notebook with nbgrader's tags."""
    cells = [
        nbformat.v4.new_markdown_cell(f"# {lesson}\n\n{_HEAD[language]}"),
        _tagged("import minirun", f"{lesson}-import", locked=True),
    ]
    for lab in labs:
        cells += _cells(lab, language)
    return _notebook(cells)


def level_notebook(level: Level, language: str) -> Any:
    """Return a level as a notebook with nbgrader's tags."""
    name = f"level-{level.number}"
    task = f'minirun.level({level.number}, "{language}", folder=".")'
    program = programs.marked(level, "### BEGIN SOLUTION", "### END SOLUTION").strip()
    title = f"# {level.number} · {level.title}\n\n{level.idea}\n\n{_LEVEL_HEAD[language]}"
    return _notebook([
        nbformat.v4.new_markdown_cell(title),
        _tagged(f"import minirun\n\nlevel = {task}\nlevel", f"{name}-start", locked=True),
        _tagged(f"%%writefile {level.file}\n{program}", f"{name}-program", solution=True),
        _tagged("assert level.holds(), level.check()", f"{name}-test", locked=True, points=1),
    ])  # fmt: skip


def _notebook(cells: list[Any]) -> Any:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _cells(lab: LabTexts, language: str) -> list[Any]:
    """Return what is said, the start, the place for the solution, its test, and the end."""
    name = lab.name
    mended = LabFolder(name, Settings()).solution().read_text()
    solution = f'### BEGIN SOLUTION\nlab.mend(r"""\n{mended}""")\n### END SOLUTION'
    start = f'lab = minirun.lab("{name}", "{language}", graded=True)\nprint(lab.start())'
    return [
        nbformat.v4.new_markdown_cell(f"## {lab.number} · {lab.title}\n\n{lab.says}"),
        _tagged(start, f"{name}-start", locked=True),
        _tagged(solution, f"{name}-mend", solution=True),
        _tagged("assert lab.is_mended(), lab.hint()", f"{name}-test", locked=True, points=1),
        _tagged("print(lab.reset())", f"{name}-reset", locked=True),
    ]


def _tagged(
    source: str, name: str, *, locked: bool = False, solution: bool = False, points: int = 0
) -> Any:
    """Return a code cell with nbgrader's tags: a test if it has points."""
    cell = nbformat.v4.new_code_cell(source)
    cell["id"] = name
    cell["metadata"]["nbgrader"] = {
        "schema_version": 3, "grade_id": name, "cell_type": "code", "task": False,
        "grade": points > 0, "solution": solution, "locked": locked,
    } | ({"points": points} if points else {})  # fmt: skip
    return cell


if __name__ == "__main__":
    sys.exit(main())
