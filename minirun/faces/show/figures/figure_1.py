"""Figure 1: which container has which GPU, as the recordings of several containers say it.

A container is a box with the device nodes that stage 5 put into it, each with the rule that its
cgroup has for it; a line leads to each of its GPUs. Below stand all GPUs that the host has: shared,
of one container, or of none.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from minirun.core.errors import StateError
from minirun.faces.show.compare import snapshots
from minirun.faces.show.figures import figure_3
from minirun.faces.show.log import milestones
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.event_row import clean
from minirun.faces.show.log.recording import Recording

_ROW, _HEAD, _GAP = 16, 30, 24
_LEAST = 190
"""How narrow a container's box may be."""
_CODE = 'font-family="ui-monospace, monospace" font-size="11"'
_BOLD, _DIM, _MIDDLE = 'font-weight="700"', 'opacity=".7"', 'text-anchor="middle"'
_LETTER = 7.6
"""How wide a letter may be."""
_WIRES = 90
"""Room for the lines between containers and GPUs."""
_GPU = re.compile(r"/dev/nvidia\d+")


class FigureNode(NamedTuple):
    """A device node in a container; numbers and rule are "" where the log does not say them."""

    path: str
    number: str
    """Such as "c 195:0"."""
    rule: str
    """What the cgroup permits: "rw"."""


class GpuContainer(NamedTuple):
    """A container that has GPUs."""

    name: str
    gpus: list[str]
    """Their indices."""
    of: int
    """How many GPUs the host has."""
    nodes: list[FigureNode]
    sharing: dict[str, list[str]]
    """GPU → the containers that had it when this one came."""
    simulated: bool


def holders(recordings: list[Recording]) -> list[GpuContainer]:
    """Return the containers that got GPUs, in the order of the file."""
    return [found for each in recordings if (found := _holder(each))]


def _holder(recording: Recording) -> GpuContainer | None:
    notes = {e.name: e.args for e in recording.events if e.actor == "cli" and e.kind == "note"}
    chosen = notes.get("gpus chosen", {})
    gpus, of = _words(chosen.get("gpus")), chosen.get("of")
    if not gpus:
        return None
    shared = [e.args for e in recording.events if e.name == "gpu shared"]
    return GpuContainer(
        recording.name, gpus, of if isinstance(of, int) and 0 < of < 1000 else 0,
        _nodes(recording), {str(row.get("gpu")): _words(row.get("with")) for row in shared},
        recording.simulated,
    )  # fmt: skip


def _words(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, (list, tuple)) else []


def _nodes(recording: Recording) -> list[FigureNode]:
    """Return what stage 5 made or bound in /dev, with the cgroup's rules."""
    rules = dict(chain.from_iterable(map(_rule, _rules(recording))))
    found = {}
    for event in recording.events:
        path = str(event.args.get("path"))
        if event.actor == "cli" and path.startswith("/dev/") and _puts_in(event):
            numbers = [str(event.args.get(key, "")) for key in ("major", "minor")]
            number = f"{event.args.get('kind')} {':'.join(numbers)}" if all(numbers) else ""
            number = number or next((key for key, (_, at) in rules.items() if at == path), "")
            found[path] = FigureNode(path, number, rules.get(number, ("", ""))[0])
    return sorted(found.values(), key=lambda node: not _GPU.fullmatch(node.path))


def _puts_in(event: Event) -> bool:
    return event.kind == "syscall" and not event.errno and event.name in ("mknodat", "move_mount")


def _rules(recording: Recording) -> list[str]:
    """Return the rules that stage 5 added, as the cgroup shows them: "c 195:0 rw # /dev/nvidia0".

    cgroup v1 has one write for each; of v2's program the snapshots know what it permits.
    """
    written = [item for e in recording.events for group, item in [milestones.member_of(e)]
               if group == "rule"]  # fmt: skip
    before, after = (recording.snapshots.get(f"5:{edge}") for edge in ("begin", "end"))
    if not before or not after:
        return written
    changes = snapshots.compare(before, after)
    return written + [line for each in changes if each.part == "devices" for line in each.new]


def _rule(line: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Give ("c 195:0", ("rw", "/dev/nvidia0")) of a rule; nothing for what is none."""
    if match := re.match(r"([bc] \S+) (\S+)(?: # (\S+))?", line):
        yield match[1], (match[2], match[3] or "")


def document(recordings: list[Recording]) -> str:
    """Return Figure 1 as an SVG file. Raises StateError if no container got a GPU."""
    found = holders(recordings)
    if not found:
        raise StateError("no container of this recording has a GPU", "minirun replay figure-1", 1)
    return _Figure1(found).draw()


class _Figure1:
    def __init__(self, found: list[GpuContainer]) -> None:
        self.found = found
        count = max(holder.of for holder in found)
        indices = [str(number) for number in range(count)]
        self.gpus = [*dict.fromkeys([*indices, *chain.from_iterable(h.gpus for h in found)])]
        self.width = max(figure_3.WIDTH, len(found) * _LEAST, len(self.gpus) * 140)
        self.top = _HEAD + 10 + max(len(holder.nodes) for holder in found) * _ROW
        self.simulated = any(holder.simulated for holder in found)

    def draw(self) -> str:
        ground, gpus = self.top + _WIRES, self.top + _WIRES + 16
        body = [*self._containers(), *self._wires(gpus), _box(0, ground, self.width, 96)]
        kind = "the host: its GPUs" + (" (SIMULATED)" if self.simulated else "")
        body += [figure_3.words(_GAP, ground + 88, kind, _BOLD), *self._host(gpus)]
        return figure_3.sheet(self.label(), ground + 96, "".join(body), self.width)

    def label(self) -> str:
        """Return the picture in words."""
        has = [f"{clean(h.name)} has GPU {', '.join(map(clean, h.gpus))}" for h in self.found]
        whose = [f"GPU {clean(gpu)}: {self._whose(gpu)}" for gpu in self.gpus]
        mark = " The GPUs are SIMULATED." if self.simulated else ""
        return f"Containers and their GPUs. {'; '.join(has)}. {'; '.join(whose)}.{mark}"

    def _whose(self, gpu: str) -> str:
        names = [holder.name for holder in self.found if gpu in holder.gpus]
        told = [holder.sharing.get(gpu, []) for holder in self.found if gpu in holder.gpus]
        names = [clean(name) for name in dict.fromkeys([*names, *chain.from_iterable(told)])]
        if not names:
            return "free"
        return f"shared: {', '.join(names)}" if any(told) else f"dedicated: {', '.join(names)}"

    def _column(self, index: int, count: int) -> tuple[float, float]:
        """Return where the box of a row begins, and how wide it is."""
        width = (self.width - (count + 1) * _GAP) / count
        return _GAP + index * (width + _GAP), width

    def _containers(self) -> Iterator[str]:
        for index, holder in enumerate(self.found):
            x, width = self._column(index, len(self.found))
            yield _box(x, 0, width, self.top)
            name = _cut(f"container {clean(holder.name)}", width - 20)
            yield figure_3.words(x + 12, 20, name, _BOLD)
            room = width * 0.62 - 12
            for row, node in enumerate(holder.nodes):
                y, weight = _HEAD + 12 + row * _ROW, "" if _GPU.fullmatch(node.path) else _DIM
                path = _cut(clean(node.path), room)
                yield figure_3.words(x + 12, y, path, f"{_CODE} {weight}")
                rule = clean(f"{node.number} {node.rule}".strip())
                yield figure_3.words(x + width - 12, y, rule, f'{_CODE} {weight} text-anchor="end"')

    def _wires(self, bottom: float) -> Iterator[str]:
        """A line from a container to each of its GPUs: side by side where several meet."""
        for index, holder in enumerate(self.found):
            x, width = self._column(index, len(self.found))
            for port, gpu in enumerate(holder.gpus):
                start = x + width * (port + 1) / (len(holder.gpus) + 1)
                there = [other.name for other in self.found if gpu in other.gpus]
                gx, room = self._column(self.gpus.index(gpu), len(self.gpus))
                end = gx + room * (there.index(holder.name) + 1) / (len(there) + 1)
                yield _arrow(start, self.top, end, bottom)

    def _host(self, top: float) -> Iterator[str]:
        for index, gpu in enumerate(self.gpus):
            x, width = self._column(index, len(self.gpus))
            whose = self._whose(gpu)
            yield _box(x, top, width, 54, faint=whose == "free")
            middle = x + width / 2
            yield figure_3.words(
                middle, top + 22, f"GPU {clean(gpu)}", f'{_BOLD} text-anchor="middle"'
            )
            yield figure_3.words(
                middle,
                top + 41,
                _cut(whose, width - 8),
                'text-anchor="middle"',
            )


def _cut(words: str, room: float) -> str:
    letters = int(room / _LETTER)
    return words if len(words) <= letters else words[: max(0, letters - 1)] + "…"


def _box(x: float, y: float, width: float, height: float, *, faint: bool = False) -> str:
    """Return a rectangle; a faint one is dashed, and empty."""
    look = 'fill-opacity="0" stroke-dasharray="4 4"' if faint else 'fill-opacity=".06"'
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="4" {look} '
        'stroke="currentColor" stroke-opacity=".5"/>'
    )


def _arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    """Return an arrow that leaves and arrives vertically."""
    bend = (y0 + y1) / 2
    return (
        f'<path d="M{x0:.1f} {y0}C{x0:.1f} {bend} {x1:.1f} {bend} {x1:.1f} {y1 - 4}" fill="none" '
        f'stroke="currentColor"/><path d="M{x1:.1f} {y1}l-3.5 -7h7z"/>'
    )
