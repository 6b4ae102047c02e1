"""`explain` of containers that do not start: what runc, crun and engines really print finds it."""

import subprocess
from pathlib import Path

import pytest

from conftest import Program
from faces.teach.observe.broken import BROKEN, RUNTIMES, Broken, argv, clear, make
from minirun.faces import knowledge
from minirun.faces.knowledge import marks
from minirun.faces.knowledge.texts import AROUND, Topic, room
from required import installed

FRAME = "unable to start container process"
ERROR_TEXTS = {one.name: one for one in marks.topics()}
REPORTED = Path(__file__).parents[2] / "data" / "reported.txt"


def reported() -> list[tuple[str, str]]:
    """Each line of a report with its topic."""
    lines = [line for line in REPORTED.read_text().splitlines() if line and line[0] != "#"]
    return list(zip(lines[1::2], lines[::2], strict=True))


def first(page: str) -> str:
    """The name of the first topic on a page; below a line that speaks of the words around, too."""
    for part in (page, page.partition("\n\n")[2]):
        names = [name for name in ERROR_TEXTS if part.startswith(f"{name}: ")]
        if names:
            return max(names, key=len)
    return page.partition("\n")[0]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", BROKEN)
def test_what_a_runtime_prints(minirun: Program, tmp_path: Path, name: str, runtime: str) -> None:
    for program in ("runc", runtime):
        installed(program)
    (tmp_path / "bundle").mkdir()
    said = printed(BROKEN[name], runtime, tmp_path)
    for lang in ("en", "ko"):
        done = minirun("explain", "--lang", lang, input=said)
        assert first(done.stdout) == BROKEN[name].topic, said


def printed(broken: Broken, runtime: str, folder: Path) -> str:
    """What a runtime says of a bundle that does not start."""
    bundle, root, container = make(broken, folder / "bundle"), folder / "root", f"say-{runtime}"
    words = ["--root", str(root), "run", "--bundle", str(bundle), container]
    done = subprocess.run(
        [*argv(runtime), *words], capture_output=True, text=True, check=False, timeout=60
    )
    clear(runtime, root, container)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("name", BROKEN)
def test_what_minirun_prints(minirun: Program, tmp_path: Path, name: str) -> None:
    """Its own errors find the same topics, but for the one that names no property."""
    installed("runc")
    (tmp_path / "bundle").mkdir()
    bundle = make(BROKEN[name], tmp_path / "bundle")
    done = minirun("run", "--bundle", str(bundle), "broken")
    assert done.returncode != 0
    found = knowledge.error_text(done.stderr)
    if name == "device-below-a-file":
        assert [one.name for one in found] == ["openat2 ENOTDIR"], done.stderr
    elif ERROR_TEXTS[BROKEN[name].topic].kind == AROUND:  # of these words it has a page of its own
        assert [(one.kind, one.title) for one in found] == [("own", room("own")["a hook"].title)]
    else:
        assert [one.name for one in found] == [BROKEN[name].topic], done.stderr


@pytest.mark.parametrize(("text", "name"), reported())
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_what_people_report(minirun: Program, text: str, name: str, lang: str) -> None:
    assert first(minirun("explain", "--lang", lang, input=text).stdout) == name


@pytest.mark.parametrize(
    "warning",
    [
        "minirun: warning: config.json: can't raise ambient capability CAP_KILL: it is not "
        "inheritable (the container runs without it)",
        'time="2026-11-24T00:13:49Z" level=warning msg="exec format error"',
        "WARNING: exec format error",
    ],
)
def test_a_warning_is_no_answer_if_there_is_an_error(warning: str) -> None:
    """It stops nothing, so what is said beside it is why; alone it is explained."""
    (alone,) = knowledge.error_text(warning)
    assert alone.kind != AROUND
    error = "error during container init: sethostname: invalid argument"
    frame = "error during container init: qq zz"
    for text, name in ((error, "sethostname: invalid argument"), (frame, FRAME)):
        for lines in (f"{warning}\n{text}", f"{text}\n{warning}"):
            assert [one.name for one in knowledge.error_text(lines)] == [name]


def test_the_frame_is_no_answer_if_there_is_another() -> None:
    inner = "error during container init: sethostname: invalid argument"
    assert [one.name for one in knowledge.error_text(inner)] == ["sethostname: invalid argument"]
    alone = knowledge.error_text("error during container init: qq zz")
    assert [(one.name, one.kind) for one in alone] == [(FRAME, AROUND)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("exec /bin/x: permission denied", "exec: permission denied"),
        ("fork/exec /bin/x: permission denied", ""),  # a mark with * begins where a word begins
        ("exec /bin/x:\npermission denied", "EACCES"),  # and stays on one line
        (f"exec /{'x' * 301}: permission denied", ""),
    ],
)
def test_a_mark_with_a_gap(text: str, name: str) -> None:
    assert [one.name for one in knowledge.error_text(text)] == [name] * bool(name)


def test_each_mark_finds_its_own_trouble() -> None:
    """In both languages, so a mark that another topic's longer one hides is seen."""
    for one in ERROR_TEXTS.values():
        framed = [f"{said} {mark}" for said in _frame(one) for mark in one.inner]
        for mark in (one.name, *one.marks, *framed):
            found = knowledge.error_text(mark.replace("*", "x"))
            assert found[0].name == one.name, mark
            assert [each.name for each in knowledge.error_text(mark.replace("*", "x"), "ko")] == [
                each.name for each in found
            ]


def _frame(one: Topic) -> tuple[str, ...]:
    return marks.frames()[one.frame].marks if one.frame else ()
