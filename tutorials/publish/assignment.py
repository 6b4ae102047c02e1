"""Writes the labs as an assignment for nbgrader, and lets nbgrader make the students' version.

    make assignment                   build/assignment/release/labs-en, …/labs-ko: for the students
    make assignment LESSONS="…"       the labs of these lessons

The folder is a course of nbgrader: source/ has the solutions. A solution is the lab's own
solution.sh; a test asks the kernel, through `minirun lab check`. Source: nbgrader's documentation,
"Creating and grading assignments" and "nbgrader metadata" (schema version 3).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.teach.lab import labs as catalogue
from minirun.teach.lab.folder import LabFolder
from minirun.teach.lab.labs import LabTexts
from tutorials.publish.notebooks import LANGUAGES, ROOT

with lazy:
    import nbformat

COURSE = ROOT / "build" / "assignment"
_HEAD = {
    "en": "As root, in `make lab`. The commands of `lab.mend` run in the lab's folder.",
    "ko": "`make lab`에서 root로 한다. `lab.mend`로 고친다. 명령은 실습의 폴더에서 실행된다.",
}


def main() -> int:
    """Write the course, in both languages; return nbgrader's exit status."""
    chosen = sys.argv[1:]
    for language in LANGUAGES:
        labs = [lab for lab in catalogue.labs(language) if not chosen or lab.lesson in chosen]
        write(COURSE, language, labs)
        release(COURSE, language)
    print(f"{COURSE}/release: for the students; {COURSE}/source: with the solutions")
    return 0


def write(course: Path, language: str, labs: list[LabTexts]) -> None:
    """Write the notebooks with their solutions: one for each lesson."""
    folder = course / "source" / f"labs-{language}"
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in dict.fromkeys(lab.lesson for lab in labs):
        mine = [lab for lab in labs if lab.lesson == lesson]
        nbformat.write(notebook(lesson, language, mine), folder / f"{lesson}.ipynb")


def release(course: Path, language: str) -> None:
    """Let nbgrader make the students' version. Raises CalledProcessError."""
    words = ["generate_assignment", f"labs-{language}", "--force"]
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
