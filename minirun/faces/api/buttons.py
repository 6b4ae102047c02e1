"""Widgets with buttons in a notebook: a question, and a lab. (A stepped run's page: stepping.)

They need anywidget (pip install 'minirun[notebook]'), and a front end that has it: JupyterLab and
Notebook 7. Source: anywidget's documentation.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from minirun.faces.show.log.event_row import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class LabActions(Protocol):
        """What the buttons call of a lab: minirun.faces.api.labs."""

        @property
        def folder(self) -> Path:
            """Where it lies, once it is started."""

        def start(self, choice: str) -> str:
            """Answer the question, and make the container."""

        def call(self, word: str) -> str:
            """Call one of its commands."""

        def mend(self, commands: str) -> str:
            """Run commands in its folder."""


_HERE = Path(__file__).parent


class ChoiceButtons(anywidget.AnyWidget):
    """A question with a button for each choice."""

    _esm = (_HERE / "choices.js").read_text(encoding="utf-8")
    _css = (_HERE / "choices.css").read_text(encoding="utf-8")
    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    answer = traitlets.Int(0).tag(sync=True)
    """The number of the choice, from 1 on; 0 for none yet."""
    checked = traitlets.Bool(False).tag(sync=True)
    """True once it was compared with what happened: then it stays as it is."""

    def __init__(self, **state: Any) -> None:
        super().__init__(**state)
        self.on_msg(self._receive)

    def _receive(self, widget: ChoiceButtons, content: Any, buffers: Any) -> None:
        """Take the number of a button."""
        answer = content.get("answer")
        if isinstance(answer, int) and 1 <= answer <= len(self.choices) and not self.checked:
            self.answer = answer


class LabButtons(anywidget.AnyWidget):
    """A lab's question, whose choices start it; then its commands, its folder and a place to mend.

    What the learner types is run by a shell in the lab's folder, as root: so does a terminal.
    """

    _esm = (_HERE / "lab.js").read_text(encoding="utf-8")
    _css = (_HERE / "lab.css").read_text(encoding="utf-8")
    title = traitlets.Unicode().tag(sync=True)
    says = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    words: Any = traitlets.List().tag(sync=True)
    """The commands, each with what stands on its button."""
    labels: Any = traitlets.Dict().tag(sync=True)
    """What stands above run.sh, above the box for commands, and on its button."""
    said = traitlets.Unicode("").tag(sync=True)
    started = traitlets.Bool(False).tag(sync=True)
    folder = traitlets.Unicode("").tag(sync=True)
    script = traitlets.Unicode("").tag(sync=True)
    """run.sh, as it is now."""
    turn = traitlets.Int(0).tag(sync=True)
    """How many commands were run: it changes last, and with each."""

    def __init__(self, lab: LabActions, **state: Any) -> None:
        super().__init__(**state, **_seen(lab))
        self._lab = lab
        self.on_msg(self._receive)

    def _receive(self, widget: LabButtons, content: Any, buffers: Any) -> None:
        """Take a button: the number of a choice, a command, or what is to be run in the folder."""
        choice, word, mend = (content.get(name) for name in ("choice", "word", "mend"))
        if isinstance(choice, int) and 1 <= choice <= len(self.choices):
            said = self._lab.start(str(choice))
        elif word in [each for each, _ in self.words]:
            said = self._lab.call(word)
        elif isinstance(mend, str) and os.path.isdir(self._lab.folder):
            printed = f"{mend.strip()}\n{self._lab.mend(mend)}".splitlines()
            said = "\n".join(["$ " + clean(printed[0]), *map(clean, printed[1:])])
        else:
            return
        with self.hold_sync():
            self.said = said
            for name, value in _seen(self._lab).items():
                setattr(self, name, value)
            self.turn += 1


def _seen(lab: LabActions) -> dict[str, Any]:
    """Return whether a lab is started, where, and its run.sh as it is now."""
    script = lab.folder / "run.sh"
    text = ""
    with suppress(OSError):  # a user other than root cannot look there
        text = script.read_text(errors="replace") if script.is_file() else ""
    shown = "\n".join(map(clean, text.expandtabs().splitlines()))
    return {"folder": str(lab.folder), "started": os.path.isdir(lab.folder), "script": shown}
