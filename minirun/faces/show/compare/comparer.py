"""A difference, and the one function that finds them: of two snapshots, and of two starts.

Both sides are parts: a kind of facts of a snapshot, an actor in a stage of a start. A part has
items: lines, or events. Each item comes with what is compared of it, since not all is: a pid says
nothing of what a start does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Generic, NamedTuple, TypeVar

P = TypeVar("P", bound=Hashable)
T = TypeVar("T")
ComparedSide = Mapping[P, Sequence[tuple[Hashable, T]]]
"""Part → its items, each after what is compared of it."""


class PartDifference(NamedTuple, Generic[P, T]):
    """What one part has on one side only."""

    part: P
    gone: list[T]
    """Only the first has them: < in diff(1)."""
    new: list[T]
    """Only the second has them: > in diff(1)."""


def compare(
    first: ComparedSide[P, T], second: ComparedSide[P, T], *, in_order: bool = False
) -> list[PartDifference[P, T]]:
    """Return the differences, part by part; parts that are equal have none.

    Without an order, equal items are the same wherever they stand, as often as both sides have
    them, and a part has one difference. In order, they are the same if those around them are, as
    diff(1) compares lines: a part has a difference for each place.
    """
    found = []
    for part in {**first, **second}:
        old, new = first.get(part, ()), second.get(part, ())
        keys = [key for key, _ in old], [key for key, _ in new]
        for gone, came in (_in_order if in_order else _counted)(*keys):
            items = [old[at][1] for at in gone], [new[at][1] for at in came]
            found.append(PartDifference(part, *items))
    return found


Keys = Sequence[Hashable]
Places = Sequence[int]


def _in_order(old: Keys, new: Keys) -> Iterator[tuple[Places, Places]]:
    """Yield the places that differ, in runs."""
    for how, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if how != "equal":
            yield range(a, b), range(c, d)


def _counted(old: Keys, new: Keys) -> Iterator[tuple[Places, Places]]:
    """Yield the places of what the other has not as often, once, if there are any."""
    gone, came = _surplus(old, new), _surplus(new, old)
    if gone or came:
        yield gone, came


def _surplus(keys: Keys, others: Keys) -> list[int]:
    left: Counter[Any] = Counter(others)
    own = []
    for at, key in enumerate(keys):
        if left[key]:
            left[key] -= 1
        else:
            own.append(at)
    return own
