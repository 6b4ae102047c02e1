"""Networks as a picture, SVG: the host's way out above, the bridge below it, containers below that.

A line is a veth pair, with both ends' ifindex. What only minirun's records have, and what only the
kernel has, is said in words in the box that it belongs to, whose frame is then broken. Colours are
those of the text around it, as in the other figures.
"""

from __future__ import annotations

import textwrap

from minirun.core.keeping.visible import clean
from minirun.show.figures import figure_3
from minirun.show.text import network_picture as picture_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.inspect.network.facts import EndFacts, NetworkPicture

_WIDTH = figure_3.WIDTH
_ROW, _PAD, _GAP = 16, 10, 44
_LETTER = 6.6
"""How wide a letter of the text in boxes is."""
_BOX, _BETWEEN = 300, 30
"""The width of a container's box, and the room between two: three stand side by side."""
_BOLD, _CODE = 'font-weight="700"', 'font-family="monospace" font-size="11"'


def document(pictures: list[NetworkPicture]) -> str:
    """Return the networks, one below the other, as an SVG file."""
    parts, top = [], 0.0
    for picture in pictures:
        body, height = _network(picture)
        parts.append(f'<g transform="translate(0 {top})">{body}</g>')
        top += height + _GAP
    said = "; ".join(map(_label, pictures))
    return figure_3.sheet(said, max(top - _GAP, _ROW), "".join(parts))


def _label(picture: NetworkPicture) -> str:
    """Return what the picture shows, for those who cannot see it."""
    ends = [clean(" to ".join(picture_text.cable(one))) for one in picture.ends]
    return f"{picture_text.title(picture)}: {', '.join(ends) or 'no container'}"


def _network(picture: NetworkPicture) -> tuple[str, float]:
    """Return one network's drawing and its height."""
    forwards = "forwards packets" if picture.forwards else "does NOT forward packets"
    host = [f"way out {picture_text.way_out(picture)}", forwards]
    boxes = [_box(0, 0, _WIDTH, picture_text.title(picture), host)]
    top = boxes[0][1] + _GAP
    found = [boxes[0][0], _cable(_WIDTH / 2, boxes[0][1], top, "")]
    name, *rest = picture_text.bridge(picture)
    marks = picture_text.differences(picture.missing, picture.foreign)
    rest += [" ".join(row) for row in marks]
    drawn, height = _box(0, top, _WIDTH, name, rest, broken=bool(marks))
    found.append(drawn)
    top += height
    for at in range(0, len(picture.ends), 3):
        bottom = top
        for column, one in enumerate(picture.ends[at : at + 3]):
            x = column * (_BOX + _BETWEEN)
            outer, inner = picture_text.cable(one)
            found.append(_cable(x + 24, top, top + _GAP, outer))
            drawn, height = _container(x, top + _GAP, inner, one)
            found.append(drawn)
            bottom = max(bottom, top + _GAP + height)
        top = bottom
    rules = [" ".join(row) for row in picture_text.rules(picture)]
    drawn, height = _box(0, top + _ROW, _WIDTH, "table inet minirun: NAT", rules or ["none"])
    return "".join([*found, drawn]), top + _ROW + height


def _container(x: float, y: float, head: str, one: EndFacts) -> tuple[str, float]:
    rows = [" ".join(row) for row in picture_text.details(one)]
    broken = bool(one.missing or one.foreign)
    return _box(x, y, _BOX, head, rows, broken=broken)


def _box(
    x: float, y: float, width: float, head: str, rows: list[str], *, broken: bool = False
) -> tuple[str, float]:
    """Return a frame with its words, and its height."""
    letters = int((width - 2 * _PAD) / _LETTER)
    shown = [part for row in rows for part in textwrap.wrap(clean(row), letters) or [""]]
    heads = textwrap.wrap(clean(head), letters) or [""]
    height = (len(heads) + len(shown)) * _ROW + 1.5 * _PAD
    dashes = ' stroke-dasharray="5 3"' if broken else ""
    frame = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="none" '
        f'stroke="currentColor"{dashes}/>'
    )
    words = [
        figure_3.words(x + _PAD, y + (n + 1) * _ROW, row, _BOLD if n < len(heads) else _CODE)
        for n, row in enumerate([*heads, *shown])
    ]
    return frame + "".join(words), height


def _cable(x: float, top: float, bottom: float, name: str) -> str:
    """Return a line from a box to the one below, with the name of its upper end."""
    said = figure_3.words(x + 6, top + _ROW, clean(name), _CODE) if name else ""
    return f'<path d="M{x} {top}V{bottom}" stroke="currentColor" stroke-width="2"/>{said}'
