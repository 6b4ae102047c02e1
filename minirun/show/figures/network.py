"""Networks as a picture, SVG: the host's way out above, the bridge below it, containers below that.

A line is a veth pair, with both ends' ifindex. What only minirun's records have, and what only the
kernel has, is said in words in the box that it belongs to, whose frame is then broken. Colours are
those of the text around it, as in the other figures.
"""

from __future__ import annotations

import textwrap

from minirun.core.keeping.visible import clean
from minirun.show.figures import figure_3
from minirun.show.text import event_row
from minirun.show.text import network_picture as picture_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.inspect.network.facts import EndFacts, NetworkPicture

_WIDTH = figure_3.WIDTH
_ROW, _PAD, _GAP = 16, 10, 44
_LETTER, _HEAD_LETTER = 6.65, 7.3
"""How wide a letter of the text in boxes is, and of their heads."""
_IN_ROW, _BETWEEN, _TRUNK, _DROP = 3, 30, 18, 24
"""Containers in a row, the room between two, and left of them for the line to further rows; where
a cable stands above its box."""
_NAMES = 6
"""So many lines of a container's hosts are drawn."""
_LINE = 'stroke="currentColor" stroke-width="2"'
_CODE = 'font-family="monospace" font-size="11"'
_HEAD = 'font-family="monospace" font-weight="700"'


def document(pictures: list[NetworkPicture]) -> str:
    """Return the networks, one below the other, as an SVG file."""
    parts, top = [], 0.0
    for picture in pictures:
        body, height = _network(picture)
        parts.append(f'<g transform="translate(0 {top})">{body}</g>')
        top += height + _GAP
    title = "; ".join(map(_label, pictures)) or "no network"
    return figure_3.sheet(title, max(top - _GAP, _ROW), "".join(parts), sized=True)


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
    found = [boxes[0][0]]
    if not picture.network.internal:
        found.append(_cable(_WIDTH / 2, boxes[0][1], top, ""))
    name, *rest = picture_text.bridge(picture)
    marks = picture_text.differences(picture.missing, picture.foreign)
    rest += [" ".join(row) for row in marks]
    drawn, height = _box(0, top, _WIDTH, name, rest, broken=bool(marks))
    found.append(drawn)
    drawn, top = _containers(picture, top + height)
    found.append(drawn)
    rules = [": ".join(row) for row in picture_text.rules(picture)]
    drawn, height = _box(0, top + _ROW, _WIDTH, "table inet minirun: NAT", rules or ["none"])
    return "".join([*found, drawn]), top + _ROW + height


def _containers(picture: NetworkPicture, bridge: float) -> tuple[str, float]:
    """Return the containers, three in a row, and where they end; `bridge`: where that ends.

    Those of the first row hang from the bridge; a line leads from it to the rows below.
    """
    left = _TRUNK if len(picture.ends) > _IN_ROW else 0
    width = (_WIDTH - left - (_IN_ROW - 1) * _BETWEEN) / _IN_ROW
    found, top, trunk = [], bridge, bridge
    for at in range(0, len(picture.ends), _IN_ROW):
        row = picture.ends[at : at + _IN_ROW]
        places = [left + column * (width + _BETWEEN) for column in range(len(row))]
        if at:
            top += _ROW
            trunk = top
            line = f"M1 {trunk}H{places[-1] + _DROP}"
            found.append(f'<path d="{line}" {_LINE} fill="none"/>')
        bottom = top
        for x, one in zip(places, row, strict=True):
            outer, inner = picture_text.cable(one)
            found.append(_cable(x + _DROP, top, top + _GAP, outer))
            drawn, height = _container(x, top + _GAP, width, inner, one)
            found.append(drawn)
            bottom = max(bottom, top + _GAP + height)
        top = bottom
    if trunk > bridge:
        found.append(f'<path d="M1 {bridge}V{trunk}" {_LINE}/>')
    return "".join(found), top


def _container(x: float, y: float, width: float, head: str, one: EndFacts) -> tuple[str, float]:
    rows = [" ".join(row) for row in picture_text.details(one, most=_NAMES)]
    broken = bool(one.missing or one.foreign)
    return _box(x, y, width, head, rows, broken=broken)


def _box(
    x: float, y: float, width: float, head: str, rows: list[str], *, broken: bool = False
) -> tuple[str, float]:
    """Return a frame with its words, and its height."""
    room = width - 2 * _PAD
    shown = [part for row in rows for part in _broken(clean(row), room / _LETTER)]
    heads = _broken(clean(head), room / _HEAD_LETTER)
    height = (len(heads) + len(shown)) * _ROW + 1.5 * _PAD
    dashes = ' stroke-dasharray="5 3"' if broken else ""
    frame = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="none" '
        f'stroke="currentColor"{dashes}/>'
    )
    words = [
        figure_3.words(x + _PAD, y + (n + 1) * _ROW, row, _HEAD if n < len(heads) else _CODE)
        for n, row in enumerate([*heads, *shown])
    ]
    return frame + "".join(words), height


def _broken(text: str, letters: float) -> list[str]:
    """Return a text in lines of so many letters; of half as many if some letters are wide."""
    wide = event_row.display_width(text) > len(text)
    return textwrap.wrap(text, int(letters / (1 + wide))) or [""]


def _cable(x: float, top: float, bottom: float, name: str) -> str:
    """Return a line from a box to the one below, with the name of its upper end."""
    said = figure_3.words(x + 6, top + _ROW, clean(name), _CODE) if name else ""
    return f'<path d="M{x} {top}V{bottom}" {_LINE}/>{said}'
