"""A lab in a notebook: its question, and buttons that call `minirun lab`."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from minirun.core.errors import UsageError
from minirun.core.lazy import lazy
from minirun.faces.api import mime
from minirun.faces.api.child import Location
from minirun.faces.api.course.text import plain
from minirun.faces.api.table import Shown
from minirun.faces.knowledge.texts import ENGLISH
from minirun.faces.show.log.event_row import clean
from minirun.faces.teach.lab import labs
from minirun.faces.teach.lab.places import LABS, graded_mark

with lazy:
    from minirun.faces.api import buttons

WORDS = ("check", "hint", "solution", "reset")


class Lab(Shown):
    """One lab. Each method calls the command of its name, and returns what this has printed."""

    def __init__(self, name: str, language: str, graded: bool = False) -> None:
        try:
            self._texts = labs.find(name, language)
        except UsageError as error:
            raise ValueError(error.line()) from None
        self.name = self._texts.name
        self.language = language
        self.graded = graded
        self._widget: Any = None

    def start(self, predict: str = "") -> str:
        """Break it. `predict`: what you believe, by the choice's number or name."""
        believed = ("--predict", predict) if predict else ()
        return self.call("start", *believed, *(("--graded",) if self.graded else ()))

    def check(self) -> str:
        """Start it anew, and ask the kernel whether it is mended."""
        return self.call("check")

    @property
    def folder(self) -> Path:
        """Where the lab's files are, once it is started: run.sh starts it."""
        return Path(os.path.realpath(Location.usual().root)) / LABS / self.name

    def mend(self, commands: str, seconds: float = 60) -> str:
        """Run shell commands in the lab's folder; return what they print, and how they failed.

        After `seconds` they are ended. Raises ValueError if the lab is not started.
        """
        if not os.path.isdir(self.folder):
            raise ValueError(f"the lab {self.name} is not started")
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        shell = subprocess.Popen(
            ["/bin/sh", "-c", commands], cwd=self.folder, env=os.environ | {"PATH": path},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        try:
            said = shell.communicate(timeout=seconds)[0]
            return said + (f"(exit status {shell.returncode})\n" if shell.returncode else "")
        except BaseException as error:  # an interrupt of the cell, too
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            said = shell.communicate()[0]
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return f"{said}(ended after {seconds:g} s)\n"

    def is_mended(self) -> bool:
        """Start it anew, and return True if the kernel says that all is well: for graders.

        A graded lab has to be the one that was started so: after a reset it is another.
        """
        if self.graded and not os.path.exists(graded_mark(self.folder)):
            return False
        return Location.usual().call("lab", "check", self.name).returncode == 0

    def hint(self) -> str:
        """Return a hint, by how it fails now."""
        return self.call("hint")

    def solution(self) -> str:
        """Return one way to mend it."""
        return self.call("solution")

    def reset(self) -> str:
        """Remove all that it has made."""
        return self.call("reset")

    def call(self, word: str, *more: str) -> str:
        """Call `minirun lab`; return what it has printed, errors too."""
        told = ("--lang", self.language, "lab", word, self.name, *more)
        said = Location.usual().call(*told, merged=True).stdout
        return "\n".join(clean(line) for line in said.splitlines())

    def __str__(self) -> str:
        texts = self._texts
        choices = [f"  {number}  {text}" for number, text in enumerate(texts.choices.values(), 1)]
        head = f"{texts.number} · {texts.title}\n{texts.says}\n{texts.question}"
        return "\n".join([head, *choices, f"minirun lab start {self.name}"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _repr_mimebundle_(self, **kinds: Any) -> dict[str, Any]:
        """Return the text; in a notebook that has anywidget, the buttons too."""
        if not self._widget and mime.can_show_widgets():
            texts, words = self._texts, labs.words(self.language)
            self._widget = buttons.LabButtons(
                self,
                title=f"{texts.number} · {texts.title}",
                says=plain(texts.says),
                question=plain(f"{words['predict']} {texts.question}"),
                choices=[plain(choice) for choice in texts.choices.values()],
                words=[[word, words[f"button_{word}"]] for word in WORDS],
                labels={key: words[key] for key in ("place", "mend", "button_mend")},
            )
        return mime.bundle(self._widget, str(self), self._repr_html_())


def lab(name: str, language: str = ENGLISH, *, graded: bool = False) -> Lab:
    """Return a lab of `minirun lab list`, by its name or number; in a notebook it has buttons.

    `graded`: it shows no solution, from its start to its reset. Raises ValueError if there is no
    lab of that name.
    """
    return Lab(name, language, graded)
