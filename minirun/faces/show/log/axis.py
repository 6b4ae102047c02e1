"""The axis of time that pictures of recordings share.

A container is made in some 20 ms, may then run for hours, and is removed in 1 ms. On a linear axis
nothing would be seen. So the axis is linear, but a gap in which nothing happened, and which is
longer than all the shorter gaps together, is cut down to a small width: a break, with its true
length written on it.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from minirun.faces.show.log.event import began as began
from minirun.faces.show.log.recording import Recording

LEAST = 20_000_000
"""A gap below 20 ms is never cut."""
BREAK = 0.08
"""The width of a break, as a share of all the time that is drawn to scale."""
_ROOM = 90.0
"""Between two ticks, in the units of the axis's width."""


class Tick(NamedTuple):
    """A mark on the axis: nanoseconds since the first event, and its label."""

    t: int
    label: str


class Axis:
    """Maps nanoseconds (CLOCK_MONOTONIC) to places from 0 to 1.

    `start`: the first moment. `breaks`: the gaps (begin, end) that are cut short. `knots`: pairs
    (nanoseconds since `start`, place) between which the axis is linear.
    """

    def __init__(self, recordings: list[Recording]) -> None:
        events = [event for recording in recordings for event in recording.events]
        moments = sorted({e.t for e in events} | {e.t - began(e) for e in events}) or [0]
        self.start = moments[0]
        self.breaks = _long_gaps(moments)
        span = moments[-1] - moments[0]
        drawn = (span - sum(end - begin for begin, end in self.breaks)) or 1
        whole = drawn * (1 + BREAK * len(self.breaks))
        self.knots = [(0, 0.0)]
        place, since = 0.0, self.start
        for begin, end in self.breaks:
            place += (begin - since) / whole
            self.knots.append((begin - self.start, place))
            place, since = place + BREAK * drawn / whole, end
            self.knots.append((end - self.start, place))
        self.knots.append((span or 1, 1.0))
        self.scale = 1 / whole
        """Places per nanosecond, outside the breaks."""

    def place(self, t: int) -> float:
        """Return where the moment `t` lies, 0 to 1."""
        since = max(0, min(t - self.start, self.knots[-1][0]))
        index = max(1, min(bisect_right(self.knots, (since, 2.0)), len(self.knots) - 1))
        (t0, place0), (t1, place1) = self.knots[index - 1], self.knots[index]
        return min(1.0, place0 + (place1 - place0) * (since - t0) / ((t1 - t0) or 1))

    def ticks(self, width: float) -> list[Tick]:
        """Return round times with room between them on an axis of `width`; none near breaks."""
        step = _round_up(_ROOM / (width * self.scale))
        middles = [(self.place(begin) + self.place(end)) / 2 * width for begin, end in self.breaks]
        found: list[Tick] = []
        last = -_ROOM
        for (t0, _), (t1, _) in zip(self.knots[::2], self.knots[1::2], strict=True):
            for t in range(-(-t0 // step) * step, t1 + 1, step):
                x = self.place(self.start + t) * width
                if x - last >= _ROOM * 0.99 and all(abs(x - m) > _ROOM * 0.8 for m in middles):
                    found.append(Tick(t, f"{t / 1e6:.10g} ms"))
                    last = x
        return found


def _long_gaps(moments: list[int]) -> list[tuple[int, int]]:
    gaps = sorted((b - a, a, b) for a, b in pairwise(moments))
    total = 0
    for index, (length, _, _) in enumerate(gaps):
        if length > max(total, LEAST):
            return sorted((a, b) for _, a, b in gaps[index:])
        total += length
    return []


def _round_up(least: float) -> int:
    """Return the next of 1, 2, 5, 10, 20 … nanoseconds."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if step * factor >= least:
                return step * factor
        step *= 10
