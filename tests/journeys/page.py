"""Writes tutorials/reference/surroundings.md from the journeys: `make reference`.

What stands there is what the tests hold the program to: a journey that ends otherwise fails them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from journeys.reader import Journey, journeys  # noqa: E402
from journeys.surroundings import SURROUNDINGS, Surrounding  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "tutorials/reference/surroundings.md"
HEAD = """\
# What one can do where

<!-- written from tests/journeys: change a journey, then `make reference` -->

Each row is a journey: what these pages promise, typed as a user types it, with nothing set up
before but what stands there. The columns are the surroundings in which `make journeys` makes them;
those of `make test` are marked \\*. ✓: it ends as it should. A number: it is not possible there,
for the reason below, which minirun itself gives when it is tried.
Blank: it is not tried there. The first table has all journeys, the others what can differ there.
`make journeys SURROUNDINGS="user offline" JOURNEYS="publish"` makes some; it alone makes those that
need packages besides, and those that take minutes, marked ‡.

"""


def text() -> str:
    """Return the page: a table of the surroundings that make all journeys, and of each few."""
    reasons: list[str] = []
    tables = "\n".join(
        _table([each for each in SURROUNDINGS if each.few == few], reasons)
        for few in dict.fromkeys(each.few for each in SURROUNDINGS)
    )
    notes = "".join(f"{number}. {reason}\n" for number, reason in enumerate(reasons, 1))
    return f"{HEAD}{tables}\n{notes}"


def _table(columns: list[Surrounding], reasons: list[str]) -> str:
    """Return surroundings, and the journeys that one of them makes."""
    made = [each for each in journeys() if any(where.makes(each) for where in columns)]
    rows = "".join(_row(journey, columns, reasons) for journey in made)
    words = "".join(f"- **{each.name}**: {each.words}\n" for each in columns)
    names = " | ".join(
        f"{each.name}{chr(92) + '*' if each.in_every_test else ''}" for each in columns
    )
    return f"{words}\n| journey | {names} |\n|---|{'---|' * len(columns)}\n{rows}"


def _row(journey: Journey, columns: list[Surrounding], reasons: list[str]) -> str:
    cells = [_cell(journey, each, reasons) for each in columns]
    place = f"../../tests/journeys/table/{journey.name}.session"
    mark = " ‡" if journey.needs or journey.is_long else ""
    return f"| [{journey.title}]({place}){mark} | {' | '.join(cells)} |\n"


def _cell(journey: Journey, where: Surrounding, reasons: list[str]) -> str:
    if not where.makes(journey):
        return ""
    other = journey.otherwise.get(where.name)
    if not other:
        return "✓"
    if other.reason not in reasons:
        reasons.append(other.reason)
    return str(reasons.index(other.reason) + 1)


if __name__ == "__main__":
    PAGE.write_text(text())
