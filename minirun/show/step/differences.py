"""What changed since the last stop, as lines of the stepper's screen: as much as has room."""

from minirun.show.compare.snapshots import LineDifference
from minirun.show.text import event_row

_KEPT = "\0"
"""A blank at which no line is broken. No line has one: it is cleaned."""


def lines(
    changes: list[LineDifference], words: dict[str, str], width: int, room: int, *, unicode: bool
) -> list[list[tuple[str, str]]]:
    """Return at most `room` lines, each of (style, text); every kind has its share."""
    found = []
    shares = _shares([len(each.new) + len(each.gone) for each in changes], room)
    for change, share in zip(changes, shares, strict=True):
        found += _change(change, share, words, width, unicode)
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


def _change(
    change: LineDifference, share: int, words: dict[str, str], width: int, unicode: bool
) -> list[list[tuple[str, str]]]:
    label = words["points" if change.part == "mounts" else change.part]
    head = event_row.padded(f"  {label}", 14)
    items = [("new", f"+ {line}") for line in sorted(change.new, key=usual)]
    items += [("gone", f"- {line}") for line in change.gone]
    if share >= len(items):
        shown: list[list[tuple[str, str]]] = [[item] for item in items]
    else:
        shown = _flowing(change, share, width - 14, unicode)
    shown = [[("bold", head if not at else " " * 14), *line] for at, line in enumerate(shown)]
    return shown[:share]


def _flowing(
    change: LineDifference, share: int, width: int, unicode: bool
) -> list[list[tuple[str, str]]]:
    """Return how many came and went, and as many names as have room in `share` lines."""
    found: list[list[tuple[str, str]]] = []
    for style, sign, items in (("new", "+", change.new), ("gone", "-", change.gone)):
        room = share - len(found) - (1 if style == "new" and change.gone and share > 1 else 0)
        if not items or room < 1:
            continue
        short = change.part in ("mounts", "files", "namespaces")
        names = [event_row.clean(each, unicode) for each in sorted(items, key=usual)]
        names = [_short(each, width, unicode) for each in names] if short else names
        whole = ", ".join(name.replace(" ", _KEPT) for name in names)
        rows = event_row.wrap(whole, width, f"{sign}{_count(items)} ", "   ")
        rows = [row.replace(_KEPT, " ") for row in rows]
        if len(rows) > room:
            dots = event_row.dots(unicode)
            rows[room - 1] = event_row.cut(rows[room - 1], width - len(dots) - 1, "") + f" {dots}"
        found += [[(style, row)] for row in rows[:room]]
    return found


def _short(line: str, width: int, unicode: bool) -> str:
    """Return the path alone, and of a long one the last name."""
    path = line.split(" ")[0]
    if path.isdecimal():
        return line  # 20 mounts of the host
    if len(path) <= width // 3:
        return path
    return f"{event_row.dots(unicode)}/{path.rstrip('/').rpartition('/')[2]}"


def usual(line: str) -> int:
    """Return how far behind a line is to stand: what a reader looks for comes first."""
    device = line.partition("/dev/nvidia")[2]
    path = line.split(" ")[0]
    if device[:1].isdigit() or "/libcuda.so" in path or path.endswith("/nvidia-smi"):
        return 0
    return 1 if "nvidia" in line and path.startswith("/dev/") else 2


def _count(items: list[str]) -> int:
    """Return how many there are; mounts of the host stand together in one line."""
    heads = [each.split(" ")[0] for each in items]
    return sum(int(head) if head.isdecimal() else 1 for head in heads)
