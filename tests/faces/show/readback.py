"""Views, read back: which arrows are drawn, from which lane to which, when, and what stands where.

Of lines on a terminal, of the still picture (SVG), and of the page in a browser: as a file, live,
and in a notebook.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from xml.etree import ElementTree

from faces.show.browser import Browser
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.event_row import STAGES
from minirun.faces.show.log.recording import Recording

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


# --- the page -----------------------------------------------------------------------------------

_PLACES = """[...document.querySelectorAll('#lanes .recording')].map((one) =>
    [...one.querySelectorAll('.event')].map((event) =>
        [Number(event.id.split('-')[2]), event.transform.baseVal[0].matrix.e]))"""
_ARROWS = """[...document.querySelectorAll('#lanes .recording')].map((one) => {
    const names = [...one.querySelectorAll('.name')];
    const bands = names.map((name) => [name.textContent, name.getBoundingClientRect()]);
    const at = (y) => bands.find(([, box]) => box.top - 1 <= y && y <= box.bottom + 1)?.[0];
    return [...one.querySelectorAll('.event:has(.arrow)')].map((event) => {
        const shaft = event.querySelector('.arrow').getBoundingClientRect();
        const tip = event.querySelector('.solid').getBoundingClientRect();
        const ends = [at(shaft.top), at(shaft.bottom)];
        if (tip.top + tip.bottom < shaft.top + shaft.bottom) ends.reverse();
        return [...ends, event.ariaLabel.split(/[ ,]/)[0], shaft.left + shaft.width / 2] }) })"""


def places_on(page: Browser, number: int = 0) -> list[float]:
    """Return how far to the right each event of a recording stands, in the order of the table."""
    return [place for _, place in sorted(page.run(_PLACES)[number])]


def arrows_on(page: Browser, number: int = 0) -> list[Arrow]:
    """Return the arrows of a recording, from left to right."""
    drawn = sorted(page.run(_ARROWS)[number], key=lambda arrow: float(arrow[3]))
    return [Arrow(*arrow[:3]) for arrow in drawn]


def children(found: Recording) -> Iterator[tuple[int, list[int]]]:
    """Yield where each birth stands among the events, and where what that child did."""
    for at, event in enumerate(found.events):
        born = event.ret if event.kind == "syscall" and event.name in ("clone3", "clone") else 0
        if born and not event.errno:
            yield at, [n for n, each in enumerate(found.events) if each.pid == born]


def unborn(found: Recording, places: list[float]) -> list[str]:
    """Return the events that stand left of the birth of the process that did them."""
    return [
        f"{found.events[act].actor} {found.events[act].name} at {places[act]:.1f},"
        f" born at {places[birth]:.1f}"
        for birth, acts in children(found)
        for act in acts
        if places[act] < places[birth] - 0.05
    ]


def told_late(found: Recording, written: list[Event]) -> int:
    """Return how many events of a log stand above the birth of their process, as it was written."""
    at = {id(event): number for number, event in enumerate(written)}
    return sum(
        at[id(found.events[act])] < at[id(found.events[birth])]
        for birth, acts in children(found)
        for act in acts
    )


# --- the still picture --------------------------------------------------------------------------

_SVG = "{http://www.w3.org/2000/svg}"


def bars_in(picture: str) -> dict[str, list[float]]:
    """Return the left ends of the bars of each lane of a figure.svg."""
    tree = ElementTree.fromstring(picture)
    lanes = {
        float(one.get("y", 0)): one.text or ""
        for one in tree.iter(f"{_SVG}text") if one.get("font-weight") == "600"
    }  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in lanes.values()}
    for path in tree.iter(f"{_SVG}path"):
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)h[\d.]+v16H", path.get("d", "")):
            name = next(lane for at, lane in lanes.items() if abs(at - float(y) - 12) < 1)
            found[name].append(float(x))
    return found


@contextmanager
def busy() -> Iterator[None]:
    """Keep every processor busy: who is on the way out of a call is then held up now and then."""
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for load in loads:
            load.kill()
            load.wait()
