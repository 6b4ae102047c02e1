"""`explain` of sixty lines that stop people: how many are right, wrong, and unknown.

The lines, what they mean, and the words that an explanation of each cannot do without:
tests/data/met.toml, which was there before their patterns.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from minirun import knowledge
from minirun.knowledge.texts import Topic

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"


class Met(NamedTuple):
    """A line, who prints it, what it means, and the words that say so."""

    line: str
    source: str
    means: str
    says: list[str]


DATA = Path(__file__).parents[1] / "data" / "met.toml"
MET = [Met(**row) for row in tomllib.loads(DATA.read_text())["met"]]


def topics(line: str) -> list[Topic]:
    """What is known of a line, without the words around a cause."""
    return [one for one in knowledge.lookup(line) if one.kind != knowledge.AROUND]


def score(met: Met) -> str:
    """Return RIGHT if the page of a line says what it means, WRONG if it says something else."""
    found = topics(met.line)
    page = "\n".join(f"{one.title}\n{one.here}\n{one.cause}\n{one.advice}" for one in found)
    if not found:
        return UNKNOWN
    return RIGHT if all(word.lower() in page.lower() for word in met.says) else WRONG


def test_they_are_sixty() -> None:
    assert len(MET) == len({one.line for one in MET}) == 60
    assert all(one.source and one.means and one.says for one in MET)


@pytest.mark.parametrize("met", MET, ids=range(len(MET)))
def test_in_korean_as_in_english(met: Met) -> None:
    names = [one.name for one in topics(met.line)]
    korean = [one for one in knowledge.lookup(met.line, "ko") if one.kind != knowledge.AROUND]
    assert [one.name for one in korean] == names


if __name__ == "__main__":
    for one in MET:
        names = [topic.name for topic in topics(one.line)]
        print(f"{score(one):8} {one.line[:90]!r}: {names}")
