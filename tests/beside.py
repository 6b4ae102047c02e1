"""minirun beside docker: both are asked the same, and docker's answers are kept: data/docker.txt.

A test asks by a function that takes a side and words, and returns what JSON can hold. docker's
answer is found by the words and by the check sum of what the function is. So minirun alone runs in
a test run. docker runs with --peers, and to explain a difference.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engines.clients.engine import IMAGE, Docker, program
from program import Program

KEPT = Path(__file__).with_name("data") / "docker.txt"
HEAD = "# What docker {version} answers; `make engines` writes it anew.\n"
ANEW = "is not kept: add --peers=keep to the command line of pytest, once"


class Side(NamedTuple):
    """One of the two: how it is called, and its image of busybox."""

    call: Callable[..., subprocess.CompletedProcess[str]]
    image: str


Ask = Callable[..., object]
Question = tuple[str, str, str]
"""A function, its check sum, and the words, as on a command line."""


class Beside:
    """minirun and docker, each as `prepare` leaves it; docker is started at its first question."""

    def __init__(self, minirun: Program, how: str, prepare: Callable[[Side], None] | None) -> None:
        self.minirun = minirun
        self.how = how
        self.asked: list[tuple[Question, object]] = []
        """What docker has answered to the test that runs."""
        self._prepare = prepare
        self._docker: Docker | None = None
        self._ours = Side(minirun, "busybox")
        if prepare:
            prepare(self._ours)

    def both(self, ask: Ask, *words: str) -> tuple[Any, Any]:
        """minirun's answer, and docker's."""
        return _plain(ask(self._ours, *words)), self.theirs(ask, *words)

    def theirs(self, ask: Ask, *words: str) -> Any:
        """docker's answer: the one that is kept, if there is one to this question."""
        of = sum_of(ask, *filter(None, [self._prepare]))
        key = (name_of(ask), of, shlex.join(words))
        if self.how == "kept":
            answers = read()[1]
            assert key in answers, f"docker's answer {ANEW}"
            return answers[key]
        answer = self._now(ask, *words)
        self.asked.append((key, answer))
        return answer

    def same(self, ask: Ask, *words: str) -> None:
        """Fail where the answers differ."""
        ours, theirs = self.both(ask, *words)
        assert ours == theirs, self.explained(ask, *words)

    def explained(self, ask: Ask, *words: str) -> str:
        """Say of a difference what the docker of here answers now."""
        if self.how != "kept":
            return "docker has just said so"
        return f"docker {version()} answers now: {self._now(ask, *words)}"

    def _now(self, ask: Ask, *words: str) -> Any:
        if self._docker is None:
            self._docker = Docker("runc", self.minirun.path)
            if self._prepare:
                self._prepare(Side(self._docker.full, IMAGE))
        return _plain(ask(Side(self._docker.full, IMAGE), *words))

    def close(self) -> None:
        self.minirun.clean()
        if self._docker:
            self._docker.close()


def _plain(answer: object) -> Any:
    """An answer as the file gives it back."""
    return json.loads(json.dumps(answer))


def name_of(ask: Ask) -> str:
    return f"{ask.__module__.rpartition('.')[2]}.{ask.__name__}"


def sum_of(*functions: Ask) -> str:
    """The check sum of functions, with the constants and functions of their file that they name."""
    seen: dict[str, str] = {}
    for each in functions:
        _collect(each, seen)
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:8]


def _collect(function: Any, seen: dict[str, str]) -> None:
    seen[function.__qualname__] = source = inspect.getsource(function)
    for name in sorted({*re.findall(r"\w+", source)} & function.__globals__.keys() - seen.keys()):
        value = function.__globals__[name]
        if inspect.isfunction(value) and value.__module__ == function.__module__:
            _collect(value, seen)
        elif name.isupper():
            seen[name] = repr(value)


def version() -> str:
    """What docker calls its version, as "20.10.24+dfsg1"."""
    words = [program("dockerd"), "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return said.split()[2].rstrip(",")


def read() -> tuple[str, dict[Question, Any]]:
    """Return docker's version in docker.txt, and its answers."""
    head, *lines = KEPT.read_text().splitlines()
    found: dict[Question, Any] = {}
    name = of = words = ""
    for line in filter(None, lines):
        if line.startswith("    "):
            found[name, of, words] = json.loads(line)
        elif line.startswith("  "):
            words = line[2:]
        else:
            name, of = line.split()
    return head.split()[3], found


def write(fresh: Iterable[tuple[Question, object]], *, whole: bool = True) -> None:
    """Write answers; those to functions that asked nothing stay.

    `whole`: a function that asked has asked all; else its other answers stay, too.
    """
    rows = dict(fresh)
    anew = {key[0] if whole else key for key in rows}
    before = read()[1] if KEPT.exists() else {}
    kept = {key: answer for key, answer in before.items() if not anew & {key[0], key}}
    rows = kept | rows
    text = HEAD.format(version=version())
    for name, of in sorted({key[:2] for key in rows}):
        text += f"\n{name} {of}\n"
        for key in sorted(key for key in rows if key[:2] == (name, of)):
            text += f"  {key[2]}\n    {json.dumps(rows[key], ensure_ascii=False)}\n"
    KEPT.write_text(text)


# --- fixtures, which a folder's conftest.py imports ---


@pytest.fixture(scope="module")
def sides(
    request: pytest.FixtureRequest, command: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Beside]:
    """For `beside`. A module's function `prepare` makes on each side what its tests ask about."""
    prepare = getattr(request.module, "prepare", None)
    program = Program(command, tmp_path_factory.mktemp("beside") / "containers")
    made = Beside(program, request.config.option.peers, prepare)
    yield made
    made.close()


@pytest.fixture
def beside(sides: Beside, request: pytest.FixtureRequest) -> Beside:
    """minirun beside docker, whose answers are kept."""
    sides.asked = []
    request.node.user_properties.append(("docker", sides.asked))
    return sides
