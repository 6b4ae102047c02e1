"""`--step --web=fd:IN,OUT`: a stepped run for a program, such as a notebook's kernel.

Lines of JSON, one way on each descriptor. To the program, on OUT:

    {"event": {…}}                                        an event, as the log has it
    {"stop": "before stage 5: …", "stage": 5, "changes": […]}   the run is held
    {"said": "…"}                                         the answer to a key, or a sentence
    {"ended": true}                                       it goes on without stops, or is over

From it, on IN: {"key": "next", "argument": ""}, while the run is held. When IN ends, the program
has gone, and the run is given up.
"""

from __future__ import annotations

import json
import os
from typing import Any

from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event
from minirun.faces.show.step import keys, lines
from minirun.faces.show.step.answers import Answers, printable
from minirun.faces.show.step.controller import Controller
from minirun.faces.show.step.face import Stop

KEYS = ("next", "continue", "until", "shell", "why", "inspect", "back", "quit")
"""What may be asked for."""
_LONGEST = 1 << 16
"""Bytes of a line that comes in."""


class Piped:
    """Shows a stepped run to a program that is no terminal and no browser."""

    def __init__(self, controller: Controller, source: int, target: int) -> None:
        """`source` and `target`: the descriptors IN and OUT."""
        self.controller = controller
        self.answers = Answers(controller)
        self.source, self.target = source, target
        self.rest = b""
        self.over = False

    def show_event(self, event: Event, rows: list[event_row.Row]) -> None:
        """Pass an event on."""
        self._write(event=event.fields())

    def stopped(self, stop: Stop) -> None:
        """Say where the run is held, and what changed."""
        self.answers.back = 0
        changes = [change._asdict() for change in stop.changes]
        self._write(stop=lines.place(stop), stage=stop.stage, changes=changes)

    def key(self) -> keys.Key:
        """Return the next key; "quit" if the program has gone. Raises RunEnded."""
        while b"\n" not in self.rest:
            keys.wait([self.source], self.controller.runtime_pipe, None)
            data = os.read(self.source, _LONGEST)
            if not data or len(self.rest) > _LONGEST:
                return keys.Key("quit")
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        try:
            asked = json.loads(line)
            key = keys.Key(asked["key"], asked["argument"])
        except (ValueError, KeyError, TypeError):
            key = keys.Key("")
        if key.name in KEYS and isinstance(key.argument, str):
            return key
        self.say(f"no key: {line[:80]!r}")
        return self.key()

    def answer(self, key: keys.Key, stop: Stop) -> None:
        """Pass on what a key asks for."""
        self._write(said=self.answers.to(key, stop))

    def say(self, message: str) -> None:
        """Pass a sentence on."""
        self._write(said=printable(message))

    def ended(self) -> None:
        """Say that there will be no stop any more."""
        if not self.over:
            self._write(ended=True)
        self.over = True

    def _write(self, **fields: Any) -> None:
        data = json.dumps(fields).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self.target, data) :]
        except BrokenPipeError:
            pass  # the program has gone: the next key says so
