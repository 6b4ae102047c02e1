"""The ladder's programs, and the skeletons that learners begin with.

A skeleton is a level's program in which the bodies of its new functions are left out: in place of
each stands a sentence of what must hold, from levels.toml, and an error that says so when it is
called. The rest is the level as it is, so that the learner writes the one new idea.

A learner's own program, in any of LANGUAGES, goes on from level to level by :func:`grown`.
"""

from __future__ import annotations

import ast
import errno
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from minirun.core.errors import MinirunError, UsageError
from minirun.faces.knowledge.texts import ENGLISH, table


class Language(NamedTuple):
    """What is written into a program of a language."""

    comment: str
    """How a line of a comment begins."""
    defines: str
    """A regular expression of the line that begins the function {name}."""
    stub: str
    """The function {name}, which ends the program with {text}."""
    reserved: str = ""
    """The name of a gap that means something else there: it is run_NAME."""


LANGUAGES = {
    ".py": Language("#", r"\s*def {name}\b",
                    'def {name}(*args):\n    raise NotImplementedError("{text}")\n'),
    ".go": Language("//", r"func (\([^)]*\) *)?{name}\b",
                    'func {name}() {{\n\tpanic("{text}")\n}}\n', "init"),
    ".c": Language("//", r"[a-z][\w *]*\b{name}\([^;]*$",
                   'void {name}(void)\n{{\n    fprintf(stderr, "{text}\\n");\n    exit(1);\n}}\n'),
    ".rs": Language("//", r"\s*(pub )?fn {name}\b", 'fn {name}() {{\n    panic!("{text}");\n}}\n'),
    ".sh": Language("#", r"(function )?{name} *\(\)",
                    '{name}() {{\n    echo "{text}" >&2\n    exit 1\n}}\n'),
}  # fmt: skip
"""How a file's name ends → its language."""
STARTERS = {"c": "starter.c", "go": "starter.go"}
"""Language → a beginning in it, beside the programs."""
LIBRARY = "linux.py"
"""The file beside the programs that has the system calls."""
_IN_THE_CLONE = Path(__file__).resolve().parents[4] / "tutorials/levels"
_INSTALLED = Path(sys.prefix) / "share/minirun/levels"
NOT_WRITTEN = "is not written yet"
"""What a gap's error ends with."""
_WIDTH = 96
GENERAL = {"command-not-run", "create", "start", "delete", "error-not-one-line"}
"""Findings that say no more than that something failed."""


@dataclass(frozen=True)
class Level:
    """One level of the ladder, in one language."""

    number: int
    name: str
    """The name of its program: 03_handshake."""
    title: str
    idea: str
    """What is new, in a sentence or two."""
    gaps: dict[str, str]
    """Function, or Class.function → what must hold once it is written."""

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}.py"

    @property
    def path(self) -> Path:
        """Where the whole program is, or would be if the level is open."""
        return folder() / self.file

    @property
    def is_open(self) -> bool:
        """Whether no program of it is published: its check alone says what is right."""
        return not self.path.exists()

    @property
    def text(self) -> str:
        """Return the whole program. Raises UsageError if none is published."""
        if self.is_open:
            say = f"minirun level check {self.number} says whether yours holds"
            raise UsageError(f"level {self.number} is open: it has no published solution", say, 1)
        return self.path.read_text()


@dataclass(frozen=True)
class LevelFinding:
    """What a check can find, in words."""

    seen: str
    hint: str


def folder() -> Path:
    """Return the directory of the programs: the clone's, or what was installed of it.

    Raises MinirunError if there is none.
    """
    for path in (_IN_THE_CLONE, _INSTALLED):
        if (path / LIBRARY).exists():
            return path
    raise MinirunError(
        f"the ladder's programs are not in {_INSTALLED}", "pip install minirun again"
    )


def levels(language: str = ENGLISH) -> list[Level]:
    """Return all levels, in order."""
    rows: dict[str, dict[str, Any]] = table("levels", language)["level"]
    return [
        Level(number, name, row["title"], row["idea"], dict(row["gaps"]))
        for number, (name, row) in enumerate(rows.items())
    ]


def find(text: str, language: str = ENGLISH) -> Level:
    """Return the level of this number or name. Raises UsageError."""
    every = levels(language)
    for level in every:
        if text in (str(level.number), f"{level.number:02}", level.name, level.file):
            return level
    raise UsageError(f"there is no level {text!r}", f"0 to {len(every) - 1}", status=1)


def words(language: str = ENGLISH) -> dict[str, str]:
    """Return the words around the levels."""
    found: dict[str, str] = table("levels", language)["words"]
    return found


def promises(language: str = ENGLISH) -> dict[str, str]:
    """Return the promises in words: the name of a check → what holds if it succeeds."""
    found: dict[str, str] = table("levels", language)["promise"]
    return found


def attacks(language: str = ENGLISH) -> dict[str, str]:
    """Return the attacks in words: its name → what gets out of the container."""
    found: dict[str, str] = table("levels", language)["attack"]
    return found


def findings(language: str = ENGLISH) -> dict[str, LevelFinding]:
    """Return what the checks can find: key → its texts, with {detail} in some."""
    rows: dict[str, list[str]] = table("levels", language)["finding"]
    return {key: LevelFinding(*row) for key, row in rows.items()}


def hint(key: str, detail: str, language: str = ENGLISH) -> str:
    """Return the hint for a finding: that for an error of a call which `detail` has, or its own.

    `detail` is of any language's program: the error stands there by its name or in words, such as
    "EBUSY", "Device or resource busy", "device or resource busy". A row without a call is only for
    findings that say no more than that something failed.
    """
    rows: dict[str, str] = table("levels", language)["error"]
    for name, text in rows.items():
        *call, number = name.split()
        words = f"{number}|{re.escape(os.strerror(getattr(errno, number)))}"
        if re.search(words, detail, re.IGNORECASE) and (
            re.search(rf"\b{call[0]}", detail, re.IGNORECASE) if call else key in GENERAL
        ):
            return text
    return findings(language)[key].hint.format(detail=detail)


def start(level: Level, directory: Path) -> Path:
    """Write a level's skeleton into a directory, with the library beside it; return its path.

    That of an open level is the program of the level below, with what is to hold. Raises
    FileExistsError if there is such a file, MinirunError, OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / LIBRARY).exists():
        shutil.copyfile(folder() / LIBRARY, directory / LIBRARY)
    if level.is_open:
        return begin(level, directory, find(str(level.number - 1)).path)
    text = skeleton(level)
    with open(directory / level.file, "x") as file:
        file.write(text)
    return directory / level.file


def begin(level: Level, directory: Path, source: Path) -> Path:
    """Write what a learner's own program is to become on this level, and return its path.

    `source` is the program of the level below, or a starter. Raises UsageError if it is no file, or
    its language is none of LANGUAGES; FileExistsError, OSError.
    """
    if not source.is_file():
        raise UsageError(f"{source}: no such file", "your program of the level below", 1)
    if source.suffix not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise UsageError(f"{source}: what language is this?", f"a name that ends in {known}", 1)
    try:
        text = grown(level, source.read_text(), LANGUAGES[source.suffix])
    except UnicodeDecodeError:
        raise UsageError(f"{source}: not a text file", "the program's source", 1) from None
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{level.name}{source.suffix}"
    with open(path, "x") as file:
        file.write(text)
    shutil.copymode(source, path)
    return path


def grown(level: Level, text: str, language: Language) -> str:
    """Return a program with each sentence of what is to hold on a level.

    A sentence stands before the function of that name, in any spelling (run_hooks, runHooks,
    RunHooks); where there is none, one that is to be written is added.
    """
    added: list[str] = []
    for gap, sentence in level.gaps.items():
        own = gap.rpartition(".")[2]
        words = ["run", own] if own == language.reserved else own.split("_")
        camel = words[0] + "".join(map(str.capitalize, words[1:]))
        spellings = "_".join(words), camel, camel[0].upper() + camel[1:]
        defines = language.defines.format(name=f"(?:{'|'.join(spellings)})")
        lines = textwrap.wrap(f"Level {level.number}: {sentence}", _WIDTH - 4)
        note = "".join(f"{language.comment} {line}\n" for line in lines)
        if found := re.search(rf"(?m)^{defines}", text):
            text = text[: found.start()] + note + text[found.start() :]
            continue
        name = camel if language is LANGUAGES[".go"] else "_".join(words)
        error = f"level {level.number}: {name} {NOT_WRITTEN}"
        added.append(f"\n{note}{language.stub.format(name=name, text=error)}")
    if added and (last := re.search(r"(?m)^\n*if __name__ ==", text)):  # below it is too late
        before, after = text[: last.start()], text[last.start() :].lstrip("\n")
        return "\n".join((before, *added)) + f"\n\n{after}"
    return text + "".join(added)


def skeleton(level: Level) -> str:
    """Return the program of a level with its gaps. Raises MinirunError if a gap is not in it."""
    return _with_gaps(level, lambda gap, _: [gap.error(level.number)])


def marked(level: Level, before: str, after: str) -> str:
    """Return the whole program, with a line before and after what is left out in the skeleton.

    Raises MinirunError if a gap is not in it.
    """
    return _with_gaps(level, lambda gap, body: [gap.pad + before, *body, gap.pad + after])


class _Gap(NamedTuple):
    """A function that the learner writes."""

    name: str
    pad: str
    """The blanks before its statements."""

    def error(self, number: int) -> str:
        """Return the statement that says that it is not written."""
        text = f"level {number}: {self.name} {NOT_WRITTEN}"
        return f'{self.pad}raise NotImplementedError("{text}")'


def _with_gaps(level: Level, written: Callable[[_Gap, list[str]], list[str]]) -> str:
    """Return the program, with what `written` makes of the lines of each gap below its sentence."""
    text = level.text
    lines = text.splitlines()
    functions = dict(_functions(ast.parse(text)))
    if missing := level.gaps.keys() - functions.keys():
        raise MinirunError(f"{level.file} has no function {sorted(missing)[0]}")
    for name, sentence in sorted(level.gaps.items(), key=lambda gap: -functions[gap[0]].lineno):
        body = functions[name].body
        first = body[1] if ast.get_docstring(functions[name]) is not None else body[0]
        start, end = _start(first, lines) - 1, body[-1].end_lineno
        gap = _Gap(name, " " * first.col_offset)
        wrapped = textwrap.wrap(sentence, _WIDTH - first.col_offset - 2)
        said = [f"{gap.pad}# {line}" for line in wrapped]
        lines[start:end] = [*said, *written(gap, lines[start:end])]
    return "\n".join(lines) + "\n"


def _functions(tree: ast.Module) -> list[tuple[str, ast.FunctionDef]]:
    """Return (name, function) of all functions and methods, these as Class.function."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found.append((node.name, node))
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found += [(f"{node.name}.{each.name}", each) for each in methods]
    return found


def _start(statement: ast.stmt, lines: list[str]) -> int:
    """Return the line that a statement begins at, with the comments and blank lines before it."""
    line = statement.lineno
    while re.match(r"\s*(#|$)", lines[line - 2]):
        line -= 1
    return line
