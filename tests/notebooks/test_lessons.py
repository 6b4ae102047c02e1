"""The lessons' notebooks: from top to bottom in a real kernel, live and from the recording."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import minirun as package
from conftest import Program, skip, wait_until
from minirun.faces.api.course.lesson import CellOutput, Lesson
from minirun.faces.api.course.text import key_of, load
from minirun.faces.api.launch import Able
from minirun.faces.knowledge.texts import lesson as word_of
from notebooks import files
from required import machine_has
from tutorials.publish import play
from tutorials.publish.notebooks import (
    LANGUAGES,
    SHIPPED,
    lessons,
    notebook,
    questions,
    source,
)
from tutorials.publish.played import AS_NOBODY
from tutorials.publish.runner import Block, blocks, matches
from tutorials.publish.source import keys, parts

ROOT = Path(package.__file__).parents[1]
BOTH = [(name, language) for name in lessons() for language in LANGUAGES]
each_notebook = pytest.mark.parametrize(("name", "language"), BOTH)


def file_of(name: str, language: str) -> Path:
    return ROOT / "notebooks" / language / f"{name}.ipynb"


def looks(name: str) -> list[Block]:
    """The blocks that the notebook has as cells: not those of "Before you begin"."""
    return blocks(source(name, "en"))[1:]


# --- what is committed ----------------------------------------------------------------------------


@each_notebook
def test_it_is_what_its_source_says(name: str, language: str) -> None:
    """Equal to its source, and so without outputs."""
    kept = files.read(file_of(name, language))
    assert kept == notebook(name, language), "make notebooks"
    files.validate(kept)


def test_there_is_no_other() -> None:
    kept = {*ROOT.joinpath("notebooks").rglob("*.ipynb")}
    assert kept == {file_of(*each) for each in BOTH}
    assert {path.stem for path in SHIPPED.glob("*.json")} == set(lessons())


@pytest.mark.parametrize("name", lessons())
def test_both_languages_have_the_same_code(name: str) -> None:
    code = [
        [
            cell.source for cell in notebook(name, language).cells
            if cell.cell_type == "code" and not cell.source.startswith("%%writefile")
        ] for language in LANGUAGES
    ]  # fmt: skip
    assert code[0][0].replace('"en")', '"ko")') == code[1][0]
    assert code[0][1:] == code[1][1:]
    assert all(each.count("\n") <= 6 for each in code[0])


@each_notebook
def test_its_first_line_leads_to_the_lesson_with_its_outputs(name: str, language: str) -> None:
    """A notebook has none, and a forge shows it as it is: the text in tutorials/ has them."""
    kept = files.read(file_of(name, language))
    first = kept.cells[0].source.splitlines()[0]
    (target,) = re.findall(r"\]\(([^)]+)\)", first)
    there = (file_of(name, language).parent / target).resolve()
    assert there == ROOT / "tutorials" / f"{name}.{language}.md"
    assert "```console" in there.read_text()


@pytest.mark.parametrize("name", lessons())
def test_what_it_ships_is_of_today(name: str) -> None:
    """The blocks are those of the text, their outputs what it promises; the questions too."""
    shipped = json.loads((SHIPPED / f"{name}.json").read_text())
    for block, kept in zip(looks(name), shipped["blocks"], strict=True):
        assert block.commands == kept["commands"], "make notebooks"
        assert block.expected is None or matches(block.expected, kept["said"])
    answers = [block["answers"] for block in shipped["blocks"] if "answers" in block]
    assert answers == list(range(1, len(shipped["questions"]) + 1))
    assert shipped["questions"] == questions(name), "make notebooks"


@each_notebook
def test_no_answer_stands_in_it(name: str, language: str) -> None:
    """Neither the outputs nor the reasons: they are in what is shipped."""
    text = file_of(name, language).read_text()
    for question in questions(name):
        assert question[language]["why"]
        assert json.dumps(question[language]["why"], ensure_ascii=False)[1:40] not in text


# --- played ---------------------------------------------------------------------------------------


class Played:
    """A notebook with its outputs."""

    def __init__(self, notebook: Any) -> None:
        self.cells: list[Any] = [cell for cell in notebook.cells if cell.cell_type == "code"]

    def texts(self, *beginnings: str) -> list[list[str]]:
        """The outputs, as text, of each cell that begins so."""
        return [
            [output["data"]["text/plain"] for output in cell.outputs]
            for cell in self.cells
            if cell.source.startswith(beginnings)
        ]


Play = Callable[[Path, Path, dict[str, str]], Played]
"""Plays a notebook in a folder, its kernel with this environment."""


def player(*prefix: str) -> Iterator[Play]:
    """For a fixture: a process that plays notebooks, each in a kernel of its own."""
    with tempfile.TemporaryDirectory(prefix="minirun-play.") as home:
        os.chmod(home, 0o777)
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", play.__name__], cwd=ROOT, text=True,
            env=os.environ | {"HOME": home, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

        def played(file: Path, folder: Path, env: dict[str, str]) -> Played:
            assert process.stdin and process.stdout
            process.stdin.write(play.Request(str(file), str(folder), env).line())
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert isinstance(answer, dict), answer
            return Played(files.of(answer))

        yield played
        process.communicate()
        assert process.returncode == 0


@pytest.fixture(scope="module")
def as_root() -> Iterator[Play]:
    yield from player()


@pytest.fixture(scope="module")
def as_nobody() -> Iterator[Play]:
    if not os.stat(ROOT).st_mode & 0o001:
        skip(f"user nobody cannot read {ROOT}")
    yield from player(*AS_NOBODY)


def environment(minirun: Program, home: Path) -> dict[str, str]:
    own = {"HOME": str(home), **minirun.environment()}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "XDG"))}
    return kept | own


def happened(name: str, language: str, outputs: list[str]) -> list[str]:
    """The verdicts' first lines, of what the looks of a lesson have printed."""
    recorded = load(name, language).happened
    asked: list[str] = []
    choices: list[str] = []
    found: list[str] = []
    said = iter(outputs)
    for kind, body in parts(source(name, language)):
        if kind == "question":
            asked = keys(body)
            choices = questions(name)[len(found)][language]["choices"]
        elif kind in ("shell", "answer"):
            last = next(said).rstrip("\n").rpartition("\n")[2].strip()
            if kind == "answer":
                text = choices[asked.index(last)].replace("`", "")
                same = last == recorded[len(found) + 1]  # another kind of machine may say another
                found.append(f"{word_of('none' if same else 'differs', language)}: {text}")
    return found


def assert_answers_are_choices(text: str, said: list[str]) -> None:
    """Each question has one look, and what that prints last is one of its choices."""
    outputs = iter(said)
    open_keys: list[str] | None = None
    for kind, body in parts(text):
        if kind == "question":
            assert open_keys is None, f"no answer before: {body}"
            open_keys = keys(body)
            assert len(set(open_keys)) == len(open_keys) >= 2, body
        elif kind in ("shell", "answer"):
            output = next(outputs)
            if kind == "answer":
                assert open_keys is not None, f"no question before: {body}"
                assert output.rstrip("\n").rpartition("\n")[2].strip() in open_keys, body
                open_keys = None
    assert open_keys is None, "the last question has no answer"


@pytest.mark.parametrize(
    "text",
    [
        "> **Predict.** q\n>\n> - `a`\n> - `b`\n",
        "```shell answer\necho a\n```\n",
        "> **Predict.** q\n>\n> - `b`\n> - `c`\n\n```shell answer\necho a\n```\n",
    ],
)
def test_a_question_without_its_answer(text: str) -> None:
    with pytest.raises(AssertionError):
        assert_answers_are_choices(text, ["a\n"])


# The code is the same in both languages (see above), and so is the lesson's machinery: English is
# played live, Korean from the recording.


@pytest.mark.parametrize("name", lessons())
def test_live_beside_what_the_text_promises(
    name: str, reachable: Program, tmp_path: Path, as_root: Play
) -> None:
    """As root: each cell prints what the text has, each verdict is what the kernel said now."""
    language = "en"
    machine_has(source(name, language))
    env = environment(reachable, tmp_path) | {"TMPDIR": str(reachable.root.parent)}
    played = as_root(file_of(name, language), tmp_path, env)
    said = [texts[0] for texts in played.texts("%%shell", "%%answer")]
    for block, text in zip(looks(name), said, strict=True):
        assert block.expected is None or matches(block.expected, f"{text}\n"), text
    verdicts = [texts[1].splitlines()[0] for texts in played.texts("%%answer")]
    assert_answers_are_choices(source(name, language), ["", *said])
    assert verdicts == happened(name, language, ["", *said])
    wait_until(lambda: not folders(reachable.root.parent))
    assert not reachable.root.exists(), "a lesson has a state root of its own"


@pytest.mark.parametrize("name", lessons())
def test_from_a_recording_as_nobody(name: str, minirun: Program, as_nobody: Play) -> None:
    language = "ko"
    with tempfile.TemporaryDirectory(prefix="minirun-nobody.") as home:
        os.chown(home, 65534, 65534)
        played = as_nobody(file_of(name, language), Path(home), environment(minirun, Path(home)))
    shipped = json.loads((SHIPPED / f"{name}.json").read_text())
    assert "containers need root" in played.texts("import minirun")[0][0]
    said = [texts[0] for texts in played.texts("%%shell", "%%answer")]
    for text, kept in zip(said, shipped["blocks"], strict=True):
        *shown, mark = text.split("\n")
        assert shown == kept["said"].expandtabs().splitlines()
        assert shipped["system"] in mark
    verdicts = [texts[1].splitlines()[0] for texts in played.texts("%%answer")]
    assert verdicts == happened(name, language, ["", *(kept["said"] for kept in shipped["blocks"])])
    assert not minirun.root.exists(), "nothing was run"


WITHOUT_LINUX = """
import sys
for name in ("fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "syslog"):
    sys.modules[name] = None
sys.platform = "darwin"
import minirun
lesson = minirun.lesson("07-devices", "en")
print(lesson)
print(lesson.answer(1, lesson.shell(next(iter(lesson._text.said)))).right)
"""


def test_without_linux(minirun: Program, tmp_path: Path) -> None:
    """Linux's modules are hidden: it goes on with what was recorded."""
    words = [sys.executable, "-c", WITHOUT_LINUX]
    done = subprocess.run(
        words, env=environment(minirun, tmp_path), capture_output=True, text=True, check=True
    )
    assert "From a recording: containers need Linux, and this is darwin." in done.stdout


def test_root_without_its_capabilities(minirun: Program, tmp_path: Path) -> None:
    """As in a container without privileges: user 0, and no CAP_SYS_ADMIN."""
    code = "import minirun; lesson = minirun.lesson('03-overlayfs', 'ko'); print(lesson)"
    words = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", sys.executable]
    done = subprocess.run(
        [*words, "-c", code], env=environment(minirun, tmp_path), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "기록 재생: containers need root (CAP_SYS_ADMIN), and this is user 0" in done.stdout


# --- the shell of a lesson ------------------------------------------------------------------------

KERNEL = """
import os, signal, sys, threading
import minirun
lesson = minirun.lesson("00-seven-stages", "en")
def shell(text):
    print(lesson.shell(text), flush=True)
"""


def kernel(minirun: Program, home: Path, code: str, **more: str) -> subprocess.Popen[str]:
    """A process that does what a notebook's kernel does."""
    env = environment(minirun, home) | {"TMPDIR": str(home)}
    env.pop("MINIRUN_ROOT", None)
    return subprocess.Popen(
        [sys.executable, "-c", KERNEL + code], env=env | more, text=True, cwd=home,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE,
    )  # fmt: skip


def folders(home: Path) -> list[Path]:
    return [*home.glob("minirun-lesson-*")]


def processes(name: str) -> list[str]:
    found = subprocess.run(["pgrep", "-f", name], capture_output=True, text=True, check=False)
    return found.stdout.split()


START = """
shell("x=5; minirun run -d --name lesson busybox sleep 1000")
shell("echo $x; minirun list -q; ls /proc/self/fd | wc -l; echo oops >&2; false")
print(os.environ["MINIRUN_ROOT"], flush=True)
"""


def test_one_shell_for_all_cells(minirun: Program, tmp_path: Path) -> None:
    process = kernel(minirun, tmp_path, START)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    made = said.partition("\n")[0]
    assert re.fullmatch("[0-9a-f]{64}", made)
    assert said.splitlines()[:6] == [made, "5", made, "4", "oops", "exit status 1"]
    assert said.splitlines()[6].startswith(f"{tmp_path}/minirun-lesson-")
    assert folders(tmp_path) == []
    assert processes(f"{tmp_path}/minirun-lesson") == []


OWN = """
shell("minirun run -d --name web busybox sleep 1000; minirun list -q; minirun rm -f web")
lesson.close()
print(os.environ["MINIRUN_ROOT"])
lesson.lab("crashing-worker")
print(os.environ["MINIRUN_ROOT"].rpartition("/")[0].startswith(os.environ["TMPDIR"] + "/minirun-"))
"""


def test_a_container_of_the_reader_stays(minirun: Program, tmp_path: Path) -> None:
    """As in a terminal: lessons delete by name; $MINIRUN_ROOT may name the reader's root."""
    assert minirun("run", "-d", "--name", "web", "busybox", "sleep", "1000").returncode == 0
    process = kernel(minirun, tmp_path, OWN, MINIRUN_ROOT=str(minirun.root))
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    made = said.partition("\n")[0]
    assert re.fullmatch("[0-9a-f]{64}", made) and made != minirun.id("web")
    assert said.splitlines() == [made, made, "web", str(minirun.root), "True"]
    assert json.loads(minirun("state", "web").stdout)["status"] == "running"
    assert folders(tmp_path) == []


def test_the_kernel_is_killed(minirun: Program, tmp_path: Path) -> None:
    """Its shell sees the end of its input, and removes containers and folder."""
    process = kernel(minirun, tmp_path, START + "sys.stdin.readline()")
    try:
        assert process.stdout
        root = [process.stdout.readline() for _ in range(7)][-1].strip()
        assert Program(minirun.path, Path(root)).directory("lesson").is_dir()
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: not folders(tmp_path))
    assert processes(root) == []


def test_kernel_and_shell_are_killed(minirun: Program, tmp_path: Path) -> None:
    """The next lesson removes what was left."""
    process = kernel(minirun, tmp_path, START + "sys.stdin.readline()")
    try:
        assert process.stdout
        root = [process.stdout.readline() for _ in range(7)][-1].strip()
        shell = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    finally:
        os.kill(int(shell[0]), signal.SIGKILL)
        process.kill()
        process.communicate()
    time.sleep(0.2)
    assert Program(minirun.path, Path(root)).directory("lesson").is_dir()
    done = kernel(minirun, tmp_path, 'shell("echo new")')
    assert done.communicate(timeout=60)[0] == "new\n"
    assert folders(tmp_path) == []
    assert processes(root) == []


def test_an_interrupt_ends_the_command_alone(minirun: Program, tmp_path: Path) -> None:
    code = """
shell("y=6")
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    shell("sleep 1000; echo on")
except KeyboardInterrupt:
    print("interrupted")
shell("echo $y")
shell("exit 3")
shell("echo anew $y")
"""
    process = kernel(minirun, tmp_path, code)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert said.splitlines() == ["", "interrupted", "6", "exit status 3", "anew"]
    assert folders(tmp_path) == []


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ('minirun.lesson("7")', "unknown lesson '7' (00-"),
        ('minirun.lesson("00-seven-stages", "xx")', "unknown language 'xx'"),
        ("lesson.question(0)", "question 0 of 8 (count from 1 on)"),
        ("lesson.question(1, answer=9)", "answer 9 is none of 1 to 4"),
        ('lesson.typed("true")', "%%minirun types into a browser's tab: use %%shell here"),
    ],
)
def test_wrong_words(call: str, line: str, minirun: Program, tmp_path: Path) -> None:
    process = kernel(minirun, tmp_path, f"\n{call}")
    errors = process.communicate(timeout=60)[1].splitlines()
    assert re.search(rf"Error: {re.escape(line)}", errors[-1]), errors


@each_notebook
def test_what_was_not_recorded_gets_no_reason(name: str, language: str) -> None:
    """A cell that was left out: a look prints another choice, nothing, or an error."""
    text = load(name, language)
    lesson = Lesson(name, text, language, Able(False, "none is needed"))
    for number, question in enumerate(text.questions, 1):
        truth = text.happened[number]
        given = [key_of(choice) for choice in question.choices]
        assert truth in given
        for key in [*given, "", "cat: error: No such file or directory"]:
            lesson.question(number, answer=1)
            verdict = lesson.answer(number, CellOutput(f"before\n{key}\n"))
            if key == truth:
                assert verdict.word in (word_of("right", language), word_of("wrong", language))
                continue
            assert verdict.right is None
            assert str(verdict).startswith(f"{word_of('differs', language)}: ")
            assert text.system in verdict.why
            assert not any(each.why[:40] in str(verdict) for each in text.questions)


SKIPPED = """
import re
name, number, left_out = "{name}", {number}, {left_out!r}
lesson = minirun.lesson(name, "en")
for commands in lesson._text.said:
    answers = [b["answers"] for b in blocks if b["commands"].strip() == commands and "answers" in b]
    if left_out in commands:
        continue
    said = lesson.shell(commands)
    if answers == [number]:
        print(lesson.answer(number, said))
        break
"""


@pytest.mark.parametrize(
    ("name", "number", "left_out"),
    [
        ("02-namespaces", 4, "mkdir here"),
        ("11-capstone", 2, "start A "),
        ("01-process", 2, "run -d"),
    ],
)
def test_a_cell_is_left_out(
    name: str, number: int, left_out: str, minirun: Program, tmp_path: Path
) -> None:
    """As root, in the order of the notebook, but for one cell: no false truth, no reason."""
    shipped = json.loads((SHIPPED / f"{name}.json").read_text())
    code = f"blocks = {shipped['blocks']!r}\n" + SKIPPED.format(
        name=name, number=number, left_out=left_out
    )
    process = kernel(minirun, tmp_path, code)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert said.startswith("not as recorded: "), said
    assert "Was a cell before this one left out" in said
    assert shipped["questions"][number - 1]["en"]["why"][:40] not in said


@each_notebook
def test_no_mark_of_markdown_is_shown(name: str, language: str) -> None:
    """Buttons and verdicts are plain text: `*Which*` would stand there with its stars."""
    text = load(name, language)
    lesson = Lesson(name, text, language, Able(False, "none is needed"))
    for number, question in enumerate(text.questions, 1):
        asked = lesson.question(number)
        shown = [
            *asked.choices,
            asked.question,
            lesson.answer(number, CellOutput(text.happened[number])).why,
        ]
        marked = re.compile(r"\*[^\s*/][^*]*\*|`")
        code = "".join(re.findall(r"`[^`]+`", question.why + "".join(question.choices)))
        assert not [each for each in shown if marked.search(each) and "*" not in code]


def test_a_learner_who_answers(minirun: Program, tmp_path: Path) -> None:
    """Right where it is what happened, and nowhere else; a changed cell needs root."""
    code = """
from minirun.faces.api.launch import Able
lesson.live = Able(False, "containers need root")
for number in (1, 2, 5):
    lesson.question(number, answer=2)
text = lesson._text.said
for number, part in ((1, "-ef"), (2, "asks"), (5, "wc -l"), (3, "gsub")):
    said = lesson.shell(next(commands for commands in text if part in commands))
    print(lesson.answer(number, said).word)
lesson.shell("ls")
"""
    process = kernel(minirun, tmp_path, code)
    said, errors = process.communicate(timeout=60)
    assert said.splitlines() == [
        "right", "right", "not as you predicted; it was", "no prediction yet",
    ]  # fmt: skip
    assert "this cell is not the lesson's" in errors.splitlines()[-1]
