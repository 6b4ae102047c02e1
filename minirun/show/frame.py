"""The stepper's screen as lines: the figure, what the two are made of, what changed, last events.

It only draws: no terminal, no clock. A line is a list of (style, text); together at most `width`
columns. Shapes and words carry the meaning, so that it reads without colours and in ASCII.
"""

from collections.abc import Callable
from typing import Any

from minirun.core import gates
from minirun.core.record import Record
from minirun.show import text
from minirun.show.changed import Change
from minirun.show.face import Stop
from minirun.show.sides import sides

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
    rows: tuple[text.Row, ...] = ()
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
        if text.display_width(more) > width and rows[-1]:
            rows.append(each)
        else:
            rows[-1] = more
    return [[("keys", text.padded(row, width))] for row in rows]


def _title(view: View, width: int) -> Line:
    stop = view.stop
    where = place(view, stop) if stop else view.words["running"]
    count = view.words["stop"].format(number=stop.number) if stop else ""
    room = width - text.display_width(count) - 3
    where += f" {view.words['simulated']}" if view.simulated else ""
    where = text.fit(text.clean(where, view.unicode), room, view.unicode)
    return [("title", text.padded(f" {where}", room + 2) + f"{count} ")]


def place(view: View, stop: Stop) -> str:
    """Return where the run is held, in words."""
    if stop.at == gates.EVERY_EVENT:
        name = str(stop.gate.args.get("after", ""))
        return str(view.words["event"].format(name=name, number=stop.stage))
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
        shown = text.cut(f"{left}{name}{right}", width, "")
        return [("lit", shown), ("", " " * (width - text.display_width(shown)))]
    mark = done if number in view.done else " "
    style = "bold" if number in view.done else "dim"
    return [(style, text.padded(text.cut(mark + name, width, ""), width))]


def _rule(words: str, width: int, unicode: bool) -> Line:
    dash = "─" if unicode else "-"
    head = f"{dash * 2} {words} "
    return [("rule", head + dash * (width - text.display_width(head)))]


def _changed(view: View, width: int, room: int) -> list[Line]:
    """Return what changed, in at most `room` lines with its head."""
    words, stop = view.words, view.stop
    head = words["first" if not stop or stop.number == 1 else "changed"]
    found = [_rule(head, width, view.unicode)]
    if not stop or not stop.changes:
        return [*found, [("dim", f"  {words['nothing']}")]]
    changes = stop.changes
    shares = _shares([len(c.new) + len(c.gone) for c in changes], room - 1)
    for change, share in zip(changes, shares, strict=True):
        found += _change(view, change, share, width)
    return found


def _shares(counts: list[int], room: int) -> list[int]:
    """Give each kind a line, then the rest in turns to those that have more to show."""
    shares = [1 if index < room else 0 for index in range(len(counts))]
    left = room - sum(shares)
    while left > 0 and any(s < c for s, c in zip(shares, counts, strict=True)):
        for index, count in enumerate(counts):
            if left and shares[index] < count:
                shares[index] += 1
                left -= 1
    return shares


def _change(view: View, change: Change, share: int, width: int) -> list[Line]:
    label = view.words["points" if change.kind == "mounts" else change.kind]
    head = text.padded(f"  {label}", 14)
    items = [("new", f"+ {line}") for line in sorted(change.new, key=_usual)]
    items += [("gone", f"- {line}") for line in change.gone]
    if share >= len(items):
        shown: list[Line] = [[item] for item in items]
    else:
        shown = _flowing(change, share, width - 14, view.unicode)
    shown = [[("bold", head if not at else " " * 14), *line] for at, line in enumerate(shown)]
    return shown[:share]


def _flowing(change: Change, share: int, width: int, unicode: bool) -> list[Line]:
    """Return how many came and went, and as many names as have room in `share` lines."""
    found: list[Line] = []
    for style, sign, items in (("new", "+", change.new), ("gone", "-", change.gone)):
        room = share - len(found) - (1 if style == "new" and change.gone and share > 1 else 0)
        if not items or room < 1:
            continue
        short = change.kind in ("mounts", "files", "namespaces")
        names = [text.clean(each, unicode) for each in sorted(items, key=_usual)]
        names = [each.split(" ")[0] for each in names] if short else names
        rows = text.wrap(", ".join(names), width, f"{sign}{len(items)} ", "   ")
        if len(rows) > room:
            dots = text.dots(unicode)
            rows[room - 1] = text.cut(rows[room - 1], width - len(dots) - 1, "") + f" {dots}"
        found += [[(style, row)] for row in rows[:room]]
    return found


def _usual(line: str) -> int:
    """Return how far behind a line is to stand: what a reader looks for comes first."""
    device = line.partition("/dev/nvidia")[2]
    path = line.split(" ")[0]
    if device[:1].isdigit() or "/libcuda.so" in path or path.endswith("/nvidia-smi"):
        return 0
    return 1 if "nvidia" in line and path.startswith("/dev/") else 2


def _events(view: View, width: int, room: int) -> list[Line]:
    rows = [row for row in view.rows if row.kind != "gate"][-(room - 1) :] if room > 1 else []
    found = [_rule(view.words["events"], width, view.unicode)]
    for row in rows:
        style = row.actor if row.kind != "begin" else "bold"
        pieces = text.columns(row, width, unicode=view.unicode)
        found.append([(style, "".join(part for _, part in pieces))])
    return found


def notes(view: View, width: int) -> list[Line]:
    """Return the caption, and what was just said, above the keys."""
    found: list[Line] = []
    if view.caption:
        caption = text.clean(view.caption, view.unicode)
        mark = "» " if view.unicode else "> "
        rows = text.wrap(caption, width - 1, mark, "  ")
        found += [[("caption", row)] for row in rows[:4]]
    if view.message:
        found.append([("bold", text.clean(view.message, view.unicode))])
    return found or [[]]


def _large(view: View, width: int, room: int) -> list[Line]:
    """Return the same for a projector: few words."""
    stop, words = view.stop, view.words
    found: list[Line] = [[], *figure(view, width), []]
    digit = _DIGITS.get(str(view.lit))
    where = place(view, stop) if stop else words["running"]
    told = text.wrap(text.clean(where, view.unicode), width - 12)
    if digit and view.unicode:
        beside = ["", *told, "", ""]
        found += [
            [("lit", f" {row} "), ("bold", f"   {beside[at]}")] for at, row in enumerate(digit)
        ]
    else:
        found += [[("lit", f" {view.lit or ' '} "), ("bold", f"   {told[0]}")]]
        found += [[("bold", f"      {row}")] for row in told[1:]]
    found.append([])
    for change in stop.changes if stop else []:
        label = words["points" if change.kind == "mounts" else change.kind]
        line: Line = [("bold", text.padded(f"   {label}", 16))]
        line += [("new", f"+{len(change.new)}  ")] if change.new else []
        line += [("gone", f"-{len(change.gone)}  ")] if change.gone else []
        first = sorted(change.new or change.gone, key=_usual)[0]
        exact = change.kind in ("nodes", "rules", "processes")
        found += [[*line, ("", first if exact else first.split(" ")[0])], []]
    return found[:room]


def _within(line: Line, width: int, view: View) -> Line:
    """Clean a line, and cut it at `width` columns."""
    found: Line = []
    room = width
    clean: Callable[[str, bool], str] = text.clean
    for style, part in line:
        shown = clean(part, view.unicode)
        if text.display_width(shown) > room:
            shown = text.cut(shown, room, text.dots(view.unicode)) if room > 3 else ""
        room -= text.display_width(shown)
        found.append((style, shown))
    return found
