"""The axis of time: linear, with breaks for what would drown the rest."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minirun.faces.show.log.axis import Axis
from minirun.faces.show.log.event import event_of
from minirun.faces.show.log.recording import Recording

MS = 1_000_000
START = 7_000_000_000


def at(*milliseconds: float, **more: Any) -> Recording:
    base = {"id": "c", "stage": 1, "actor": "init", "pid": 1, "kind": "note", "name": "n"}
    rest = {"args": {}, "ret": 0, "errno": None, "dur": 0, "why": ""} | more
    return Recording(
        "c", [event_of({**base, **rest, "t": START + int(ms * MS)}) for ms in milliseconds]
    )


def test_a_short_run_is_linear() -> None:
    axis = Axis([at(0, 6, 19, 24)])
    assert axis.breaks == []
    assert axis.place(START + 6 * MS) == 0.25
    assert [tick.label for tick in axis.ticks(480)] == ["0 ms", "5 ms", "10 ms", "15 ms", "20 ms"]


def test_hours_in_which_nothing_happened_are_cut_short() -> None:
    axis = Axis([at(0, 10, 20, 3_600_020, 3_600_030)])
    assert axis.breaks == [(START + 20 * MS, START + 3_600_020 * MS)]
    left, right = (axis.place(t) for t in axis.breaks[0])
    assert 0.6 < left < right < 0.7
    assert axis.place(START + 3_600_030 * MS) == 1.0


def test_containers_made_one_after_the_other_have_breaks_between_them() -> None:
    axis = Axis([at(*range(start, start + 20, 4)) for start in (0, 1000, 2000)])
    assert len(axis.breaks) == 2


def test_a_call_begins_before_it_is_logged() -> None:
    axis = Axis([at(10, 20, kind="syscall", dur=4 * MS)])
    assert axis.start == START + 6 * MS


def test_no_event_and_one_event_have_an_axis() -> None:
    assert Axis([Recording("c", [])]).place(0) == 0
    assert Axis([at(3)]).place(START + 3 * MS) == 0
    assert Axis([at(3)]).ticks(900)


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=40))
def test_places_keep_the_order_of_time(moments: list[int]) -> None:
    axis = Axis([at(*(moment / MS for moment in moments))])
    places = [axis.place(START + moment) for moment in sorted(moments)]
    assert places == sorted(places)
    assert places[0] >= 0 and places[-1] <= 1
    width = 900
    marks = [axis.place(axis.start + tick.t) * width for tick in axis.ticks(width)]
    assert all(b - a >= 89 for a, b in pairwise(marks))
    assert len(marks) <= 11
