"""README, ARCHITECTURE, PRINCIPLES and the lessons name files, functions and folders that exist."""

import ast
import itertools
import re
import subprocess
from pathlib import Path

import pytest

import minirun

CHECKOUT = Path(minirun.__file__).parents[1]
PACKAGE = CHECKOUT / "minirun"
ARCHITECTURE = (CHECKOUT / "ARCHITECTURE.md").read_text()
TEXTS = [
    "README.md", "ARCHITECTURE.md", "PRINCIPLES.md",
    *(str(path.relative_to(CHECKOUT)) for path in sorted((CHECKOUT / "tutorials").rglob("*.md"))),
]  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_to_a_file(name: str) -> None:
    page = CHECKOUT / name
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert not {link for link in links if not (page.parent / link).exists()}


def test_make_help_has_each_target_that_is_for_people() -> None:
    text = (CHECKOUT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)", text, re.MULTILINE)
    argv = ["make", "-C", str(CHECKOUT), "--no-print-directory", "help"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    targets = set(phony.replace("\\", "").split())
    assert targets - set(re.findall(r"make ([\w-]+)", said)) == {
        "packages", "tested", "launcher", "store", "images"
    }  # fmt: skip


def test_principles_name_files_of_the_package() -> None:
    named = re.findall(r"`([a-z_/]+(?:/|\.py))`", (CHECKOUT / "PRINCIPLES.md").read_text())
    assert len(named) > 5
    places = (CHECKOUT, CHECKOUT / "minirun")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_house_of_architecture_is_the_tree() -> None:
    text = ARCHITECTURE
    tree = text[text.index("\n    minirun/\n") : text.index("\n    tutorials/")]
    rows = re.findall(r"^      ([a-z][a-z_/ ]+?)(?:  |$)", tree, re.MULTILINE)
    rooms = {word.strip("/") for row in rows for word in row.split()}
    package = CHECKOUT / "minirun"
    assert rooms == {path.parent.name for path in package.glob("*/__init__.py")}
    inner = re.findall(r"^        ([a-z_]+(?:/|\.py)(?: [a-z_]+/)*)", tree, re.MULTILINE)
    below = [word for row in inner for word in row.split()]
    assert len(below) > 8
    rooms_with_rows = [package / name for name in ("core", "gpu", "faces")]
    assert [w for w in below if not any((each / w).exists() for each in rooms_with_rows)] == []


def chapter(title: str) -> str:
    """Return one section of ARCHITECTURE.md."""
    return ARCHITECTURE.split(f"\n## {title}\n")[1].split("\n## ")[0]


STEPS = chapter("One start, in fifteen steps")


def test_the_walk_has_fifteen_steps() -> None:
    numbers = re.findall(r"^(\d+)\. ", STEPS, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 16)]


@pytest.mark.parametrize(("name", "function"), re.findall(r"`([\w/]+\.py)`\s+`(\w+)\(\)`", STEPS))
def test_each_function_of_the_walk_is_in_its_file(name: str, function: str) -> None:
    tree = ast.parse((PACKAGE / name).read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_what_to_open_is_there() -> None:
    text = chapter("To change X, open Y")
    changes = re.findall("^[|] [^-]", text, re.MULTILINE)[1:]
    assert len(changes) >= 20
    named = set(re.findall(r"`([\w./-]+/[\w.-]*)`", text))
    assert len(named) > 40
    assert {n for n in named if not any((top / n).exists() for top in (CHECKOUT, PACKAGE))} == set()


@pytest.mark.parametrize("question", ["Where does /dev/nvidia0 come from?", "Where does /proc get"])
def test_each_file_of_a_way_names_the_next(question: str) -> None:
    way = chapter("A learner's way").split(question)[1].split("\n\n")[1]
    files = re.findall(r"`([\w/]+\.py)`", way)
    assert len(files) > 6
    for name, following in itertools.pairwise(files):
        words = set(re.findall(r"\w+", (PACKAGE / name).read_text()))
        assert Path(following).stem in words, (name, following)
