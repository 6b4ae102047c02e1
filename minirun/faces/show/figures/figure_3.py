"""A recording as a still picture: Figure 3 with the true times, as one SVG without any script.

One lane for each actor; a band for each stage, with its number and name above it; a bar for each
system call, as long as it took; an arrow for init's birth, and for each message through a FIFO.
Everything is drawn in the colour of the text around it, so that it reads on light and dark paper,
and in black and white: shapes and words carry the meaning. Notebooks show it, and the HTML page
prints it.
"""

import html
from collections.abc import Callable, Iterator

from minirun.common.screen import display_width
from minirun.faces.knowledge.texts import Phrases
from minirun.faces.show.figures import labels
from minirun.faces.show.log.axis import Axis, began
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.event_row import clean, duration, is_named, weight
from minirun.faces.show.log.order import OPENED
from minirun.faces.show.log.recording import FifoMessage, Recording, Stage, unheld

ACTORS = ("runtime", "init", "hook", "cli")
"""The order of the lanes, from top to bottom; only those that acted are drawn."""

WIDTH = 960
_LEFT, _RIGHT, _TOP = 64, 14, 22
_LANE, _BAND, _HEAD = 58, 24, 22
"""Heights: a lane with its gap, the band in it, and the line of names above the band."""
_ROWS, _ROW = 3, 15
_GUTTER = _ROWS * _ROW
"""Room below the first lane for the names of messages, in rows."""
_NARROW, _BROAD, _LETTER, _CAPITAL = 4.6, 11.5, 7.1, 7.6
"""How wide letters of the names of stages may be, and those of messages."""
_DIGIT, _BESIDE = 19, 21
"""Room for the number of a stage, in its circle; where its name begins."""
_AHEAD = 48
"""So far before its band a number may stand, if its name has no room behind."""
_BOLD = 'font-weight="700"'
_FAINT = ".18"
"""How faint what comes later is."""
_WEIGHTS = {
    "bold": 'stroke-width="2"',
    "dim": 'opacity=".6" stroke-width=".7"',
    "": 'stroke-width="1"',
}


def lanes(recording: Recording) -> list[str]:
    """Return the recording's actors in the order of their lanes; strangers come last."""
    there = recording.actors
    return [a for a in ACTORS if a in there] + [a for a in there if a not in ACTORS]


def svg(recording: Recording, axis: Axis | None = None) -> str:
    """Return the picture of `recording`; on an axis that it shares with others, if one is given."""
    shown = recording if axis else recording.unheld
    return _Picture(shown, axis or Axis([shown])).draw()


_STANDALONE = (
    "svg{color:#1e2226;background:#fdfcf9}"
    "@media (prefers-color-scheme:dark){svg{color:#e6e3db;background:#17191c}}"
)
"""Where no page around it gives a colour: as the HTML page has them."""


def document(recordings: list[Recording], upto: int = 0, language: str = "en") -> str:
    """Return the pictures of `recordings`, on one axis, as one SVG file: light and dark.

    `upto`: what comes after this stage is faint; 0 for none. `language`: of the stages' names.
    """
    recordings = unheld(recordings)
    axis = Axis(recordings)
    pictures = [_Picture(recording, axis, upto, Phrases(language)) for recording in recordings]
    parts, top = [], 0
    for picture in pictures:
        name = "" if len(pictures) == 1 else words(0, 11, clean(picture.recording.name)[:9], _BOLD)
        parts.append(f'<g transform="translate(0 {top})">{name}{picture.body()}</g>')
        top += picture.height
    return sheet(" ".join(map(label, recordings)), top, "".join(parts))


def sheet(
    title: str, height: float, body: str, width: float = WIDTH, *, sized: bool = False
) -> str:
    """Return an SVG file with a picture. `title`: for those who cannot see it.

    `sized`: it has a size of its own, for a picture that may be higher than a window, in which it
    would become too small to read.
    """
    size = f'width="{width + 24}" height="{height + 16}" ' if sized else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
        f'viewBox="-12 -8 {width + 24} {height + 16}" '
        'role="img" aria-labelledby="title" fill="currentColor" stroke="none" '
        'font-family="system-ui, sans-serif" font-size="12">'
        f'<title id="title">{html.escape(title)}</title><style>{_STANDALONE}</style>{body}</svg>\n'
    )


def label(recording: Recording) -> str:
    """Return the picture's name, for those who cannot see it."""
    what = f"The making of container {clean(recording.name)}: "
    what += "; ".join(
        f"stage {s.number}, {clean(s.actor)}, {clean(s.name)}, {took(recording, s)}"
        for s in recording.stages
    )
    return what + (". The GPUs are SIMULATED." if recording.simulated else ".")


def took(recording: Recording, stage: Stage, say: Callable[..., str] = str.format) -> str:
    """Return how long a stage took without gates: 6.4ms, "failed after 6.4ms", "not ended".

    `say` translates a phrase, as minirun.faces.knowledge.texts.Phrases does.
    """
    if stage.end is None:
        return say("not ended")
    ends = [e for e in recording.events if e.kind == "end" and e.stage == stage.number]
    length = duration(recording.worked(ends[-1]))
    return say("failed after {}", length) if stage.error else length


class _Picture:
    """The pieces of one picture."""

    def __init__(
        self, recording: Recording, axis: Axis, upto: int = 0, say: Phrases | None = None
    ) -> None:
        self.recording = recording
        self.say = say or Phrases()
        self.axis = axis
        ends = [s.end or recording.end for s in recording.stages if s.number == upto]
        self.known = max(ends, default=recording.end)
        doers = {e.actor for e in recording.events if e.name not in ("snapshot", OPENED)}
        self.lanes = [actor for actor in lanes(recording) if actor in doers]
        gutter = _GUTTER if recording.arrows else 0
        self.tops = {
            actor: _TOP + index * _LANE + _HEAD + (gutter if index else 0)
            for index, actor in enumerate(self.lanes)
        }
        self.heads = list(self._heads())
        self.height = _TOP + len(self.lanes) * _LANE + (gutter if len(self.lanes) > 1 else 0)

    def x(self, t: int) -> float:
        return round(_LEFT + self.axis.place(t) * (WIDTH - _LEFT - _RIGHT), 1)

    def body(self) -> str:
        """Return the shapes, without the element around them."""
        return "".join((*self._ground(), *self._bands(), *self._marks(), *self._arrows()))

    def draw(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'role="img" aria-label="{html.escape(label(self.recording))}" '
            'fill="currentColor" stroke="none" font-family="system-ui, sans-serif" '
            'font-size="12" width="100%">' + self.body() + "</svg>"
        )

    def _ground(self) -> Iterator[str]:
        """Time, breaks, and each lane's name and line."""
        for tick in self.axis.ticks(WIDTH - _LEFT - _RIGHT):
            x = self.x(self.axis.start + tick.t)
            yield f'<path d="M{x} 16V{self.height}" stroke="currentColor" stroke-opacity=".12"/>'
            yield words(x, 11, tick.label, 'text-anchor="middle" font-size="11" opacity=".75"')
        for begin, end in self.axis.breaks:
            middle = round((self.x(begin) + self.x(end)) / 2, 1)
            zigzag = f"M{middle} 16" + "l4 5l-8 6l4 5" * (self.height // 16 - 1)
            yield f'<path d="{zigzag}" fill="none" stroke="currentColor" stroke-opacity=".35"/>'
            length = f"… {duration(end - begin)} …"
            yield words(middle, 11, length, 'text-anchor="middle" font-size="11"')
        for actor, top in self.tops.items():
            middle = top + _BAND / 2
            yield words(0, middle + 4, clean(actor)[:9], 'font-weight="600"')
            times = [e.t for e in self.recording.events if e.actor == actor]
            yield (
                f'<path d="M{self.x(min(times))} {middle}H{self.x(max(times))}" '
                'stroke="currentColor" stroke-opacity=".45" stroke-dasharray="1 4"/>'
            )

    def _bands(self) -> Iterator[str]:
        for stage, head, name in self.heads:
            top = self.tops[stage.actor]
            x, end = self.x(stage.begin), self.x(stage.end or self.recording.end)
            shapes = (
                f'<rect x="{x}" y="{top}" width="{max(2, round(end - x, 1))}" height="{_BAND}" '
                'rx="3" fill-opacity=".1" stroke="currentColor" stroke-opacity=".5"/>'
                f'<circle cx="{head + 8}" cy="{top - 11}" r="8" fill="none" stroke="currentColor"/>'
            )
            shapes += words(
                head + 8, top - 7, str(stage.number), 'text-anchor="middle" font-size="11"'
            )
            yield self._in_time(stage.begin, shapes + words(head + _BESIDE, top - 7, name))

    def _heads(self) -> Iterator[tuple[Stage, float, str]]:
        """Yield each stage, where its number stands, and its name.

        If the name has no room up to the next band, the number stands before its own, but behind
        those of earlier stages; the name is cut if that does not help.
        """
        stages = sorted(self.recording.stages, key=lambda stage: stage.begin)
        heads: dict[str, float] = {}
        found = []
        for stage in stages:
            x = self.x(stage.begin)
            head = max(x, heads.get(stage.actor, x))
            heads[stage.actor] = head + _DIGIT
            name = self.say.known.get(stage.name, stage.name)
            found.append((stage, head, f"{clean(name)} · {took(self.recording, stage, self.say)}"))
        limits: dict[str, float] = {}
        behind = float(WIDTH)
        for at, (stage, head, name) in reversed([*enumerate(found)]):
            limit, wide = limits.get(stage.actor, WIDTH + 10), _BESIDE + _wide(name)
            ends = [h + _BESIDE + _wide(n) for s, h, n in found[:at] if s.actor == stage.actor]
            least = max([self.x(stage.begin) - _AHEAD, _LEFT - 10, *ends])
            moved = min(head, limit - wide, behind - 1)
            if moved < head:  # not onto the head of an arrow
                tips = [self.x(m.t) for m in self.recording.arrows if m.receiver == stage.actor]
                moved = min([moved, *(x - 20 for x in tips if abs(moved + 8 - x) < 12)])
            head = max(moved, min(head, least))
            limits[stage.actor], behind = self.x(stage.begin) - 5, head
            yield stage, head, _cut(name, limit - head - _BESIDE)

    def _marks(self) -> Iterator[str]:
        """All bars of a lane in one path; what failed, executed or noted has a shape of its own."""
        for actor, top in self.tops.items():
            mine = [e for e in self.recording.events if e.actor == actor]
            calls = [e for e in mine if e.kind == "syscall"]
            for some in (
                [e for e in calls if e.t <= self.known],
                [e for e in calls if e.t > self.known],
            ):
                bars = "".join(self._bar(event, top + 4) for event in some)
                if bars:
                    yield self._in_time(some[0].t, f'<path d="{bars}" fill-opacity=".8"/>')
            for event in mine:
                yield self._in_time(event.t, self._mark(event, top))

    def _mark(self, event: Event, top: float) -> str:
        """Return the shape of an event that has one."""
        x = self.x(event.t)
        if event.failed:
            return words(x, top + _BAND + 10, "✕", 'text-anchor="middle" font-weight="700"')
        if event.kind == "exec":
            return f'<path d="M{x} {top + 3}l11 9l-11 9z"/>'
        if event.kind == "note":
            place = f'cx="{x}" cy="{top + _BAND + 5}"'
            return f'<circle {place} r="2.5" fill="none" stroke="currentColor"/>'
        return ""

    def _in_time(self, t: int, shapes: str) -> str:
        """Return the shapes; faint if they belong to what is not known yet."""
        return f'<g opacity="{_FAINT}">{shapes}</g>' if shapes and t > self.known else shapes

    def _bar(self, event: Event, y: float) -> str:
        end = self.x(event.t)
        x = self.x(event.t - began(event))
        return f"M{x} {y}h{max(1.2, round(end - x, 1))}v16H{x}z"

    def _arrows(self) -> Iterator[str]:
        """Init's birth and the messages, with the names of those that Figure 3 names."""
        order = list(self.tops)
        known = [m for m in self.recording.arrows if {m.sender, m.receiver} <= set(order)]
        drawn = []
        for message in known:
            start, end = order.index(message.sender), order.index(message.receiver)
            wide = len(clean(message.name)) * _CAPITAL if is_named(message.name) else 0
            lanes_of = (min(start, end), max(start, end))
            drawn.append(labels.Arrow(self.x(message.t), *lanes_of, wide, end < start))
        bold = [at for at, message in enumerate(known) if weight(message.name) == "bold"]
        placed = labels.place(drawn, bold, _ROWS, (_LEFT - 8, WIDTH))
        holes: dict[int, list[float]] = {at: [] for at in range(len(known))}
        for own, label in placed.items():
            for at in labels.crossed(label, own, drawn):
                holes[at].append(self._baseline(label))
        for at, (message, arrow) in enumerate(zip(known, drawn, strict=True)):
            yield self._in_time(message.t, self._arrow(message, arrow.x, sorted(holes[at])))
        for at, label in placed.items():
            side = "" if label.follows else 'text-anchor="end" '
            x = drawn[at].x + (5 if label.follows else -5)
            said = words(x, self._baseline(label), clean(known[at].name), side + 'font-size="11"')
            yield self._in_time(known[at].t, said)

    def _is_named(self, x: float, top: float) -> bool:
        """Return True if the name of a stage is at a place above the band at `top`."""
        return any(
            self.tops[stage.actor] == top and head <= x <= head + _BESIDE + _wide(name)
            for stage, head, name in self.heads
        )

    def _baseline(self, label: labels.Label) -> float:
        below = 12 if label.lane else 20  # the heads of arrows
        return list(self.tops.values())[label.lane] + _BAND + below + label.row * _ROW

    def _arrow(self, message: FifoMessage, x: float, holes: list[float]) -> str:
        """An arrow; pale where it crosses the line of names above the lower lane's band, and
        interrupted if a name is there.

        `holes`: the baselines of names of other arrows, where it is interrupted.
        """
        start, end = self.tops[message.sender], self.tops[message.receiver]
        down = end > start
        upper, lower = min(start, end) + _BAND, max(start, end)
        tip, back = (lower, -7) if down else (upper, 7)
        tops = [upper, *(at + 4 for at in holes)]
        ends = [*(at - 11 for at in holes), lower - _HEAD]
        shaft = "".join(f"M{x} {a}V{b}" for a, b in zip(tops, ends, strict=True) if b > a)
        line = f"M{x} {lower - _HEAD}V{lower}"
        pale = f'<path d="{line}" stroke="currentColor" stroke-opacity=".4"/>'
        return (
            f"<g {_WEIGHTS[weight(message.name)]}>"
            f'<path d="{shaft}" stroke="currentColor"/>{"" if self._is_named(x, lower) else pale}'
            f'<path d="M{x} {tip}l-3.5 {back}h7z"/></g>'
        )


def words(x: float, y: float, said: str, more: str = "") -> str:
    """Return a text, at its left end or where `more` anchors it."""
    return f'<text x="{round(x, 1)}" y="{y}" {more}>{html.escape(said)}</text>'


def _wide(said: str) -> float:
    """Return how wide a name may be."""
    return sum(
        _NARROW if letter in "fijlrt .,:;·'()-" else
        _BROAD if letter in "mwMW…" or display_width(letter) > 1 else _LETTER
        for letter in said
    )  # fmt: skip


def _cut(said: str, room: float) -> str:
    """Return a name, or so much of it as there is room for."""
    if _wide(said) <= room + 0.1:
        return said
    while said and _wide(said) + _LETTER > room:
        said = said[:-1]
    return f"{said}…" if said else ""
