"""Where the names of arrows stand in a picture: beside their own arrow, and at no other.

    │ RUN_HOOKS ╷          A name begins at its arrow. It lies on no other name, and no named arrow
    │           ╷          runs through it; an arrow without a name is interrupted where a name
    ▼           ▼          stands. A name that has no such place is left out.

The page does the same, at any zoom: page/labels.js.
"""

from typing import NamedTuple

_GAP = 5
"""From an arrow to its name, and between two names."""


class Arrow(NamedTuple):
    """An arrow between two lanes, whose numbers count from the top."""

    x: float
    upper: int
    lower: int
    width: float
    """Of its name; 0 if it has none."""
    up: bool = False
    """True if its head is at the upper lane."""


class Label(NamedTuple):
    """The place of a name: from its arrow to the name's end, in a row below the upper lane."""

    left: float
    right: float
    lane: int
    row: int
    follows: bool
    """True if it stands on the right of its arrow."""


def place(
    arrows: list[Arrow], first: list[int], rows: int, edges: tuple[float, float]
) -> dict[int, Label]:
    """Return the places of names, by the arrow's number.

    `first`: the numbers of those that are placed before the others. `rows`: how many there are
    below the first lane; below every other one there is one.
    """
    found: dict[int, Label] = {}
    others = [at for at, arrow in enumerate(arrows) if arrow.width and at not in first]
    for at in (*first, *others):
        free = [label for label in _around(arrows[at], rows, edges) if _is_free(label, at, arrows)]
        free = [label for label in free if not any(_touch(label, one) for one in found.values())]
        if free:
            found[at] = min(free, key=lambda label: len(crossed(label, at, arrows)))
    return found


def _around(arrow: Arrow, rows: int, edges: tuple[float, float]) -> list[Label]:
    """Return the places beside an arrow that are in the picture; those on the right come first."""
    left, right = arrow.x - _GAP - arrow.width, arrow.x + _GAP + arrow.width
    count = rows if arrow.upper == 0 else 1
    found = [Label(arrow.x, right, arrow.upper, row, True) for row in range(count)]
    found += [Label(left, arrow.x, arrow.upper, row, False) for row in range(count)]
    return [label for label in found if edges[0] <= label.left and label.right <= edges[1]]


def _is_free(label: Label, own: int, arrows: list[Arrow]) -> bool:
    """Return True if no other arrow with a name runs through a place, or ends it closely.

    Below the first lane names stand lower than the heads of arrows; elsewhere no head may be there.
    """
    left = label.left if label.follows else label.left - _GAP
    right = label.right + _GAP if label.follows else label.right
    return not any(
        at != own and arrow.upper <= label.lane < arrow.lower and left <= arrow.x <= right
        and (arrow.width or (arrow.up and 0 < arrow.upper == label.lane))
        for at, arrow in enumerate(arrows)
    )  # fmt: skip


def _touch(one: Label, other: Label) -> bool:
    beside = (one.lane, one.row) == (other.lane, other.row)
    return beside and one.left < other.right + _GAP and other.left < one.right + _GAP


def crossed(label: Label, own: int, arrows: list[Arrow]) -> list[int]:
    """Return the numbers of the arrows that a name interrupts."""
    return [
        at
        for at, arrow in enumerate(arrows)
        if at != own and arrow.upper <= label.lane < arrow.lower
        and label.left - 1 <= arrow.x <= label.right + 1
    ]  # fmt: skip
