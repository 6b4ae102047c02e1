"""A stepped run on a live page: what the controller tells goes to the board, keys are buttons."""

import os
import threading
import time

from minirun.core.visible import say
from minirun.inspect import text as anatomy_text
from minirun.knowledge import language
from minirun.show import keys, lines, text
from minirun.show.controller import Controller
from minirun.show.event import Event
from minirun.show.face import Stop
from minirun.show.web.board import Board
from minirun.show.web.server import Server

_PATIENCE = 3.0
"""Seconds that pages get to fetch how it ended."""
_WIDTH = 100
_ONWARD = ("next", "continue", "until")


class WebFace:
    """Shows a stepped run to browsers."""

    def __init__(self, controller: Controller, port: int = 0) -> None:
        """Start the server, and say where it is. Raises OSError."""
        self.controller = controller
        self.board = Board(controller.id, language.choose(controller.settings.lang))
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

    def told(self, event: Event, rows: "list[text.Row]") -> None:
        """Show an event, with the next stop at the latest."""
        self.board.add(event)

    def stopped(self, stop: Stop) -> None:
        """Show where the run is held, and what changed."""
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
        controller = self.controller
        if key.name == "shell":
            done = controller.command(key.argument)
            status = f"\nexit status {done.status}" if done.status else ""
            self.say(f"# {key.argument}\n{done.text.rstrip()}{' …' if done.cut else ''}{status}")
        elif key.name == "why":
            spoken = language.choose(controller.settings.lang)
            self.say(anatomy_text.why(stop.gate, stop.last, spoken, _WIDTH))
        elif key.name == "back":
            self.say(lines.recorded(controller.earlier(1, stop.at), _WIDTH))
        else:
            self.say(anatomy_text.page(stop.snapshot, _WIDTH))

    def say(self, message: str) -> None:
        """Show a text, such as a command's output."""
        cleaned = "\n".join(text.clean(line) for line in message.splitlines())
        stop = self.controller.stops[-1] if self.controller.stops else None
        self.board.show(said=cleaned, stop=lines.place(stop) if stop else "")

    def ended(self) -> None:
        """No more buttons: the run goes on without stops, or is over."""
        self.board.show(stop="", changes=[])

    def close(self) -> None:
        """Let the pages fetch how it ended, for a moment; then end the server."""
        waiting = self.board.streams
        self.board.show(over=True, stop="")
        deadline = time.monotonic() + _PATIENCE
        while self.board.drawn_after_end < waiting and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.1 if waiting else 0)  # the last page is on its way
        self.server.shutdown()
        self.server.server_close()
