"""A stepped run on a live page: what the controller tells goes to the board, keys are buttons."""

from __future__ import annotations

import os
import threading

from minirun.common.waiting import until
from minirun.core.keeping import state
from minirun.core.keeping.visible import say
from minirun.faces.knowledge import language
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event
from minirun.faces.show.step import keys, lines
from minirun.faces.show.step.answers import Answers, printable
from minirun.faces.show.step.controller import Controller
from minirun.faces.show.step.face import Stop
from minirun.faces.show.web.board import Board
from minirun.faces.show.web.server import Server

_PATIENCE = 3.0
"""Seconds that pages get to hear how it ended."""
_ONWARD = ("next", "continue", "until")


class WebFace:
    """Shows a stepped run to browsers."""

    def __init__(self, controller: Controller, port: int = 0) -> None:
        """Start the server, and say where it is. Raises OSError."""
        self.controller = controller
        name = state.name_of(controller.directory)
        self.board = Board(name, language.choose(controller.settings.lang))
        self.answers = Answers(controller)
        self.lock = threading.Lock()
        self.asked: keys.Key | None = None
        """The button that was pressed last; one at a time: a double click passes one stop."""
        self.bell, self.ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        """A byte for each key: to be waited for together with the runtime's end."""
        self.server = Server(self.board, self.press, port)
        self.server.start()
        say(f"the presenter's page, with the buttons: {self.server.address(self.server.presenter)}")
        say(f"the viewers' page: {self.server.address(self.server.viewer)}")

    def press(self, key: str, argument: str) -> None:
        """Take a button, from a thread of the server."""
        with self.lock:
            if self.board.stop and not self.asked:
                self.asked = keys.Key(key, argument)
                os.write(self.ring, b".")

    def show_event(self, event: Event, rows: list[event_row.Row]) -> None:
        """Show an event."""
        self.board.add(event)

    def stopped(self, stop: Stop) -> None:
        """Show where the run is held, and what changed."""
        self.answers.back = 0
        self.board.show(stop=lines.place(stop), stage=stop.stage, changes=stop.changes, said="")

    def key(self) -> keys.Key:
        """Return the next button. Raises RunEnded."""
        while True:
            keys.wait([self.bell], self.controller.runtime_pipe, None)
            os.read(self.bell, 1)
            with self.lock:
                key, self.asked = self.asked, None
                if key and key.name in _ONWARD and (key.name != "until" or key.argument.strip()):
                    self.board.stop = ""  # no button counts until the next stop
            if key and (key.name not in ("until", "shell") or key.argument.strip()):
                break
        if key.name in _ONWARD:
            self.board.show(stop="", changes=[], said="")
        return key

    def answer(self, key: keys.Key, stop: Stop) -> None:
        """Show what a button asks for."""
        self.board.show(said=self.answers.to(key, stop), stop=lines.place(stop))

    def say(self, message: str) -> None:
        """Show a sentence."""
        stop = self.controller.stops[-1] if self.controller.stops else None
        self.board.show(said=printable(message), stop=lines.place(stop) if stop else "")

    def ended(self) -> None:
        """No more buttons: the run goes on without stops, or is over."""
        self.board.show(stop="", changes=[])

    def close(self) -> None:
        """Let the pages hear how it ended, for a moment; then end the server."""
        self.board.show(over=True, stop="")
        until(lambda: not self.board.streams, _PATIENCE)
        self.server.shutdown()
        self.server.server_close()
