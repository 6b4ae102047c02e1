"""The tutorials: every command works and prints what stands there, in both languages."""

import json
import os
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import minirun as package
from conftest import Program
from required import machine_has
from tutorials.publish.quotes import quotes
from tutorials.publish.runner import Block, blocks, matches, run
from tutorials.publish.source import Part, asked, keys, parts

ROOT = Path(package.__file__).parents[1]
_SECTIONS = (
    ("The real ", "Read it", "Lab", "What you have seen", "Further reading"),
    ("진짜 ", "코드 읽기", "실습", "정리", "더 읽을거리"),
)
_OF_A_LEVEL = (
    ("Write it", "The step", "The same in minirun", "What you have seen", "Further reading"),
    ("직접 쓰기", "이번 단계", "minirun에서는", "정리", "더 읽을거리"),
)
TUTORIALS = sorted((ROOT / "tutorials").glob("*-*.md"))
READING = [path for path in TUTORIALS if not path.name.startswith("00-")]
"""The lessons that read minirun's own lines, and change one: all but the doctor's and the tour."""
BOOK = sorted((ROOT / "tutorials/book").glob("*.md"))
GUIDES = sorted((ROOT / "tutorials").glob("INSTRUCTORS.*.md"))


def test_there_are_lessons_in_both_languages() -> None:
    names = [path.name for path in TUTORIALS]
    assert "00-seven-stages.en.md" in names
    assert {name.replace(".ko.", ".en.") for name in names} == {n for n in names if ".en." in n}
    assert {name.replace(".en.", ".ko.") for name in names} == {n for n in names if ".ko." in n}
    chapters = {path.name for path in BOOK if path.stem != "README"}
    assert {name.replace(".en.", ".ko.") for name in chapters} == {
        name for name in chapters if ".ko." in name
    }


@pytest.mark.parametrize(
    "path", [p for p in TUTORIALS + BOOK + GUIDES if ".en." in p.name], ids=lambda p: p.name
)
def test_every_command_does_what_the_text_says(
    path: Path, reachable: Program, tmp_path: Path
) -> None:
    """Of the English text: a test below says that the Korean one has the same commands.

    Of a lesson the block of "Before you begin" alone: the others are cells of its notebook, which
    tests/notebooks/test_lessons.py plays, and compares with this text.
    """
    todo = blocks(path.read_text())
    if path in TUTORIALS:
        del todo[1:]
    machine_has(path.read_text())
    env = os.environ | {
        **reachable.environment(), "TMPDIR": str(tmp_path),
        "LC_ALL": "C.UTF-8", "HOME": str(tmp_path),
    }  # fmt: skip
    notes = tmp_path / "notes"
    notes.mkdir()
    said = run(todo, notes, ROOT, env)
    for block, text in zip(todo, said, strict=True):
        assert block.expected is None or matches(block.expected, text), (
            f"{path.name}:{block.line}\n{block.commands}prints\n{text}"
        )
    assert reachable.left() == []


@pytest.mark.parametrize("path", TUTORIALS + BOOK, ids=lambda path: path.name)
def test_it_has_a_state_root_of_its_own(path: Path) -> None:
    """In a terminal as in its notebook: what it deletes by name is never the user's."""
    todo = blocks(path.read_text())
    if todo:
        first, last = todo[0].commands, todo[-1].commands
        begins = first.index("scratch=$(mktemp -d"), first.index('export MINIRUN_ROOT="$scratch/')
        assert begins == tuple(sorted(begins)) and "chmod 7" in first and 'cd "$scratch"' in first
        assert last.endswith('\nrm -r -- "$scratch"\n')
        assert path in BOOK or "minirun lab reset --all\n" in last, "its labs are in its root"


def test_two_lessons_at_once_leave_a_container_of_the_user_alone(
    reachable: Program, tmp_path: Path
) -> None:
    """Lesson 12 makes a container web and deletes it; so does another, and the user has one."""
    lesson = blocks((ROOT / "tutorials/12-network.en.md").read_text())
    end = lesson[-1].commands.splitlines()[-2:]
    make = "minirun run -d --name web --network none busybox sleep 1000\n"
    both = [
        f"cd {ROOT}\n{lesson[0].commands}{make}other=$scratch\n",
        f"cd {ROOT}\n{lesson[0].commands}{make}minirun delete --force web\n" + "\n".join(end),
        "MINIRUN_ROOT=$other/.containers minirun delete --force web\nrm -r -- $other\n",
    ]
    env = os.environ | reachable.environment()
    assert reachable("run", "-d", "--name", "web", "busybox", "sleep", "1000").returncode == 0
    (tmp_path / "notes").mkdir()
    own = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    run([Block(1, text, None) for text in both], tmp_path / "notes", ROOT, env | own)
    assert json.loads(reachable("state", "web").stdout)["status"] == "running"
    assert [*tmp_path.glob("tmp.*")] == []
    assert reachable("delete", "--force", "web").returncode == 0


@pytest.mark.parametrize(
    "path", [p for p in TUTORIALS + BOOK + GUIDES if ".ko." in p.name], ids=lambda p: p.name
)
def test_both_languages_show_the_same(path: Path) -> None:
    """The same headings, commands, outputs, questions, figures, in the same order."""
    english = path.with_name(path.name.replace(".ko.", ".en."))
    if path.name == "README.ko.md":
        english = path.with_name("README.md")
    ours, theirs = ([shape(part) for part in parts(p.read_text())] for p in (path, english))
    for our, their in zip(ours, theirs, strict=True):
        assert our == their


def shape(part: Part) -> object:
    """Return what two languages have in common in a part."""
    if part.kind == "question":
        return part.kind, keys(part.body)
    if part.kind == "reason":
        return part.kind
    if part.kind == "text":
        headings = re.findall(r"^#+ ", part.body, re.MULTILINE)
        boxes = len(re.findall(r"^> \*\*", part.body, re.MULTILINE))
        pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", part.body)
        return headings, boxes, [name.replace(".ko.svg", ".svg") for name in pictures]
    return part


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_it_is_made_as_lessons_are(path: Path) -> None:
    """Questions, a box on the real stack, a recap, one idea to a block."""
    found = [*parts(path.read_text())]
    questions = [part for part in found if part.kind == "question"]
    assert 3 <= len(questions) <= 9
    assert [p.kind for p in found if p.kind in ("question", "reason")] == [
        "question", "reason",
    ] * len(questions)  # fmt: skip
    for before, part in pairwise(found):
        assert part.kind != "reason" or before.kind in ("answer", "console"), part.body
    for part in found:
        assert part.kind not in ("shell", "answer") or part.body.count("\n") <= 6, part.body
    commands = [part.body for part in found if part.kind in ("shell", "answer")]
    assert len(set(commands)) == len(commands), "without root a cell is known by its commands"
    text = "\n".join(part.body for part in found if part.kind == "text")
    korean = ".ko." in path.name
    if path.name.startswith("level-"):
        headings, number = _OF_A_LEVEL[korean], path.name.split("-")[1]
        assert [part.body for part in found if part.kind == "skeleton"] == [number]
    else:
        real, read_it, *headings = _SECTIONS[korean]
        headings += [read_it] if path in READING else []
        assert f"> **{real}" in text
    for heading in headings:
        assert re.search(f"^## {heading}$", text, re.MULTILINE), heading


@pytest.mark.parametrize("path", READING, ids=lambda path: path.name)
def test_it_reads_the_tree_and_changes_it(path: Path) -> None:
    """Lines of minirun are quoted; a change is made in a copy, and what it does predicted."""
    page = path.read_text()
    quoted = [each for each in quotes(page) if each.what[1].startswith("minirun/")]
    assert quoted and all(5 <= each.body.count("\n") <= 24 for each in quoted)
    looks = [part.body for part in parts(page) if part.kind == "answer"]
    assert any("python3 -m minirun" in look for look in looks), "the change has a visible effect"


@pytest.mark.parametrize("path", TUTORIALS + BOOK + GUIDES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if not target.startswith("https://"):
            assert (path.parent / target).exists(), target


_FOLDERS = "src|cmd|pkg|internal|libcontainer"
_FILE = re.compile(rf"`((?:[\w.-]+/)*[\w-]+\.(?:go|c)|(?:{_FOLDERS})/[\w/-]+)`")
_NAME = re.compile(r"`([a-z]+(?:[A-Z]\w*)|[A-Z][a-z]+[A-Z]\w*|[a-z]+(?:_[a-z]+)+|nsexec)`")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_what_it_says_of_other_programs_sources_was_looked_up(path: Path) -> None:
    """Each file that it names, and each function in a box on the real stack: sources.toml."""
    table = tomllib.loads(Path(__file__).with_name("sources.toml").read_text())
    looked_up = {file: has for files in table.values() for file, has in files.items()}
    for box in re.findall(r"^> \*\*(?:The real|진짜)(?:.+\n)+", path.read_text(), re.MULTILINE):
        text = " ".join(line.removeprefix("> ") for line in box.splitlines())
        files = _FILE.findall(text)
        known = {file for file in looked_up for said in files if is_meant(said, file)}
        unknown = [said for said in files if not any(is_meant(said, file) for file in looked_up)]
        assert unknown == [], "look it up, and write it into sources.toml"
        has = {name.lower() for file in known for name in looked_up[file]}
        names = [name for name in _NAME.findall(text) if files and name.lower() not in has]
        assert names == [], f"in none of {sorted(known)}"


def is_meant(said: str, file: str) -> bool:
    """Return True for the file's path, its name alone, and a folder above it."""
    return said == file or file.endswith(f"/{said}") or file.startswith(f"{said}/")


# --- the runner itself ---------------------------------------------------------------------------


def test_blocks() -> None:
    text = "a\n```shell\nls\n```\n\n```console\nout\n```\n```shell\nid\n```\n"
    text += "```python a.py b\nx\n```\n"
    assert blocks(text) == [Block(3, "ls\n", "out\n"), Block(10, "id\n", None)]
    with pytest.raises(ValueError, match="output without commands"):
        blocks("```shell\nls\n```\ntext\n```console\nout\n```\n")


def test_one_session_stops_at_the_first_failure(tmp_path: Path) -> None:
    env = dict(os.environ)
    assert run([Block(1, "x=5\n", None), Block(4, "echo $x\n", None)], tmp_path, tmp_path, env) == [
        "", "5\n",
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="line 7: exit status 1: false"):
        run([Block(2, "true\n", None), Block(7, "echo a\nfalse\necho b\n", None)],
            tmp_path, tmp_path, env)  # fmt: skip


@pytest.mark.parametrize(
    ("expected", "said", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\n", "a\nb\nc\n", True),
        ("…\nc\n", "a\nb\n", False),
        ("a   … c\n", "a b c\n", True),
        ("a.c\n", "abc\n", False),
        ("…\nb\n…\n", "b\n", True),
        ("", "", True),
        ("", "a\n", False),
    ],
)
def test_matches(expected: str, said: str, same: bool) -> None:
    assert matches(expected, said) is same


def test_parts() -> None:
    text = """# 1
> **Predict.** What *now*,
> then?
>
> - `a`: it
>   works
> - b

```shell answer
ls
```

> **Why.** So `x`.
> Yes.

<!-- cell
x
-->
```python
y
```
"""
    found = [*parts(text)]
    assert [part.kind for part in found] == [
        "text", "question", "answer", "reason", "cell", "text",
    ]  # fmt: skip
    assert asked(found[1].body) == ("What *now*, then?", ["`a`: it works", "b"])
    assert keys(found[1].body) == ["a", "b"]
    assert found[3].body == "So `x`.\nYes."
    assert found[4].body == "x"


def test_the_dev_container_calls_what_there_is() -> None:
    """It is privileged, since it makes containers; its commands are targets of the Makefile."""
    said = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = f"{said['postCreateCommand']} && {said['postStartCommand']}"
    called = re.findall(r"\bmake ([a-z]+)(?= |$)", commands)
    assert said["privileged"] and called == ["demo", "lab"] and {*called} <= {*targets}
