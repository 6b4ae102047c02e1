"""Views, read back: which arrows are drawn, from whom to whom, and when."""

import re
from typing import NamedTuple

from minirun.show.recording import Recording
from minirun.show.text import STAGES

_ARROW = re.compile(r" *(?P<time>[\d.]+)ms [│├](?P<shaft>[─◄► A-Za-z_0-9…-]+)[│┤]")


class Arrow(NamedTuple):
    """An arrow between the two lanes."""

    sender: str
    receiver: str
    name: str


def arrows_of(found: Recording) -> list[Arrow]:
    """Return the arrows that two lanes have: the runtime stands for its children."""
    ends = [(a.sender, a.receiver, a.name) for a in found.arrows]
    lanes = [("init" if s == "init" else "runtime", "init" if r == "init" else "runtime", name)
             for s, r, name in ends]  # fmt: skip
    return [Arrow(*each) for each in lanes if each[0] != each[1]]


def arrows_in(lines: list[str]) -> list[Arrow]:
    """Return the arrows of drawn lanes, from top to bottom."""
    found = []
    for line in lines:
        match = _ARROW.match(line)
        if match and set(match["shaft"]) & set("◄►"):
            left = "◄" in match["shaft"]
            ends = ("init", "runtime") if left else ("runtime", "init")
            found.append(Arrow(*ends, match["shaft"].strip("─◄► ")))
    return found


def times_in(lines: list[str]) -> list[float]:
    """Return the times at the beginning of lines, in milliseconds."""
    return [float(m[1]) for line in lines if (m := re.match(r" *([\d.]+)ms ", line))]


class StageLine(NamedTuple):
    """A line of the summary; `took` in milliseconds, 0 if nothing is said."""

    number: int
    actor: str
    what: str
    took: float


_STAGE = re.compile(
    r"(?P<number>[1-7]) (?P<actor>\w+) +(?P<what>.*?)(?: +(?P<took>[\d.]+)(?P<unit>µs|us|ms|s))?"
)
_MILLISECONDS = {"µs": 1e-3, "us": 1e-3, "ms": 1.0, "s": 1e3, None: 0.0}


def stages_in(lines: list[str]) -> list[StageLine]:
    """Return the lines of a summary."""
    found = [_STAGE.fullmatch(line) for line in lines if "done: " not in line]
    return [
        StageLine(int(m["number"]), m["actor"], m["what"],
                  float(m["took"] or 0) * _MILLISECONDS[m["unit"]])
        for m in found if m and m["what"] not in STAGES.values()
    ]  # fmt: skip
