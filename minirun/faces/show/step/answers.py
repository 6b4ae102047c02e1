"""What a page answers to a button of the presenter: texts, as the stepper's terminal has them."""

from minirun.faces.knowledge import language
from minirun.faces.show.log import event_row
from minirun.faces.show.step import anatomy, lines
from minirun.faces.show.step.controller import Controller
from minirun.faces.show.step.face import Output, Stop
from minirun.faces.show.step.keys import Key

_WIDTH = 100
"""Columns of a text on a page."""


class Answers:
    """Answers the keys that look and do not go on."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.back = 0
        """How many stops one has gone back."""

    def to(self, key: Key, stop: Stop) -> str:
        """Return the answer, printable whatever the container has put into it."""
        self.back = self.back + 1 if key.name == "back" else 0
        return printable(self._text(key, stop))

    def _text(self, key: Key, stop: Stop) -> str:
        controller = self.controller
        if key.name == "shell":
            return printed(key.argument, controller.command(key.argument))
        if key.name == "why":
            spoken = language.choose(controller.settings.lang)
            return anatomy.why(stop.gate, stop.last, spoken, _WIDTH)
        if key.name == "back":
            return lines.recorded(controller.earlier(self.back, stop.at), _WIDTH)
        return anatomy.page(stop.snapshot, _WIDTH)


def printed(command: str, done: Output) -> str:
    """Return a command, what it printed, and its exit status unless it is 0."""
    status = f"\nexit status {done.status}" if done.status else ""
    return f"# {command}\n{done.text.rstrip()}{' …' if done.cut else ''}{status}"


def printable(message: str) -> str:
    """Return a text of lines without what a terminal or a page would obey."""
    return "\n".join(event_row.clean(line) for line in message.splitlines())
