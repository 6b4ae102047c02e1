"""Figure 1 of what recordings tell: containers, and the GPUs of their host that they share.

Above, each container with the nodes that stage 5 made in it; below, the host's GPUs. A line is a
node: a GPU that two lines reach is shared, one that none reaches is free.
"""

import re

from minirun.core.errors import StateError
from minirun.show import figure
from minirun.show.recording import Recording
from minirun.show.text import clean

_NODE = re.compile(r"/dev/nvidia(\d{1,4})")
_BOX, _ROW, _GAP = 150, 16, 130
"""A box's width; a line's height; the room between containers and GPUs."""
_MOST = 6
"""Boxes beside each other."""


def document(recordings: list[Recording]) -> str:
    """Return the figure as an SVG file. Raises StateError if no container got a GPU."""
    given = {each.id: _gpus(each) for each in recordings}
    there = max((_host(each) for each in recordings), default=0)
    numbers = sorted({*range(there), *(gpu for gpus in given.values() for gpu in gpus)})
    if not any(given.values()):
        raise StateError("no container of this recording has a GPU", "minirun replay figure-1")
    if max(len(given), len(numbers)) > _MOST:
        raise StateError(f"Figure 1 has room for {_MOST} containers and {_MOST} GPUs")
    tall = 2 * _ROW + _ROW * max(len(gpus) for gpus in given.values()) + 8
    below = tall + _GAP
    tops = dict(zip(given, _places(len(given)), strict=True))
    feet = dict(zip(numbers, _places(len(numbers)), strict=True))
    parts = [_container(name, given[name], x, tall) for name, x in tops.items()]
    for number, x in feet.items():
        users = [name for name, gpus in given.items() if number in gpus]
        parts.append(_gpu(number, users, x, below))
        parts += [_line(tops[name], tall, x, below) for name in users]
    simulated = any(each.simulated for each in recordings)
    mark = "The GPUs are SIMULATED." if simulated else ""
    parts.append(figure.words(figure.WIDTH, below + 74, mark, 'text-anchor="end" font-size="11"'))
    said = [f"Container {clean(n)} has GPUs {_list(gpus)}." for n, gpus in given.items()]
    return figure.sheet(f"{' '.join(said)} {mark}".strip(), below + 80, "".join(parts))


def _gpus(recording: Recording) -> list[int]:
    """Return the GPUs whose nodes stage 5 made in the container."""
    made = [e for e in recording.events if e.stage == 5 and e.kind == "syscall" and not e.errno]
    paths = [str(e.args.get("path") or e.args.get("target") or "") for e in made]
    found = [match for path in paths if (match := _NODE.fullmatch(path[path.rfind("/dev/") :]))]
    return sorted({int(match[1]) for match in found})


def _host(recording: Recording) -> int:
    """Return how many GPUs the host has, as stage 5 was told."""
    told = [e.args.get("of") for e in recording.events if e.name == "gpus chosen"]
    return max((number for number in told if isinstance(number, int)), default=0)


def _places(count: int) -> list[float]:
    """Return the middles of `count` boxes beside each other."""
    return [figure.WIDTH * (2 * n + 1) / (2 * count) for n in range(count)]


def _box(x: float, y: float, height: float) -> str:
    return (
        f'<rect x="{x - _BOX / 2}" y="{y}" width="{_BOX}" height="{height}" rx="4" '
        'fill-opacity=".06" stroke="currentColor"/>'
    )


def _container(name: str, gpus: list[int], x: float, height: int) -> str:
    bold = 'text-anchor="middle" font-weight="700"'
    rows = [figure.words(x, 18, f"container {clean(name)[:14]}", bold)]
    for row, gpu in enumerate(gpus, 2):
        code = 'text-anchor="middle" font-family="monospace"'
        rows.append(figure.words(x, 18 + 4 + (row - 1) * _ROW, f"/dev/nvidia{gpu}", code))
    return _box(x, 0, height) + "".join(rows)


def _gpu(number: int, users: list[str], x: float, y: float) -> str:
    names = _list([clean(name)[:9] for name in users])
    use = "free" if not users else f"{names} alone" if len(users) == 1 else f"shared: {names}"
    middle = 'text-anchor="middle"'
    return (
        _box(x, y, 52)
        + figure.words(x, y + 21, f"GPU {number}", f'{middle} font-weight="700"')
        + figure.words(x, y + 40, use, f'{middle} font-size="11"')
    )


def _line(x0: float, y0: float, x1: float, y1: float) -> str:
    bend = (y0 + y1) / 2
    return (
        f'<path d="M{x0:.1f} {y0}C{x0:.1f} {bend} {x1:.1f} {bend} {x1:.1f} {y1}" fill="none" '
        'stroke="currentColor" stroke-width="1.6" stroke-opacity=".7"/>'
    )


def _list(names: "list[int] | list[str]") -> str:
    return ", ".join(map(str, names)) or "none"
