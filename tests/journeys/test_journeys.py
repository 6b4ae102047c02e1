"""The journeys in three surroundings, which every machine can make; `make journeys` has them all.

One test is one surrounding: its Debian is made once, and its journeys are in their order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from journeys import page, reader
from journeys.run import made
from journeys.surroundings import SURROUNDINGS, Surrounding
from required import installed

EACH = [each for each in SURROUNDINGS if each.in_every_test]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("where", EACH, ids=lambda where: where.name)
def test_what_is_promised_holds(where: Surrounding) -> None:
    for program in ("slirp4netns", "mmdebstrap"):
        installed(program)
    todo = [each for each in reader.journeys() if not each.needs and not each.is_long]
    found = list(made(where, todo))
    assert "\n\n".join(outcome.why for _, outcome in found if outcome.word == "failed") == ""
    assert len(found) > 20


def test_the_page_is_what_the_journeys_say() -> None:
    assert page.PAGE.read_text() == page.text(), "make reference"


def test_the_pages_that_promise_a_journey_are_there() -> None:
    top = Path(__file__).parents[2]
    there = {path.name for path in (*top.glob("*.md"), *(top / "tutorials").rglob("*.md"))}
    named = {name for each in reader.journeys() for name in each.promised}
    assert {name for name in named if Path(name).name not in there} == set()


def test_a_journey_names_surroundings_that_there_are() -> None:
    names = {each.name for each in SURROUNDINGS}
    for journey in reader.journeys():
        assert {*journey.only, *journey.otherwise} <= names, journey.name


SESSION = """# A title
# promised in README.md
# needs podman uidmap

$ for each in 1 2; do
>     echo $each
> done
1
2
root# false
[1]

# not possible in user offline: a bridge
# is root's
$ minirun
no
[125]
"""


def test_a_session_is_read() -> None:
    journey = reader.read("x", SESSION)
    assert journey.title == "A title" and journey.needs == ("podman", "uidmap")
    assert journey.steps == (
        reader.Step(5, "for each in 1 2; do\n    echo $each\ndone", "1\n2"),
        reader.Step(10, "false", "", 1, is_roots=True),
    )
    no = reader.Otherwise("a bridge is root's", (reader.Step(15, "minirun", "no", 125),))
    assert journey.otherwise == {"user": no, "offline": no}


def test_a_lesson_is_typed() -> None:
    text = "# A\n# promised in b\n# takes minutes\n# types 01-process.en.md\n"
    journey = reader.read("x", text)
    lesson = (reader.TOP / "tutorials/01-process.en.md").read_text()
    assert journey.is_long and len(journey.steps) == lesson.count("```shell")
    line = lesson.splitlines()[journey.steps[1].line - 1]
    assert journey.steps[1].command.startswith(line) and journey.steps[1].expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$ ls\n", "x:1: a title"),
        ("# A\n$ ls\n", "page that promises"),
        ("# A\n# promised in b\n", "a session"),
        ("# A\n# promised in b\nls\n", "x:3: text above the first command: ls"),
        ("# A\n# promised in b\n$ ls\n# not possible in c: d\n", "not possible in c: no command"),
    ],
)
def test_another_form_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        reader.read("x", text)
