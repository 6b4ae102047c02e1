"""Writes the notebooks of the lessons, and what they ship, from tutorials/NN-topic.LANGUAGE.md and
tutorials/level-N-topic.LANGUAGE.md: the course, and the ladder.

make notebooks      runs every block of every lesson (as root), and writes
notebooks/LANGUAGE/NN-topic.ipynb           the cells, without outputs
minirun/faces/recordings/lessons/NN-topic.json    questions, reasons, and what the blocks printed
"""

import json
import os
import platform
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from minirun.core.lazy import lazy
from minirun.faces.api import level_task
from minirun.faces.teach.levels import programs
from tutorials.publish.runner import Block, run
from tutorials.publish.source import Part, asked, parts
from tutorials.publish.surroundings import plain_surroundings, refuse_private

with lazy:
    import nbformat

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "tutorials"
SHIPPED = ROOT / "minirun" / "faces" / "recordings" / "lessons"
LANGUAGES = ("en", "ko")
BEFORE = ("## Before you begin", "## 시작하기 전에")
_NAME = r"(?:\d\d|level-\d)-[\w-]+"
_READ = {
    "en": "To read only: this lesson with all that its commands print is [{path}](../{path}).",
    "ko": "읽기만 하려면: 명령이 출력하는 것까지 모두 든 같은 수업이 [{path}](../{path})에 있다.",
}
"""The first line of a notebook, which has no outputs: for its page on GitHub and the like."""
_OPENING = 'import minirun\n\nlesson = minirun.lesson("{name}", "{language}")\nlesson'


def lessons() -> list[str]:
    """Return the names of all lessons, in their order."""
    return sorted(path.name.removesuffix(".en.md") for path in TUTORIALS.glob("*-*.en.md"))


def chosen(words: list[str]) -> list[str]:
    """Return the lessons of these names, or all. Raises SystemExit for a name of no lesson."""
    if unknown := sorted({*words} - {*lessons()}):
        sys.exit(f"no such lesson: {' '.join(unknown)} (there are {', '.join(lessons())})")
    return words or lessons()


def source(name: str, language: str) -> str:
    """Return a lesson's Markdown."""
    return (TUTORIALS / f"{name}.{language}.md").read_text(encoding="utf-8")


# --- the notebook ---------------------------------------------------------------------------------


def notebook(name: str, language: str) -> Any:
    """Return a lesson's notebook."""
    cells = [
        nbformat.v4.new_markdown_cell(_linked(body))
        if kind == "text"
        else nbformat.v4.new_code_cell(body)
        for kind, body in _cells(name, language)
    ]
    for number, cell in enumerate(cells):
        cell["id"] = f"{name}-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}}
    )


def _cells(name: str, language: str) -> list[Part]:
    opening, rest = _around_before(source(name, language))
    title, _, intro = opening.partition("\n\n")
    _, _, intro = intro.partition("\n\n")  # the line of links
    cells = [
        Part("text", f"{_read(name, language)}\n\n{title}\n\n{intro}\n\n{_how(language)}"),
        Part("cell", _OPENING.format(name=name, language=language)),
    ]
    number = 0
    for kind, body in parts(rest):
        if kind == "question":
            number += 1
            cells.append(Part("cell", f"lesson.question({number})"))
        elif kind in ("shell", "answer"):
            magic = "%%shell" if kind == "shell" else f"%%answer {number}"
            cells.append(Part("cell", f"{magic}\n{body.strip()}"))
        elif kind == "skeleton":
            cells += _exercise(int(body), language)
        elif kind in ("text", "cell"):
            cells.append(Part(kind, body))
    return cells


def _exercise(number: int, language: str) -> list[Part]:
    """Return two cells: what is to be written, and the skeleton, which the learner edits."""
    level = programs.find(str(number), language)
    skeleton = programs.skeleton(level).strip()
    written = f"%%writefile {level_task.HOME}/{level.file}\n{skeleton}"
    return [Part("cell", f"lesson.level({number})"), Part("cell", written)]


def _read(name: str, language: str) -> str:
    """Return the line that leads to the same lesson with its outputs."""
    return _READ[language].format(path=f"tutorials/{name}.{language}.md")


def _how(language: str) -> str:
    """Return how a page is used: opening.LANGUAGE.md."""
    return Path(__file__).with_name(f"opening.{language}.md").read_text(encoding="utf-8").strip()


def _around_before(markdown: str) -> tuple[str, str]:
    """Return what stands before and after the section "Before you begin"."""
    for heading in BEFORE:
        before, found, after = markdown.partition(f"\n{heading}\n")
        if found:
            return before, after[after.index("\n## ") + 1 :]
    raise ValueError("no section " + " or ".join(BEFORE))


def _linked(text: str) -> str:
    """Return a text whose links hold from notebooks/LANGUAGE/."""
    text = re.sub(rf"\]\(({_NAME})\.(?:en|ko)\.md", r"](\1.ipynb", text)
    return re.sub(
        rf"\]\((?!https?:|#|{_NAME}\.ipynb)(?P<path>[^)]+)\)",
        lambda found: f"]({os.path.relpath(TUTORIALS / found['path'], ROOT / 'notebooks' / 'en')})",
        text,
    )


# --- what it ships --------------------------------------------------------------------------------


def shipped(name: str) -> dict[str, Any]:
    """Return the questions, and the blocks with what they print: runs them, as root."""
    everything = [part for part in parts(source(name, "en")) if part.kind in ("shell", "answer")]
    todo = [Block(number, part.body, None) for number, part in enumerate(everything)]
    with tempfile.TemporaryDirectory() as notes, tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o711)  # the root of a user namespace has to come to its container
        own = {"MINIRUN_ROOT": state, "HOME": notes, "LC_ALL": "C.UTF-8", "PAGER": "cat"}
        said = run(todo, Path(notes), ROOT, os.environ | own)
    return {"system": system(), "blocks": recorded(name, said[1:]), "questions": questions(name)}


def recorded(name: str, said: list[str]) -> list[dict[str, Any]]:
    """Return the blocks behind "Before you begin", each with what it has printed."""
    found: list[dict[str, Any]] = []
    number = 0
    for kind, body in parts(source(name, "en")):
        number += kind == "question"
        if kind in ("shell", "answer"):
            found.append({"commands": body} | ({"answers": number} if kind == "answer" else {}))
    return [block | {"said": text} for block, text in zip(found[1:], said, strict=True)]


def questions(name: str) -> list[dict[str, Any]]:
    """Return the questions of a lesson, in both languages."""
    each = [_questions(source(name, language)) for language in LANGUAGES]
    return [dict(zip(LANGUAGES, question, strict=True)) for question in zip(*each, strict=True)]


def _questions(markdown: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for kind, body in parts(markdown):
        if kind == "question":
            found.append(dict(zip(("question", "choices"), asked(body), strict=True)) | {"why": ""})
        elif kind == "reason":
            found[-1]["why"] = " ".join(body.split())
    return found


def system() -> str:
    """Return where this runs: "Debian GNU/Linux 12 (bookworm), Linux 6.1.0"."""
    kernel = platform.release().partition("-")[0]
    return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {kernel}"


def write(name: str) -> None:
    """Run the blocks of a lesson, and write its files."""
    new = shipped(name)
    text = json.dumps(new, ensure_ascii=False, indent=1) + "\n"
    refuse_private(name, "".join(block["said"] for block in new["blocks"]))
    (SHIPPED / f"{name}.json").write_text(text, encoding="utf-8")
    for language in LANGUAGES:
        file = ROOT / "notebooks" / language / f"{name}.ipynb"
        file.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook(name, language), file)
    print(f"{name}: {len(new['blocks'])} blocks, {len(new['questions'])} questions")


if __name__ == "__main__":
    if os.geteuid():
        sys.exit("notebooks: the lessons run real containers (run as root)")
    plain_surroundings()
    os.environ["PATH"] = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    for each in chosen(sys.argv[1:]):
        write(each)
