"""`--step` at a terminal: the whole screen. The figure, both processes, what changed, last events.

A face of minirun.faces.show.step.controller. Its state is a View (minirun.faces.show.step.frame),
which is drawn anew after each key, each begin of a stage, and each change of the terminal's size.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any

from rich.segment import SegmentLines

from minirun.common import screen
from minirun.common.rich_console import console
from minirun.faces import knowledge
from minirun.faces.knowledge import language
from minirun.faces.show.compare.snapshots import LineDifference
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.order import is_birth
from minirun.faces.show.step import anatomy, differences, frame, keys
from minirun.faces.show.step.controller import Controller
from minirun.faces.show.step.face import Stop
from minirun.faces.show.step.frame import View
from minirun.faces.show.step.pager import Pager
from minirun.faces.show.step.tty import Tty

_MOST_ROWS = 200
_ASCII = str.maketrans("─▶◀✓▼▲»…", "-><+v^>~")
"""What is drawn instead on a terminal without Unicode; no text has these signs there."""
_SCROLL = ("up", "down", "pageup", "pagedown", "home", "end", "j", "k", "escape")
"""The pager's keys while a script is played: the others are the presenter's."""


class Screen:
    """A face that has the whole terminal."""

    def __init__(
        self, controller: Controller, terminal: Tty, chooser: keys.Chooser | None,
        on_screen: Callable[[bool], None], *, large: bool,
    ) -> None:  # fmt: skip
        """`chooser`: whose keys are played (None: the terminal's). `on_screen` is told when the
        screen is taken, and when it is given back."""
        self.controller, self.terminal, self.chooser = controller, terminal, chooser
        self.on_screen = on_screen
        self.console = console(terminal.out, styled=True, styles=frame.STYLES)
        self.unicode = screen.speaks_unicode()
        self.spoken = language.choose(controller.settings.lang) if self.unicode else "en"
        self.view = View(knowledge.words(self.spoken)["screen"], _titles(self.spoken), large=large)
        self.rows: deque[event_row.Row] = deque(maxlen=_MOST_ROWS)
        self.page: Pager | None = None
        self.back = 0
        self.over = False
        self._enter()

    def _enter(self) -> None:
        self.on_screen(True)
        self.terminal.enter()

    def _set(self, **changes: Any) -> None:
        self.view = self.view._replace(**changes)

    def draw(self) -> None:
        """Show what there is to be shown, after the last key that has come. Raises OSError."""
        if self.terminal.pending:
            return
        self.console.size = self.terminal.size()
        self._set(rows=tuple(self.rows), played=bool(self.chooser))
        if self.page:
            keys = self.view.words["played" if self.chooser else "pager"]
            drawn = self.page.draw(self.view, self.console, keys)
        else:
            drawn = frame.screen(self.view, self.console)
        with self.console.capture() as capture:
            self.console.print(SegmentLines(drawn, new_lines=True), crop=False, end="")
        shown = capture.get() if self.unicode else capture.get().translate(_ASCII)
        self.terminal.draw(shown.splitlines())

    def show_event(self, event: Event, rows: list[event_row.Row]) -> None:
        """Show an event."""
        if self.over:
            return
        self.rows.extend(rows)
        view = self.view
        if not view.simulated and event_row.simulated(event):
            self._set(simulated=True)
        if event.kind == "begin":
            self._set(lit=event.stage, stop=None, message="")
        elif event.kind == "end" and not event.ret:
            self._set(done=(*view.done, event.stage))
        elif event.kind == "message" or is_birth(event, 0):
            name = event.name if event.kind == "message" else "birth"
            self._set(messages=(*view.messages, name))
        if event.kind == "begin":
            self.draw()

    def stopped(self, stop: Stop) -> None:
        """Show where the run is held. The event that it is held after is the last one.

        Another process may have gone on: init, after clone3.
        """
        if stop.row:
            if stop.row in self.rows:
                self.rows.remove(stop.row)
            self.rows.append(stop.row)
        self.page, self.back = None, 0
        self._set(stop=stop, lit=stop.stage or 1, message="")
        self.draw()

    def say(self, message: str) -> None:
        """Show a sentence."""
        self._set(message=message)
        self.draw()

    def ended(self) -> None:
        """Give the screen back."""
        self.over = True
        self.terminal.leave()
        self.on_screen(False)

    def key(self) -> keys.Key:
        """Return what is to be done. Raises RunEnded."""
        while True:
            self.draw()
            key = self.chooser.next() if self.chooser else self._typed(self.wait(None))
            if key is None:
                continue
            if key.name == "say":
                self._set(caption=key.argument)
                continue
            self.page = None
            self._set(message="")
            self.back = self.back + 1 if key.name == "back" else 0
            return key

    def wait(self, seconds: float | None, note: str = "") -> str:
        """Return a key that is not the pager's, or "" after a time. Raises RunEnded."""
        if note and not self.view.message:  # else: why a key was refused
            self._set(message=self.view.words[note])
        self.draw()
        while True:
            typed = self.terminal.key(seconds)
            if typed == "resize":
                self.draw()
            elif typed == "l" and not self.page:
                self._set(large=not self.view.large)
                self.draw()
            elif typed and self.page and (not self.chooser or typed in _SCROLL):
                self._turn(typed, self.page)
                self.draw()
            else:
                self._set(message="" if note else self.view.message)
                return typed

    def _turn(self, typed: str, page: Pager) -> None:
        if typed in ("q", "escape", "i"):
            self.page = None
        elif typed == "/":
            page.search(self._line("search"))
        else:
            page.move(typed, self.terminal.size()[1] - 2)

    def _typed(self, typed: str) -> keys.Key | None:
        name = keys.NAMES.get(typed)
        if name == "help" or not name:
            return None
        if name != "until":
            return keys.Key(name)
        pattern = self._line("until")
        return keys.Key("until", pattern) if pattern else None

    def _line(self, label: str) -> str:
        """Let a line be typed below the page; "" if it is given up."""
        typed, page, self.page = "", self.page, None
        while True:
            self._set(message=f"{self.view.words[label]} {typed}_")
            self.draw()
            key = self.terminal.key(None)
            if key in ("\n", "\r", "escape"):
                break
            typed = typed[:-1] if key in ("\x7f", "\b") else typed
            typed += key if len(key) == 1 and key.isprintable() else ""
        self._set(message="")
        self.page = page
        return "" if key == "escape" else typed.strip()

    def answer(self, key: keys.Key, stop: Stop) -> None:
        """Show what a key asks for."""
        words, width = self.view.words, self.terminal.size()[0]
        if key.name == "inspect":
            content = changes_text(stop.changes, words) + anatomy.page(stop.snapshot, width)
            self.page = Pager(frame.where_of(self.view), content)
        elif key.name == "why":
            content = anatomy.why(stop.gate, stop.last, self.spoken, width)
            self.page = Pager(frame.where_of(self.view), content)
        elif key.name == "back":
            earlier = self.controller.earlier(self.back, stop.at)
            if not earlier:
                return self.say(words["none"])
            title = words["recorded"].format(at=earlier["at"])
            self.page = Pager(title, anatomy.page(earlier, width))
        elif key.name == "shell":
            self._shell(key.argument)
        return None

    def _shell(self, command: str) -> None:
        if reason := self.controller.why_no_shell():
            return self.say(reason)
        if command:
            output = self.controller.command(command)
            lines = [event_row.clean(line) for line in output.text.expandtabs().splitlines()]
            self.page = Pager(f"# {command}", "\n".join(lines))
            return None
        self.terminal.leave()
        self.on_screen(False)
        os.write(2, f"{self.view.words['shell']}\n".encode())
        self.controller.shell()
        self._enter()
        return None


def _titles(spoken: str) -> dict[int, str]:
    """Return stage → what happens in it."""
    found = {number: knowledge.stage(number, spoken) for number in event_row.STAGES}
    return {number: topic.title for number, topic in found.items() if topic}


def changes_text(changes: list[LineDifference], words: dict[str, str]) -> str:
    """Return all that changed since the last stop, a line each."""
    found = [f"{words['changed']}:"] + ([] if changes else [f"  {words['nothing']}"])
    for change in changes:
        found.append(f"  {differences.label(change, words)}:")
        found += [f"    + {event_row.clean(line)}" for line in change.new]
        found += [f"    - {event_row.clean(line)}" for line in change.gone]
    return "\n".join(found) + "\n\n"
