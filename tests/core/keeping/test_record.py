"""Records behave as typing.NamedTuple does, which a type checker takes them for."""

import pickle
from typing import NamedTuple

import pytest

from minirun.core.keeping.record import Record


class Point(Record):
    x: int
    y: int = 0

    @property
    def sum(self) -> int:
        return self.x + self.y


class Named(NamedTuple):
    x: int
    y: int = 0


class Reversed(Record):
    y: int
    x: int


@pytest.mark.parametrize(
    ("args", "named"),
    [((1,), {}), ((1, 2), {}), ((), {"x": 1}), ((1,), {"y": 2}), ((), {"y": 2, "x": 1})],
)
def test_is_made_as_a_named_tuple_is(args: tuple[int, ...], named: dict[str, int]) -> None:
    ours, theirs = Point(*args, **named), Named(*args, **named)
    assert tuple(ours) == tuple(theirs)
    assert (ours.x, ours.y) == (theirs.x, theirs.y)
    assert repr(ours) == repr(theirs).replace("Named", "Point")


@pytest.mark.parametrize(
    ("args", "named"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((1,), {"z": 2}), ((), {"y": 1})],
)
def test_refuses_what_a_named_tuple_refuses(args: tuple[int, ...], named: dict[str, int]) -> None:
    for kind in (Point, Named):
        with pytest.raises(TypeError):
            kind(*args, **named)


def test_is_a_tuple() -> None:
    point = Point(1, 2)
    x, y = point
    assert (x, y) == (1, 2) == point
    assert hash(point) == hash((1, 2))
    assert {point: "here"}[Point(1, 2)] == "here"
    assert Point(1, 2) < Point(1, 3)
    assert point.sum == 3


def test_cannot_be_changed() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        point.other = 2  # type: ignore[attr-defined]


def test_asdict_and_replace() -> None:
    point = Point(1, 2)
    assert point._asdict() == {"x": 1, "y": 2}
    assert point._replace(y=5) == Point(1, 5)
    assert point == Point(1, 2)
    with pytest.raises(TypeError):
        point._replace(z=1)  # type: ignore[call-arg]
    assert Point._fields == ("x", "y")


def test_fields_are_found_by_name_and_not_by_place() -> None:
    other = Reversed(x=1, y=2)
    assert (other.x, other.y) == (1, 2)
    assert tuple(other) == (2, 1)


def test_can_be_pickled_as_multiprocessing_does() -> None:
    copied = pickle.loads(pickle.dumps(Point(3, 4)))
    assert copied == Point(3, 4)
    assert type(copied) is Point
