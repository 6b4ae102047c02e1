"""What is known of the events of a recording, each topic once: minirun.faces.knowledge."""

from dataclasses import asdict
from typing import Any

from minirun.faces import knowledge
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.event_row import STAGES, clean

_SHOWN = ("title", "here", "cause", "advice", "man", "spec", "real")


class Topics:
    """Collects the topics that events need. `found`: all so far, as plain records."""

    def __init__(self, language: str = knowledge.ENGLISH) -> None:
        self.language = language
        self.found: list[dict[str, Any]] = []
        self._places: dict[Any, int] = {}

    def places_of(self, event: Event) -> list[int]:
        """Return the places in `found` of what is known of `event`: errno, event, stage."""
        name, code = event.name, event.errno
        topics = [knowledge.errno(code, name, self.language) if code else None]
        if event.kind not in ("begin", "end"):
            topics.append(knowledge.event(name, event.args, self.language))
        if event.stage in STAGES:
            topics.append(knowledge.stage(event.stage, self.language))
        return [self._place(topic) for topic in topics if topic]

    def _place(self, topic: Any) -> int:
        if topic not in self._places:
            fields = asdict(topic)
            kept = {key: clean(fields[key]) for key in _SHOWN if fields[key]}
            self._places[topic] = len(self.found)
            self.found.append({"name": clean(topic.name), **kept})
        return self._places[topic]
