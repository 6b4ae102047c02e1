"""What changed since the last stop, as lines of the stepper's screen: as much as has room."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from minirun.common import screen
from minirun.common.rich_console import text
from minirun.core.keeping.numbers import whole
from minirun.faces.show.compare.snapshots import LineDifference
from minirun.faces.show.log import event_row

_KEPT = "\0"
"""A blank at which no line is broken. No line has one: it is cleaned."""
_LABEL = 14
"""Columns of what a kind is called."""


def table(changes: list[LineDifference], words: dict[str, str], width: int, room: int) -> Table:
    """Return at most `room` lines; every kind has its share."""
    found = Table.grid()
    found.add_column(width=_LABEL, style="bold")
    shares = _shares([len(each.new) + len(each.gone) for each in changes], room)
    for change, share in zip(changes, shares, strict=True):
        if share:
            items = _items(change, share, width - _LABEL)
            found.add_row(text(f"  {label(change, words)}"), Group(*items))
    return found


def label(change: LineDifference, words: dict[str, str]) -> str:
    """Return what a kind is called."""
    return words["points" if change.part == "mounts" else change.part]


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


def _items(change: LineDifference, share: int, width: int) -> list[Text]:
    """Return each in a line; or, in `share` lines, how many came and went, and some names."""
    if len(change.new) + len(change.gone) > share:
        return _flowing(change, share, width)
    items = [text(f"+ {line}", "new") for line in sorted(change.new, key=usual)]
    return items + [text(f"- {line}", "gone") for line in change.gone]


def _flowing(change: LineDifference, share: int, width: int) -> list[Text]:
    found: list[Text] = []
    unicode = screen.speaks_unicode()
    dots = event_row.dots(unicode)
    for style, sign, items in (("new", "+", change.new), ("gone", "-", change.gone)):
        room = share - len(found) - (1 if style == "new" and change.gone and share > 1 else 0)
        if not items or room < 1:
            continue
        short = change.part in ("mounts", "files", "namespaces")
        names = [event_row.clean(each, unicode) for each in sorted(items, key=usual)]
        names = [_short(each, width, dots) for each in names] if short else names
        whole = ", ".join(name.replace(" ", _KEPT) for name in names)
        rows = event_row.wrap(whole, width, f"{sign}{_count(items)} ", "   ")
        rows = [row.replace(_KEPT, " ") for row in rows]
        if len(rows) > room:
            rows[room - 1] = event_row.cut(rows[room - 1], width - len(dots) - 1, "") + f" {dots}"
        found += [Text(row, style) for row in rows[:room]]
    return found


def _short(line: str, width: int, dots: str) -> str:
    """Return the path alone, and of a long one the last name."""
    path = line.split(" ")[0]
    if whole(path) is not None:
        return line  # 20 mounts of the host
    if len(path) <= width // 3:
        return path
    return f"{dots}/{path.rstrip('/').rpartition('/')[2]}"


def usual(line: str) -> int:
    """Return how far behind a line is to stand: what a reader looks for comes first."""
    device = line.partition("/dev/nvidia")[2]
    path = line.split(" ")[0]
    if device[:1].isdigit() or "/libcuda.so" in path or path.endswith("/nvidia-smi"):
        return 0
    return 1 if "nvidia" in line and path.startswith("/dev/") else 2


def _count(items: list[str]) -> int:
    """Return how many there are; mounts of the host stand together in one line."""
    heads = [whole(each.split(" ")[0]) for each in items]
    return sum(1 if head is None else head for head in heads)
