"""Networks as one picture, SVG: the host's network namespace as a frame, each container's below it.

    other hosts   │ tcp 8080              An arrow from outside is a published port: it goes through
    ┌ host ───────┼──────────────────┐    the link to other hosts, is given its new address, and
    │ [e0]────────┤                  │    ends at the bridge.
    │   ▲         ◆ to 10.88.0.2:80  │
    │ [shop]──────▼──┬──             │    A bridge is a box with a line, into which cables are
    │ ////////       │  wall         │    plugged. A cable is a veth pair: one end is in the host's
    │ [vault]────────│───┬──         │    frame, the other in the container's. Where it passes by
    └────────────────┼───┼───────────┘    another bridge it is interrupted.
                   ┌─┴───┴─┐
                   │ web   │              On the left of the boxes: the way to other hosts, if there
                   └───────┘              is one.

What only minirun's records have, and what only the kernel has, is said in words in the frame that
it belongs to, which is then broken. Colours are those of the text around it.
"""

from __future__ import annotations

import textwrap

from minirun.common import screen
from minirun.core.keeping.visible import clean
from minirun.faces.inspect.network import passages
from minirun.faces.show.figures import figure_3
from minirun.faces.show.text import network_picture as picture_text
from minirun.net.ruleset import DROP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from minirun.faces.inspect.network.facts import EndFacts, NetworkPicture
    from minirun.faces.inspect.network.passages import Passage, PublishedWay

_ROW, _PAD = 15, 8
_LETTER = 6.65
"""How wide a letter is."""
_LEFT, _BOXES = 14, 330
"""Where the words of the host begin, and where their boxes end and the lines of bridges begin."""
_LANE = 11
"""From one way to other hosts to the next, left of the boxes."""
_SLOT, _BESIDE = 110, 16
"""How wide a cable's column is at least, and the room between two columns, or two containers."""
_OUTSIDE, _GAP = 40, 36
"""Height of what is above the host's frame, and between it and the containers."""
_LETTERS = 30
"""So many are in a row of a container."""
_LINE = 'stroke="currentColor" stroke-width="2" fill="none"'
_BAR = 'stroke="currentColor" stroke-width="3"'
_CODE = 'font-family="monospace" font-size="11"'
_HEAD = f'{_CODE} font-weight="700"'


def document(pictures: list[NetworkPicture], between: tuple[Passage, ...]) -> str:
    """Return networks, and what is between them, as an SVG file."""
    if not pictures:
        return figure_3.sheet("no network", _ROW, "", sized=True)
    drawn = _Drawing(pictures, between)
    title = "; ".join(map(_label, pictures))
    return figure_3.sheet(title, drawn.height, "".join(drawn.parts), drawn.width, sized=True)


def _label(picture: NetworkPicture) -> str:
    """Return what the picture shows, for those who cannot see it."""
    ends = [clean(" to ".join(picture_text.cable(one))) for one in picture.ends]
    return f"{picture_text.title(picture)}: {', '.join(ends) or 'no container'}"


class _ContainerFrame:
    """A container's frame, with a column for each port and each cable of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ends: list[tuple[int, NetworkPicture, EndFacts]] = []
        self.ports: list[tuple[int, PublishedWay]] = []
        self.own_names: list[str] = []
        self.x, self.width = 0.0, 0.0

    def columns(self) -> list[float]:
        """Return the widths of its columns: cables first, then ports."""
        ports = [max(len(way.said), len(_led(way))) for _, way in self.ports]
        cables = [max(map(screen.display_width, words)) for words in self.words()]
        return [max(_SLOT, letters * _LETTER + _BESIDE) for letters in (*cables, *ports)]

    def words(self) -> list[list[str]]:
        """Return the words of each cable; those about all of the container are at the first."""
        found = [_words_of(one) for _, _, one in self.ends]
        for row in self.own_names:
            found[0] += _broken(clean(f"hosts {row}"), _LETTERS)
        return found


class _Drawing:
    """Shapes, from above to below; `width` and `height` say how far they reach."""

    def __init__(self, pictures: list[NetworkPicture], between: tuple[Passage, ...]) -> None:
        self.pictures, self.between = pictures, between
        self.parts: list[str] = []
        self.indent = _LEFT + _LANE * len(pictures) + 8
        self.containers = _containers(pictures)
        self.width = self._place()
        self.bars: list[float] = []
        self.ends = [self._end_of(number) for number in range(len(pictures))]
        bottom = self._host()
        self._frame(0, _OUTSIDE, self.width, bottom - _OUTSIDE, broken=False)
        self.height = max(
            [bottom, *(self._container(each, bottom) for each in self.containers)]
        )  # fmt: skip
        for each in self.containers:
            self._ports(each)
        for number, picture in enumerate(pictures):
            self._way_out(number, picture)

    def _place(self) -> float:
        """Give each container its place, and return how wide the picture is."""
        x = _BOXES + 2.0 * _BESIDE
        for each in self.containers:
            head = len(f"container {each.name}") * _LETTER + 2 * _PAD
            each.x, each.width = x, max(sum(each.columns()), head) + _PAD
            x += each.width + _BESIDE
        return max(x, figure_3.WIDTH)

    def _end_of(self, number: int) -> float:
        """Return where a bridge's line ends: at the last cable, or the last port."""
        places = [x for each in self.containers for at, x in self._plugs(each) if at == number]
        return max(places, default=_BOXES) + 2 * _PAD

    def _plugs(self, each: _ContainerFrame) -> Iterator[tuple[int, float]]:
        """Yield the network and the place of each of its ports and cables."""
        x = each.x + 2 * _PAD
        numbers = [at for at, _, _ in each.ends] + [at for at, _ in each.ports]
        for number, width in zip(numbers, each.columns(), strict=True):
            yield number, x
            x += width

    def _host(self) -> float:
        """Draw what is in the host's frame; return where that ends."""
        first = self.pictures[0]
        forwards = "forwards" if first.forwards else "does NOT forward"
        self._words(0, 12, "other hosts", _HEAD)
        y = float(_OUTSIDE + _ROW)
        said = f"host, a network namespace: it {forwards} packets"
        self._words(_LEFT + 2 * _PAD, y, said, _HEAD)
        y = self._box(_LEFT, y + 6, picture_text.way_out(first).split(", "))
        self.link = (_OUTSIDE + _ROW + 6, y)
        if first.out_link:
            self._path(f"M{_LEFT + 6} 18V{self.link[0]}", _LINE)
            self._tip(_LEFT + 6, self.link[0], down=True)
            self._tip(_LEFT + 6, 18, down=False)
        y = self._said(y + 4, self._from_outside()) + _ROW
        for number, picture in enumerate(self.pictures):
            y = self._wall(y, number)
            rows, marks = self._rows(picture)
            top, y = y, self._box(self.indent, y, rows, broken=marks)
            self.bars.append(round((top + y) / 2))
            bar = f"M{_BOXES} {self.bars[-1]}H{round(self.ends[number], 1)}"
            self._path(bar, _BAR)
            y = max(y, self.bars[-1] + 2 * _ROW) + _PAD
        return y

    def _from_outside(self) -> list[str]:
        """Return what a packet of other hosts meets that goes to no published port."""
        found = [one for one in self.between if not one.source]
        said: dict[str, list[str]] = {}
        for one in found:
            said.setdefault(picture_text.met(one), []).append(one.to)
        return [f"▼ to {', '.join(names)}, if not published: {how}" for how, names in said.items()]

    def _wall(self, y: float, number: int) -> float:
        """Draw what is between a network and those above it; return where that ends."""
        name = self.pictures[number].network.name
        above, is_wall = [each.network.name for each in self.pictures[:number]], False
        said: dict[str, list[str]] = {}
        for one in self.between:
            if {one.source, one.to} <= {name, *above} and name in (one.source, one.to):
                said.setdefault(picture_text.met(one), []).append(f"{one.source} → {one.to}")
                is_wall |= one.word == DROP
        if is_wall:
            strokes = "".join(f"M{x} {y + 8}l5 -8" for x in range(self.indent, _BOXES - 4, 9))
            self._path(strokes, 'stroke="currentColor" stroke-width="1"')
            y += 8
        for how, ways in said.items():
            y = self._said(y + 2, [f"{', '.join(ways)}: {how}"])
        return y + _PAD if said else y

    def _rows(self, picture: NetworkPicture) -> tuple[list[str], bool]:
        """Return the words of a network's box; True if kernel and records differ."""
        marks = picture_text.differences(picture.missing, picture.foreign)
        rows = [picture_text.title(picture), *picture_text.bridge(picture), self._out(picture)]
        rows += [f"name {row}" for row in picture_text.names(picture)]
        return rows + [" ".join(row) for row in marks], bool(marks)

    def _out(self, picture: NetworkPicture) -> str:
        """Return what a packet to other hosts meets."""
        found = self._passage(picture)
        return f"▲ out: {picture_text.met(found) if found else 'no bridge'}"

    def _passage(self, picture: NetworkPicture) -> Passage | None:
        way = (picture.network.name, passages.OTHER_HOSTS)
        return next((one for one in self.between if (one.source, one.to) == way), None)

    def _way_out(self, number: int, picture: NetworkPicture) -> None:
        """Draw the way to other hosts, left of the boxes; a cross if a rule ends it."""
        x, y = _LEFT + 6 + _LANE * number, self.bars[number]
        found = self._passage(picture)
        if found is None or found.word == DROP or not picture.out_link:
            self._path(f"M{self.indent} {y}H{x + 9}", _LINE)
            self._words(x, y + 4, "✕", _HEAD)
            return
        self._path(f"M{self.indent} {y}H{x}V{self.link[1]}", _LINE)
        self._tip(x, self.link[1], down=False)

    def _ports(self, each: _ContainerFrame) -> None:
        """Draw its published ports: from outside, through the host's link, to the bridge."""
        at = round(sum(self.link) / 2)
        places = list(self._plugs(each))[len(each.ends) :]
        for (number, way), (_, x) in zip(each.ports, places, strict=True):
            self._words(x + 6, 12, way.said, _CODE)
            self._path(f"M{_BOXES} {at}H{x}", _BAR)
            self._upright(x, 4, self.bars[number] - 2)
            self._tip(x, self.bars[number] - 2, down=True)
            y = self.link[1] + _ROW
            self._path(f"M{x} {y - 6}l6 6l-6 6l-6 -6z", "")
            self._words(x + 9, y + 4, _led(way), _CODE)

    def _container(self, each: _ContainerFrame, bottom: float) -> float:
        """Draw a container and its cables; return where its frame ends."""
        top = bottom + _GAP
        self._words(each.x + _PAD, top + _ROW, clean(f"container {each.name}"), _HEAD)
        broken, lowest = False, top + _ROW
        found = zip(each.ends, self._plugs(each), each.words(), strict=False)
        for (number, _, one), (_, x), words in found:
            outer, inner, *rows = words
            broken |= bool(one.missing or one.foreign)
            if one.outside:
                self._words(x + 6, self.bars[number] + _ROW, clean(outer), _CODE)
            if one.outside and one.inside:
                self._upright(x, self.bars[number], top)
            self._words(x, top + 2 * _ROW, clean(inner), _HEAD)
            for nth, row in enumerate(rows, 3):
                self._words(x, top + nth * _ROW, clean(row), _CODE)
            lowest = max(lowest, top + (2 + len(rows)) * _ROW)
        self._frame(each.x, top, each.width, lowest + _PAD - top, broken=broken)
        return lowest + _PAD

    def _upright(self, x: float, top: float, bottom: float) -> None:
        """Draw a line from above to below, interrupted at the lines of bridges that it passes."""
        passed = [y for y, end in zip(self.bars, self.ends, strict=True)
                  if top < y < bottom and x <= end]  # fmt: skip
        starts, stops = [top, *(y + 5 for y in passed)], [*(y - 5 for y in passed), bottom]
        lines = "".join(f"M{x} {a}V{b}" for a, b in zip(starts, stops, strict=True))
        self._path(lines, _LINE)

    def _box(self, x: float, y: float, rows: list[str], *, broken: bool = False) -> float:
        """Draw a box up to where the lines begin, its first row bold; return where it ends."""
        letters = (_BOXES - x - 2 * _PAD) / _LETTER
        shown = [part for row in rows for part in _broken(clean(row), letters)]
        heads = len(_broken(clean(rows[0]), letters))
        for nth, row in enumerate(shown):
            self._words(x + _PAD, y + (nth + 1) * _ROW, row, _HEAD if nth < heads else _CODE)
        height = len(shown) * _ROW + _PAD
        self._frame(x, y, _BOXES - x, height, broken=broken)
        return y + height

    def _said(self, y: float, rows: list[str]) -> float:
        """Write words between two boxes; return where they end."""
        letters = (_BOXES - self.indent - _PAD) / _LETTER
        for row in [part for one in rows for part in _broken(clean(one), letters)]:
            y += _ROW
            self._words(self.indent, y, row, _CODE)
        return y

    def _frame(self, x: float, y: float, width: float, height: float, *, broken: bool) -> None:
        dashes = ' stroke-dasharray="5 3"' if broken else ""
        self.parts.append(
            f'<rect x="{round(x, 1)}" y="{y}" width="{round(width, 1)}" height="{height}" rx="4" '
            f'fill="none" stroke="currentColor"{dashes}/>'
        )

    def _words(self, x: float, y: float, said: str, more: str) -> None:
        self.parts.append(figure_3.words(x, y, said, more))

    def _path(self, line: str, more: str) -> None:
        self.parts.append(f'<path d="{line}" {more}/>')

    def _tip(self, x: float, y: float, *, down: bool) -> None:
        self._path(f"M{x} {y}l-4 {-8 if down else 8}h8z", "")


def _containers(pictures: list[NetworkPicture]) -> list[_ContainerFrame]:
    """Return each container once, with what it has on each network."""
    found: dict[str, _ContainerFrame] = {}
    for number, picture in enumerate(pictures):
        for one in picture.ends:
            each = found.setdefault(one.lease.container, _ContainerFrame(one.lease.called))
            each.ends.append((number, picture, one))
        for way in passages.published(picture):
            for one in picture.ends:
                if one.lease.address == way.address:
                    found[one.lease.container].ports.append((number, way))
    known = {row for picture in pictures for row in picture_text.names(picture)}
    for each in found.values():
        each.own_names = picture_text.own_names(each.ends[0][2], known)
    return list(found.values())


def _led(way: PublishedWay) -> str:
    return f"to {way.address}:{way.port}"


def _words_of(one: EndFacts) -> list[str]:
    """Return both ends of a cable, and what there is to say of the container's.

    A route that came with the address is left out, and its link: the cable is it.
    """
    outer, inner = (each.partition(" in container ")[0] for each in picture_text.cable(one))
    rows: list[str] = []
    for name, value in picture_text.details(one, set()):
        if name == "address":
            rows += value.split()
        elif name == "MAC":
            rows += value.split(", ")
        elif name not in ("hosts", "published", "route"):
            rows += _broken(clean(f"{name} {value}"), _LETTERS)
    others = (route for route in one.routes if not route.by_kernel)
    rows += [f"{route.to} via {route.via}" if route.via else route.to for route in others]
    return [outer, inner, *rows]


def _broken(text: str, letters: float) -> list[str]:
    """Return a text in lines of so many letters; of half as many if some letters are wide."""
    wide = screen.display_width(text) > len(text)
    return textwrap.wrap(text, int(letters / (1 + wide)), break_on_hyphens=False) or [""]
