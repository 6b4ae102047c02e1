"""Two starts as one page: both drawn, each from its own first moment, and what only one did.

The two may come from machines whose clocks have nothing in common, so each begins at zero.
"""

import html
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from minirun.faces.knowledge.texts import Phrases, Topic
from minirun.faces.show.compare import starts
from minirun.faces.show.compare.starts import EventDifference
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.recording import Recording


class Pair(NamedTuple):
    """Two starts on one axis, and their differences."""

    recordings: list[Recording]
    changes: list[EventDifference]

    def section(self, say: Phrases) -> str:
        """Return the differences as HTML, stage by stage: each entry is a link to its event."""
        title = html.escape(say("What only one of the two did"))
        count = starts.same(self.recordings[0], self.recordings[1], self.changes)
        same = say("{} events are the same in both.", count)
        names = [
            f"{mark} {event_row.clean(each.name)}"
            for mark, each in zip("<>", self.recordings, strict=True)
        ]
        parts = [
            f'<h2 id="starts-title">{title}</h2>',
            f"<p>{html.escape(same)}</p>",
            _columns(*(f"<b>{html.escape(name)}</b>" for name in names)),
        ]
        titles = event_row.stages(observed=any(each.observed for each in self.recordings))
        explained: set[Topic] = set()
        for (stage, actor), changes in groupby(self.changes, lambda each: each.part):
            what = say(titles[stage]) if stage in titles else say("before stage 1")
            name = html.escape(f"{stage or ''} {event_row.clean(actor)}: {what}".strip())
            rows = (
                _columns(
                    self._rows(0, change.gone, say.language, explained),
                    self._rows(1, change.new, say.language, explained),
                )
                for change in changes
            )
            parts.append(f'<h3>{name}</h3><div class="changes">{"".join(rows)}</div>')
        inside = "".join(parts)
        return f'<section id="starts" aria-labelledby="starts-title">{inside}</section>'

    def only(self) -> list[list[int]]:
        """Return, for each of the two, the numbers of the events that only it has."""
        return [sorted(self._place(n, event) for event in self._own(n)) for n in (0, 1)]

    def _own(self, number: int) -> list[Event]:
        return [e for change in self.changes for e in (change.new if number else change.gone)]

    def _place(self, number: int, event: Event) -> int:
        events = self.recordings[number].events
        return next(at for at, each in enumerate(events) if each is event)

    def _rows(self, number: int, events: list[Event], language: str, explained: set[Topic]) -> str:
        rows = []
        for topic, each in starts.by_reason(events, self.recordings[number], language):
            rows += [self._row(number, event) for event in each]
            if topic and topic not in explained:
                explained.add(topic)
                text = html.escape(f"{topic.title}. {topic.here}", quote=False)
                source = html.escape(topic.man, quote=False)
                rows.append(f'<li class="why">{text} <small>{source}</small></li>')
        return f"<ul>{''.join(rows)}</ul>"

    def _row(self, number: int, event: Event) -> str:
        link = f"#event-{number}-{self._place(number, event)}"
        text = html.escape(f"{'<>'[number]} {event_row.clean(starts.line(event))}")
        return f'<li><a href="{link}">{text}</a></li>'


def _columns(left: str, right: str) -> str:
    return f'<div class="columns"><div>{left}</div><div>{right}</div></div>'


def pair(first: Recording, second: Recording) -> Pair:
    """Return two starts as a page shows them."""
    both = [_from_zero(first), _from_zero(second)]
    return Pair(both, starts.compare(*both))


def _from_zero(recording: Recording) -> Recording:
    """Return a recording whose clock begins with its first event, and stands still at gates."""
    own = recording.unheld
    return replace(own, events=[event._replace(t=event.t - own.start) for event in own.events])
