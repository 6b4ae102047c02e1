"""`--step=plain`: a stepped run in lines, for pipes, scripts, and screen readers."""

import os

from minirun.common import screen
from minirun.faces.inspect.snapshot import Snapshot
from minirun.faces.knowledge import language
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event
from minirun.faces.show.step import anatomy, keys
from minirun.faces.show.step.controller import Controller
from minirun.faces.show.step.face import Stop
from minirun.faces.show.text import paint

_OUT = 2
"""The descriptor that it writes to: standard error."""
_RULE = 78
_PROMPT = "[n]ext [c]ontinue [u]ntil [i]nspect [s]hell [b]ack [?]why [q]uit [h]elp\n"


class Lines:
    """A face that writes lines to standard error, one after the other."""

    def __init__(
        self, controller: Controller, chooser: keys.Chooser, *, show: bool, style: str
    ) -> None:
        """`show`: events too; `style`: of them, see minirun.faces.show.text.paint."""
        self.controller = controller
        self.chooser = chooser
        self.show = show
        self.painted = paint.painter(_OUT, style)
        self.unicode = screen.speaks_unicode()
        self.back = 0
        """How many stops one has gone back."""

    def show_event(self, event: Event, rows: list[event_row.Row]) -> None:
        """Show an event."""
        if rows and self.show:
            self._write(self.painted(rows))

    def stopped(self, stop: Stop) -> None:
        """Show where the run is held."""
        self.back = 0
        self._say(heading(stop) + _PROMPT)

    def key(self) -> keys.Key:
        """Return the next key. Raises RunEnded."""
        key = self.chooser.next()
        while key.name == "say":
            mark = "»" if self.unicode else ">"
            self._say(f"{mark} {event_row.clean(key.argument, self.unicode)}\n")
            key = self.chooser.next()
        self.back = self.back + 1 if key.name == "back" else 0
        if key.name == "until" and not key.argument:
            self._say("until which event? ")
            return key._replace(argument=keys.line(0, self.controller.runtime_pipe))
        return key

    def answer(self, key: keys.Key, stop: Stop) -> None:
        """Show what a key asks for."""
        if key.name == "inspect":
            self._say(anatomy.page(stop.snapshot, screen.width(_OUT)))
        elif key.name == "back":
            earlier = self.controller.earlier(self.back, stop.at)
            self._say(recorded(earlier, screen.width(_OUT)))
        elif key.name == "why":
            spoken = language.choose(self.controller.settings.lang)
            self._say(anatomy.why(stop.gate, stop.last, spoken, screen.width(_OUT)))
        elif key.name == "shell":
            self._shell(key.argument)
        else:
            self._say(keys.HELP)
        if key.name != "help":
            self._say(_PROMPT)

    def _shell(self, command: str) -> None:
        if reason := self.controller.why_no_shell():
            return self.say(reason)
        if not command:
            self.say("a shell in the half-built container; exit leads back")
        self.controller.shell(command)
        return None

    def say(self, message: str) -> None:
        """Show a sentence."""
        self._say(f"{event_row.clean(message)}\n")

    def ended(self) -> None:
        """Nothing is to be put back."""

    def _say(self, message: str) -> None:
        end = "\r\n" if os.isatty(_OUT) else "\n"
        self._write(message.replace("\n", end))

    def _write(self, message: str) -> None:
        data = message.encode(errors="backslashreplace")
        while data:
            data = data[os.write(_OUT, data) :]


def place(stop: Stop, room: int = 0) -> str:
    """Return where a stop is, in words; what an event says is cut to `room` columns, if given."""
    after = stop.after(room - len(f"after , stage {stop.stage}") if room else 0)
    return event_row.place(stop.at, stop.stage, after)


def heading(stop: Stop) -> str:
    """Return the line above the prompt, up to three if it is long. It stands nowhere else."""
    unicode = screen.speaks_unicode()
    dash = "─" if unicode else "-"
    rule = min(_RULE, screen.width(_OUT) - 2)
    *full, last = event_row.wrap(event_row.clean(place(stop), unicode), rule, f"{dash * 2} ", "   ")
    return "\n".join([*full, f"{last} ".ljust(rule, dash).rstrip()]) + "\n"


def recorded(earlier: Snapshot | None, width: int) -> str:
    """Return the snapshot of an earlier stop as a page, and that it is one."""
    if not earlier:
        return "there is no stop before this one\n"
    head = f"RECORDED at {earlier['at']}: a snapshot; the container has moved on since\n"
    return head + anatomy.page(earlier, width)
