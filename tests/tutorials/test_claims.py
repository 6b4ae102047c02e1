"""What pages say of other programs stands there with its source, and in both languages."""

import datetime
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[2]
CLAIMS = tomllib.loads((TOP / "tests/data/claims.toml").read_text())["claim"]
ENGLISH = {
    "README": TOP / "README.md",
    "many-machines": TOP / "tutorials/reference/engines/many-machines.md",
}
"""Pages that are in English alone."""
PAGES = [
    *ENGLISH.values(),
    *sorted(TOP.glob("tutorials/*.en.md")),
    *sorted(TOP.glob("tutorials/book/*.en.md")),
]
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_OTHERS = re.compile(
    r"\b(docker|moby|podman|containerd|nerdctl|CRI-O|Kubernetes|kubelet|toolkit|GPU Operator|enroot"
    r"|[aA]pptainer|Slurm|runc|crun|systemd|coreutils|Go|sudo|Ubuntu|glibc|Linux)\b"
)
_VERSION = re.compile(
    r"(?<![\w./:-])v?\d+\.\d+(\.\d+)?(?![\w/:%]|\.\d| ?(ms|s|MB|GB)\b)|\b(since|until) (\w+ )?\d"
)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z(`])")
_BOX = "> **The real "
"""How a box begins whose files are in sources.toml."""
_OWN = "On Debian 12, Ubuntu 22.04, or newer"
"""Where minirun itself runs, which is no claim on another program."""


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: f"{row['page']}: {row['program']}")
def test_the_words_stand_on_the_page(row: dict[str, Any]) -> None:
    if page := ENGLISH.get(row["page"]):
        assert row["words"] in page.read_text()
        return
    pages = {name: TOP / f"tutorials/{row['page']}.{name}.md" for name in ("en", "ko")}
    assert row["words"] in pages["en"].read_text()
    assert row.get("korean", "") in pages["ko"].read_text()


def test_a_row_says_where_and_when() -> None:
    for row in CLAIMS:
        assert row["version"] and row["source"] and isinstance(row["looked"], datetime.date), row
    words = [(row["page"], row["words"]) for row in CLAIMS]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_program_with_a_version_has_a_row(path: Path) -> None:
    rows = [row["words"] for row in CLAIMS if row["page"] == path.name.split(".")[0]]
    assert [each for each in sentences(path.read_text()) if not has_row(each, rows)] == []


def sentences(page: str) -> Iterator[str]:
    """Yield the sentences, and rows of tables, that say something of a version of a program."""
    for paragraph in re.split(r"\n\n|\n(?=[|-] ?)", _CODE.sub("", page)):
        if paragraph.startswith(_BOX):
            continue
        for each in _SENTENCE.split(paragraph):
            if _OTHERS.search(each) and _VERSION.search(each) and _OWN not in each:
                yield each


def has_row(sentence: str, rows: list[str]) -> bool:
    """Tell whether the words of a row stand in a sentence, at least in part: they may be longer."""
    return any(row in sentence or sentence in row or _overlap(sentence, row) for row in rows)


def _overlap(sentence: str, row: str) -> bool:
    """Tell whether a row begins in the sentence, and goes on behind it, or the reverse."""
    half = len(row) // 2
    return row[:half] in sentence or row[-half:] in sentence


def test_a_page_without_a_row_is_found() -> None:
    page = (
        "docker 29.2 does it.\n\n```\nrunc 1.1\n```\n\n> **The real runc.** Since runc 1.1 it does."
    )
    assert [*sentences(page)] == ["docker 29.2 does it."]
    assert not has_row("docker 29.2 does it.", ["podman 4.3 does it"])
    assert [*sentences("10.7.0.1 is docker's own address, and 2.5 ms is long.")] == []
