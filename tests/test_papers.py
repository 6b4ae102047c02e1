"""What docstrings and pages name of the tree is there: `room/file` is a module, folder or test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CLONE = HERE.parent
PACKAGE = CLONE / "minirun"
PAPERS = sorted(
    path
    for top in ("", "minirun", "rootfs-tools", "tutorials")
    for kind in ("*.md", "*.py", "*.toml", "Makefile")
    for path in (CLONE / top).glob(f"**/{kind}" if top else kind)
    if not path.is_relative_to(CLONE / "tutorials/levels")  # programs of learners
)
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
NAMED = re.compile(
    rf"(?<![\w/.$~<>{{}}-])(?:minirun/)?((?:{'|'.join(ROOMS)}|rootfs_tools)(?:/[a-z_0-9]+)+)"
    r"(?![\w/-]|\.(?!py\b|\s|$))"
)
OTHERS = ("image/overlay2", "image/spec", "image/svg", "net/ipv4", "net/ipv6", "net/core")
"""Docker's, OCI's, a type of media, the kernel's settings."""


def named(text: str) -> Iterator[str]:
    """Yield each `room/file` that a text names."""
    for found in NAMED.finditer(text):
        if not found[1].startswith(OTHERS):
            yield found[1]


def is_there(name: str) -> bool:
    """Return True if a module, a folder, or a file of data has this name."""
    tops = (PACKAGE, CLONE / "rootfs-tools", HERE)
    return any((top / name).is_dir() or list(top.glob(f"{name}.*")) for top in tops)


def test_names_are_found() -> None:
    text = "core/gates, core/state.\nminirun/oci/exec/created.py; /run/net/x a/core/b"
    assert [*named(text)] == ["core/gates", "core/state", "oci/exec/created"]
    assert is_there("core/gates") and is_there("gpu/share") and not is_there("core/state")


def test_what_the_papers_name_is_there() -> None:
    missing = {
        f"{paper.relative_to(CLONE)}: {name}"
        for paper in PAPERS
        for name in named(paper.read_text())
        if not is_there(name)
    }
    assert len(PAPERS) > 700
    assert missing == set()


def listed(folder: Path) -> str:
    """Return what a package's docstring says; of a folder of the core, the core's."""
    owner = PACKAGE / "core" if folder.parent == PACKAGE / "core" else folder
    text = ast.get_docstring(ast.parse((owner / "__init__.py").read_text())) or ""
    own = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    return own if owner == folder else own + text.replace(f"{folder.name}/", "")


def test_each_folder_has_a_line_for_each_of_its_files() -> None:
    tops = (PACKAGE, CLONE / "rootfs-tools/rootfs_tools")
    folders = [
        path.parent for top in tops for path in top.glob("**/__init__.py") if path.parent != PACKAGE
    ]
    missing = {
        f"{folder.relative_to(CLONE)}: {path.stem}"
        for folder in folders
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
        if path.stem != "__init__" and not re.search(rf"(?<!\w){path.stem}(?!\w)", listed(folder))
    }
    assert len(folders) > 50
    assert missing == set()


def test_how_long_the_core_is() -> None:
    """README.md says it in words and files, as they are counted: rounded to thousands."""
    files = [*(PACKAGE / "core").rglob("*.py")]
    words = sum(len(path.read_text().split()) for path in files)
    said = re.search(r"has ([\d,]+) words in (\d+) files", (CLONE / "README.md").read_text())
    assert said
    assert abs(int(said[1].replace(",", "")) - words) <= 1000, words
    assert int(said[2]) == len(files)
