"""The stepper's screen, drawn with rich: the figure, both processes, what changed, last events.

It only draws: no terminal, no clock. Shapes and words carry the meaning, so that it reads without
colours. The shapes are Unicode's; a terminal without it gets others (minirun.faces.show.step.tty).
"""

from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from minirun.common.rich_console import text
from minirun.common.screen import display_width, speaks_unicode
from minirun.core import gates
from minirun.core.keeping.record import Record
from minirun.faces.inspect.snapshot import Snapshot
from minirun.faces.show.compare.snapshots import LineDifference
from minirun.faces.show.log import event_row
from minirun.faces.show.step import differences, sides
from minirun.faces.show.step.face import Stop
from minirun.faces.show.text import lanes

Drawn = list[list[Segment]]
"""Each line as rich's pieces: a text and its style."""

STYLES = {
    "title": "bold reverse", "lit": "bold reverse", "rule": "bold", "keys": "reverse",
    "caption": "bold yellow", "new": "green", "gone": "red", "exec": "blue", "found": "reverse",
    **{actor: f"color({int(sgr) - 30})" for actor, sgr in lanes.SGR_COLOURS.items()},
}  # fmt: skip
"""Name of a style → how it looks, in rich's words; SGR 30 to 37 are its colours 0 to 7."""
_ABOVE = (1, 3, 4, 5, 6)
"""Stages in the runtime's lane; the others are init's."""
_MARGIN = 8
_ROOMY = 10
"""Columns of a stage that has room for blanks."""
_FACTS = 5
"""Drawn of what both processes are made of, below their names."""
_DIGITS = {
    "1": (" ▄█ ", "  █ ", "  █ ", " ▄█▄"), "2": ("▄▀▀▄", "  ▄▀", "▄▀  ", "█▄▄▄"),
    "3": ("▀▀▀█", " ▀▀▄", "   █", "▀▄▄▀"), "4": ("█  █", "█▄▄█", "   █", "   █"),
    "5": ("█▀▀▀", "▀▀▀▄", "   █", "▀▄▄▀"), "6": ("▄▀▀ ", "█▄▄ ", "█  █", "▀▄▄▀"),
    "7": ("▀▀▀█", "  ▄▀", " ▄▀ ", " █  "),
}  # fmt: skip
_ARROWS = (
    (1, "birth", "▼ clone"), (2, "RUN_HOOKS", "▲ RUN_HOOKS"), (6, "HOOKS_DONE", "▼ HOOKS_DONE"),
)  # fmt: skip
"""Stage, name in View.messages, and what is drawn."""


class View(Record):
    """What is to be drawn."""

    words: dict[str, Any]
    """minirun.faces.knowledge.words(…)["screen"]."""
    titles: dict[int, str]
    """Stage → what happens in it."""
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


def screen(view: View, console: Console) -> Drawn:
    """Return the whole screen, for a console of its size."""
    words = view.words["played" if view.played else "fewkeys" if view.large else "keys"]
    foot = lines(console, notes(view), keys(words))[1 - console.height :]
    room = console.height - len(foot)
    body = _large(view, console) if view.large else _body(view, console, room)
    return [*body[:room], *[[]] * (room - len(body)), *foot]


def lines(console: Console, *parts: RenderableType) -> Drawn:
    """Return parts as lines. Where a text says nothing else, it is one line, cut if need be."""
    options = console.options.update(no_wrap=True, overflow="ellipsis")
    return console.render_lines(Group(*parts), options)


def _body(view: View, console: Console, room: int) -> Drawn:
    words, stop, width = view.words, view.stop, console.width
    count = text(words["stop"].format(number=stop.number) if stop else "")
    where = where_of(view, width - count.cell_len - 3)
    parts: list[RenderableType] = [bar(text(f" {where}"), count), *figure(view, width)]
    parts += [_sides(stop.snapshot, words, width)] if stop else []
    head = words["first" if not stop or stop.number == 1 else "changed"]
    above = lines(console, *parts, _rule(head))
    rest = room - len(above) - 1
    changed = lines(console, _changed(view, width, rest - max(3, rest * 2 // 5)))
    last = events(view.rows, width, rest - len(changed))
    return above + changed + lines(console, _rule(words["events"]), *last)


def _sides(taken: Snapshot, words: dict[str, Any], width: int) -> Table:
    """Return what both processes are made of: the runtime on the left, init on the right."""
    found = Table.grid(expand=True)
    for _ in range(2):
        found.add_column(ratio=1, no_wrap=True)
    found.add_row(_rule("runtime", "runtime"), _rule("init", "init"))
    both = sides.runtime(taken, words), sides.init(taken, words, width // 2 - 3)
    for pair in zip(*((facts + [""] * _FACTS)[:_FACTS] for facts in both), strict=True):
        found.add_row(*(text(f"  {fact}") for fact in pair))
    return found


def _rule(words: str, style: str = "rule") -> Rule:
    return Rule(Text(f"── {words}", style), align="left", style=style)


def keys(words: str) -> Padding:
    """Return what the keys mean, in as many lines as it takes; `words`: "n next|c continue"."""
    found = Columns(map(text, words.split("|")), padding=(0, 2))
    return Padding(found, style="keys")


def bar(left: Text, right: Text) -> Table:
    """Return a title: of the left text as much as has room beside the right one."""
    found = Table.grid(expand=True)
    found.add_column(ratio=1, no_wrap=True)
    found.add_column(no_wrap=True)
    found.add_row(left, Text.assemble(" ", right, " "), style="title")
    return found


def where_of(view: View, room: int = 0) -> str:
    """Return where the run is held, or that it goes on; and that the GPUs are SIMULATED, if so.

    `room`: columns; 0 for as many as it takes.
    """
    mark = f" {view.words['simulated']}" if view.simulated else ""
    rest = room - display_width(mark) if room else 0
    return (place(view, view.stop, rest) if view.stop else str(view.words["running"])) + mark


def place(view: View, stop: Stop, room: int = 0) -> str:
    """Return where the run is held, in words; of an event as much as fits into `room` columns."""
    if stop.at == gates.EVERY_EVENT:
        around = display_width(view.words["event"].format(name="", number=stop.stage))
        after = stop.after(max(1, room - around) if room else 0)
        return str(view.words["event"].format(name=after, number=stop.stage))
    number, edge = stop.at.split(":")
    what = view.titles[int(number)]
    form = view.words["before" if edge == "begin" else "after"]
    return str(form.format(number=number, what=what))


def figure(view: View, width: int) -> tuple[Text, Text, Text]:
    """Return Figure 3: the stages in the lanes of those who carry them out; the arrows between."""
    cell = min((width - _MARGIN) // 7, 18)
    above, below, between = text(""), text(""), text("")
    for lane, actor in ((above, "runtime"), (below, "init")):
        lane.append(f"{actor:<{_MARGIN}}", actor)
    for number in range(1, 8):
        mine, other = (above, below) if number in _ABOVE else (below, above)
        mine.append_text(_cell(view, number, cell))
        other.append(" " * cell)
    for number, name, sign in _ARROWS:
        between.pad_right(_MARGIN + (number - 1) * cell + 1 - between.cell_len)
        between.append(sign, "bold" if name in view.messages else "dim")
    return above, between, below


def _cell(view: View, number: int, width: int) -> Text:
    name = f"{number}{' ' if width >= _ROOMY else ''}{view.words['names'].split('|')[number - 1]}"
    done = number in view.done
    if number == view.lit:
        found = Text.assemble((f"▶{name}◀", "lit"))
    else:
        found = Text(f"{'✓' if done else ' '}{name}", "bold" if done else "dim")
    found.truncate(width, overflow="crop", pad=True)
    return found


def _changed(view: View, width: int, room: int) -> RenderableType:
    """Return what changed, in at most `room` lines."""
    changes = view.stop.changes if view.stop else []
    if not changes:
        return text(f"  {view.words['nothing']}", "dim")
    return differences.table(changes, view.words, width, room)


def events(rows: tuple[event_row.Row, ...], width: int, room: int) -> list[Text]:
    """Return the last events, in at most `room` lines."""
    unicode = speaks_unicode()
    found = []
    for row in [row for row in rows if row.kind != "gate"][-room:] if room > 0 else []:
        pieces = event_row.columns(row, width, unicode=unicode)
        style = "bold" if row.kind == "begin" else row.actor
        found.append(text("".join(part for _, part in pieces), style))
    return found


def notes(view: View) -> Group:
    """Return the caption, and what was just said, above the keys."""
    found: list[RenderableType] = []
    if view.caption:
        caption = Table.grid(padding=(0, 1, 0, 0))
        caption.add_row("»", text(view.caption), style="caption")
        found.append(caption)
    if view.message:
        message = text(view.message, "bold")
        message.no_wrap = False
        found.append(message)
    return Group(*found or [""])


def _large(view: View, console: Console) -> Drawn:
    """Return the same for a projector: few words."""
    digit = _DIGITS.get(str(view.lit)) if speaks_unicode() else None
    where = Table.grid(padding=(0, 0, 0, 3), pad_edge=True)
    where.add_column(no_wrap=True)
    where.add_column(vertical="middle")
    lit = text(f" {view.lit or ' '} ", "lit")
    where.add_row("\n".join(digit) if digit else lit, text(where_of(view)), style="bold")
    changes = Table.grid(padding=(0, 0, 1, 0), collapse_padding=False, expand=True)
    changes.add_column(width=16, style="bold")
    changes.add_column(min_width=5)
    changes.add_column(ratio=1, no_wrap=True)
    for change in view.stop.changes if view.stop else []:
        label = text(f"   {differences.label(change, view.words)}")
        changes.add_row(label, *_counted(change))
    return lines(console, "", *figure(view, console.width), "", where, "", changes)


def _counted(change: LineDifference) -> tuple[Text, Text]:
    """Return how many came and went, and the first of them."""
    count = Text()
    for style, sign, items in (("new", "+", change.new), ("gone", "-", change.gone)):
        count.append(f"{f'{sign}{len(items)}':<5}" if items else "", style)
    first, *others = sorted(change.new or change.gone, key=differences.usual)
    exact = change.part in ("nodes", "rules", "processes")
    shown = first if exact else first.split(" ")[0]
    return count, text(shown + (", …" if others else ""))
