"""README.md, PRINCIPLES.md and the lessons name files and folders that exist."""

import re
import subprocess
from pathlib import Path

import pytest

import minirun

CHECKOUT = Path(minirun.__file__).parents[1]
TEXTS = [
    "README.md", "PRINCIPLES.md",
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
        "packages", "tested", "launcher", "images"
    }  # fmt: skip


def test_principles_name_files_of_the_package() -> None:
    named = re.findall(r"`([a-z_/]+(?:/|\.py))`", (CHECKOUT / "PRINCIPLES.md").read_text())
    assert len(named) > 5
    places = (CHECKOUT, CHECKOUT / "minirun")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_tree_of_readme_is_the_tree() -> None:
    text = (CHECKOUT / "README.md").read_text()
    tree = text[text.index("\n    minirun/\n") : text.index("\n    tutorials/")]
    rows = re.findall(r"^      ([a-z][a-z_/ ]+?)(?:  |$)", tree, re.MULTILINE)
    rooms = {word.strip("/") for row in rows for word in row.split()}
    package = CHECKOUT / "minirun"
    assert rooms == {path.parent.name for path in package.glob("*/__init__.py")}
    inner = re.findall(r"^        ([a-z_]+(?:/|\.py)(?: [a-z_]+/)*)", tree, re.MULTILINE)
    below = [word for row in inner for word in row.split()]
    assert len(below) > 8
    missing = [w for w in below if not (package / "core" / w).exists()]
    assert [word for word in missing if not (package / "gpu" / word).exists()] == []
