"""The tutorials: every command works and prints what stands there, in both languages."""

import os
import re
from pathlib import Path

import pytest

import minirun as package
from conftest import STORE, Program

from .runner import Block, blocks, matches, run

ROOT = Path(package.__file__).parents[1]
TUTORIALS = sorted((ROOT / "tutorials").glob("[0-9]*.md"))


def test_there_are_tutorials_in_both_languages() -> None:
    names = [path.name for path in TUTORIALS]
    assert "01-seven-stages.en.md" in names
    assert {name.replace(".ko.", ".en.") for name in names} == {n for n in names if ".en." in n}
    assert {name.replace(".en.", ".ko.") for name in names} == {n for n in names if ".ko." in n}


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_every_command_does_what_the_text_says(
    path: Path, minirun: Program, tmp_path: Path
) -> None:
    todo = blocks(path.read_text())
    env = os.environ | {
        "MINIRUN_ROOT": str(minirun.root), "MINIRUN_STORE": STORE, "TMPDIR": str(tmp_path),
        "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    notes = tmp_path / "notes"
    notes.mkdir()
    for block, said in zip(todo, run(todo, notes, ROOT, env), strict=True):
        assert block.expected is None or matches(block.expected, said), (
            f"{path.name}:{block.line}\n{block.commands}prints\n{said}"
        )
    assert minirun.left() == []


@pytest.mark.parametrize("path", [p for p in TUTORIALS if ".ko." in p.name], ids=lambda p: p.name)
def test_both_languages_show_the_same(path: Path) -> None:
    english = path.with_name(path.name.replace(".ko.", ".en."))
    ours, theirs = blocks(path.read_text()), blocks(english.read_text())
    assert [block[1:] for block in ours] == [block[1:] for block in theirs]
    headings = [
        re.findall(r"^#+", text, re.MULTILINE) for text in (path.read_text(), english.read_text())
    ]
    assert headings[0] == headings[1]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


# --- the runner itself ---------------------------------------------------------------------------


def test_blocks() -> None:
    text = "a\n```shell\nls\n```\n\n```console\nout\n```\n```shell\nid\n```\n```python\nx\n```\n"
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
