"""The stepper's screen as lines: the figure, what the two are made of, what changed, last events.

It only draws: no terminal, no clock. A line is a list of (style, text); together at most `width`
columns. Shapes and words carry the meaning, so that it reads without colours and in ASCII.
"""

from collections.abc import Callable
from typing import Any

from minirun.core import gates
from minirun.core.keeping.record import Record
from minirun.show.step import differences
from minirun.show.step.face import Stop
from minirun.show.step.sides import sides
from minirun.show.text import event_row

Line = list[tuple[str, str]]

_ABOVE = (1, 3, 4, 5, 6)
"""Stages in the runtime's lane; the others are init's."""
_MARGIN = 8
_ROOMY = 10
"""Columns of a stage that has room for blanks."""
_SIDES = 6
"""Lines that both processes have, with their head."""
_DIGITS = {
    "1": (" ▄█ ", "  █ ", "  █ ", " ▄█▄"), "2": ("▄▀▀▄", "  ▄▀", "▄▀  ", "█▄▄▄"),
    "3": ("▀▀▀█", " ▀▀▄", "   █", "▀▄▄▀"), "4": ("█  █", "█▄▄█", "   █", "   █"),
    "5": ("█▀▀▀", "▀▀▀▄", "   █", "▀▄▄▀"), "6": ("▄▀▀ ", "█▄▄ ", "█  █", "▀▄▄▀"),
    "7": ("▀▀▀█", "  ▄▀", " ▄▀ ", " █  "),
}  # fmt: skip


class View(Record):
    """What is to be drawn."""

    words: dict[str, Any]
    """minirun.knowledge.words(…)["screen"]."""
    titles: dict[int, str]
    """Stage → what happens in it."""
    unicode: bool
    stop: Stop | None = None
    lit: int = 0
    """The stage that is lit."""
    done: tuple[int, ...] = ()
    messages: tuple[str, ...] = ()
    """Names of the arrows that have been: birth, RUN_HOOKS, HOOKS_DONE."""
    rows: tuple[event_row.Row, ...] = ()
    """The last events."""
    caption: str = ""
    message: str = ""
    large: bool = False
    played: bool = False
    """True if a script is."""
    simulated: bool = False
    """True if the GPUs are."""


def lines(view: View, width: int, height: int) -> list[Line]:
    """Return the screen, `height` lines."""
    below = notes(view, width)
    foot = keys(view.words["played" if view.played else "fewkeys" if view.large else "keys"], width)
    room = height - len(below) - len(foot)
    body = _large(view, width, room) if view.large else _body(view, width, room)
    blank: list[Line] = [[] for _ in range(room)]
    return [_within(line, width, view) for line in [*(body + blank)[:room], *below, *foot]]


def _body(view: View, width: int, room: int) -> list[Line]:
    found = [_title(view, width), *figure(view, width)]
    rest = room - len(found) - _SIDES - 2
    if view.stop:
        found += sides(view.stop.snapshot, view.words, width, view.unicode)
    else:
        rest += _SIDES
    changed = _changed(view, width, rest - max(3, rest * 2 // 5) + 1)
    return [*found, *changed, *_events(view, width, rest + 2 - len(changed))]


def keys(words: str, width: int) -> list[Line]:
    """Return what the keys mean, in as many lines as it takes; `words`: "n next|c continue"."""
    rows = [""]
    for each in words.split("|"):
        more = f"{rows[-1]}  {each}" if rows[-1] else each
        if event_row.display_width(more) > width and rows[-1]:
            rows.append(each)
        else:
            rows[-1] = more
    return [[("keys", event_row.padded(row, width))] for row in rows]


def _title(view: View, width: int) -> Line:
    stop = view.stop
    count = view.words["stop"].format(number=stop.number) if stop else ""
    room = width - event_row.display_width(count) - 3
    where = event_row.fit(event_row.clean(where_of(view, room), view.unicode), room, view.unicode)
    return [("title", event_row.padded(f" {where}", room + 2) + f"{count} ")]


def where_of(view: View, room: int = 0) -> str:
    """Return the same, or that the run goes on; and that the GPUs are SIMULATED, if they are.

    `room`: columns; 0 for as many as it takes.
    """
    mark = f" {view.words['simulated']}" if view.simulated else ""
    rest = room - event_row.display_width(mark) if room else 0
    return (place(view, view.stop, rest) if view.stop else str(view.words["running"])) + mark


def place(view: View, stop: Stop, room: int = 0) -> str:
    """Return where the run is held, in words; of an event as much as fits into `room` columns."""
    if stop.at == gates.EVERY_EVENT:
        around = event_row.display_width(view.words["event"].format(name="", number=stop.stage))
        after = stop.after(max(1, room - around) if room else 0)
        return str(view.words["event"].format(name=after, number=stop.stage))
    number, edge = stop.at.split(":")
    what = view.titles[int(number)]
    form = view.words["before" if edge == "begin" else "after"]
    return str(form.format(number=number, what=what))


def figure(view: View, width: int) -> list[Line]:
    """Return Figure 3: the stages in the lanes of those who carry them out; the arrows between."""
    cell = min((width - _MARGIN) // 7, 18)
    above: Line = [("runtime", "runtime ")]
    below: Line = [("init", "init    ")]
    for number in range(1, 8):
        mine, other = (above, below) if number in _ABOVE else (below, above)
        mine += _cell(view, number, cell)
        other.append(("", " " * cell))
    down, up = "▼▲" if view.unicode else "v^"
    marks = ((1, "birth", f"{down} clone"), (2, "RUN_HOOKS", f"{up} RUN_HOOKS"),
             (6, "HOOKS_DONE", f"{down} HOOKS_DONE"))  # fmt: skip
    between: Line = [("", " " * _MARGIN)]
    at = 0
    for number, name, sign in marks:
        column = (number - 1) * cell + 1
        between += [("", " " * (column - at)), ("bold" if name in view.messages else "dim", sign)]
        at = column + len(sign)
    return [above, between, below]


def _cell(view: View, number: int, width: int) -> Line:
    left, right, done = "▶◀✓" if view.unicode else "><+"
    names = view.words["names"].split("|")
    name = f"{number}{' ' if width >= _ROOMY else ''}{names[number - 1]}"
    if number == view.lit:
        shown = event_row.cut(f"{left}{name}{right}", width, "")
        return [("lit", shown), ("", " " * (width - event_row.display_width(shown)))]
    mark = done if number in view.done else " "
    style = "bold" if number in view.done else "dim"
    return [(style, event_row.padded(event_row.cut(mark + name, width, ""), width))]


def _rule(words: str, width: int, unicode: bool) -> Line:
    dash = "─" if unicode else "-"
    head = f"{dash * 2} {words} "
    return [("rule", head + dash * (width - event_row.display_width(head)))]


def _changed(view: View, width: int, room: int) -> list[Line]:
    """Return what changed, in at most `room` lines with its head."""
    words, stop = view.words, view.stop
    head = words["first" if not stop or stop.number == 1 else "changed"]
    found = [_rule(head, width, view.unicode)]
    if not stop or not stop.changes:
        return [*found, [("dim", f"  {words['nothing']}")]]
    changes, unicode = stop.changes, view.unicode
    return found + differences.lines(changes, words, width, room - 1, unicode=unicode)


def _events(view: View, width: int, room: int) -> list[Line]:
    rows = [row for row in view.rows if row.kind != "gate"][-(room - 1) :] if room > 1 else []
    found = [_rule(view.words["events"], width, view.unicode)]
    for row in rows:
        style = row.actor if row.kind != "begin" else "bold"
        pieces = event_row.columns(row, width, unicode=view.unicode)
        found.append([(style, "".join(part for _, part in pieces))])
    return found


def notes(view: View, width: int) -> list[Line]:
    """Return the caption, and what was just said, above the keys."""
    found: list[Line] = []
    if view.caption:
        caption = event_row.clean(view.caption, view.unicode)
        mark = "» " if view.unicode else "> "
        rows = event_row.wrap(caption, width - 1, mark, "  ")
        found += [[("caption", row)] for row in rows[:4]]
    if view.message:
        found.append([("bold", event_row.clean(view.message, view.unicode))])
    return found or [[]]


def _large(view: View, width: int, room: int) -> list[Line]:
    """Return the same for a projector: few words."""
    stop, words = view.stop, view.words
    found: list[Line] = [[], *figure(view, width), []]
    digit = _DIGITS.get(str(view.lit))
    where = where_of(view)
    told = event_row.wrap(event_row.clean(where, view.unicode), width - 12)
    if digit and view.unicode:
        beside = ["", *told, "", ""]
        found += [[("bold", f"   {row}    {beside[at]}")] for at, row in enumerate(digit)]
    else:
        found += [[("lit", f" {view.lit or ' '} "), ("bold", f"   {told[0]}")]]
        found += [[("bold", f"      {row}")] for row in told[1:]]
    found.append([])
    for change in stop.changes if stop else []:
        label = words["points" if change.part == "mounts" else change.part]
        line: Line = [("bold", event_row.padded(f"   {label}", 16))]
        line += [("new", f"{f'+{len(change.new)}':<5}")] if change.new else []
        line += [("gone", f"{f'-{len(change.gone)}':<5}")] if change.gone else []
        first = sorted(change.new or change.gone, key=differences.usual)[0]
        exact = change.part in ("nodes", "rules", "processes")
        shown = first if exact else first.split(" ")[0]
        more = f", {event_row.dots(view.unicode)}" if len(change.new or change.gone) > 1 else ""
        found += [[*line, ("", shown + more)], []]
    return found[:room]


def _within(line: Line, width: int, view: View) -> Line:
    """Clean a line, and cut it at `width` columns."""
    found: Line = []
    room = width
    clean: Callable[[str, bool], str] = event_row.clean
    for style, part in line:
        shown = clean(part, view.unicode)
        if event_row.display_width(shown) > room:
            shown = event_row.cut(shown, room, event_row.dots(view.unicode)) if room > 3 else ""
        room -= event_row.display_width(shown)
        found.append((style, shown))
    return found
