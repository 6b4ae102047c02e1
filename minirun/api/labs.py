"""A lab in a notebook: its question, and buttons that call `minirun lab`."""

import subprocess
from html import escape
from pathlib import Path
from typing import Any

from minirun.api import mime
from minirun.api.child import Location
from minirun.api.table import Shown
from minirun.core.errors import UsageError
from minirun.knowledge.texts import ENGLISH
from minirun.show.text import clean
from minirun.teach.lab import catalogue

WORDS = ("check", "hint", "solution", "reset")


class Lab(Shown):
    """One lab. Each method calls the command of its name, and returns what this has printed."""

    def __init__(self, name: str, language: str) -> None:
        try:
            self._texts = catalogue.find(name, language)
        except UsageError as error:
            raise ValueError(error.line()) from None
        self.name = self._texts.name
        self.language = language
        self._widget: Any = None

    def start(self, predict: str = "") -> str:
        """Break it. `predict`: what you believe, by the choice's number or name."""
        return self.call("start", *(("--predict", predict) if predict else ()))

    def check(self) -> str:
        """Start it anew, and ask the kernel whether it is mended."""
        return self.call("check")

    def mend(self, commands: str) -> str:
        """Run shell commands in the lab's folder; return what they print.

        Raises ValueError if the lab is not started.
        """
        folder = Path(Location.usual().root) / ".labs" / self.name
        if not folder.is_dir():
            raise ValueError(f"the lab {self.name} is not started")
        done = subprocess.run(
            ["/bin/sh", "-c", commands], cwd=folder, text=True, errors="replace", check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.stdout

    def is_mended(self) -> bool:
        """Start it anew, and return True if the kernel says that all is well: for graders."""
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
        if not self._widget and (widgets := mime.available()):
            texts, words = self._texts, catalogue.words(self.language)
            self._widget = widgets.LabButtons(
                self.call,
                title=f"{texts.number} · {texts.title}",
                says=_plain(texts.says),
                question=_plain(f"{words['predict']} {texts.question}"),
                choices=[_plain(choice) for choice in texts.choices.values()],
                words=[[word, words[f"button_{word}"]] for word in WORDS],
            )
        return mime.bundle(self._widget, str(self), self._repr_html_())


def _plain(text: str) -> str:
    """Return a text without the marks around commands, which a button would show."""
    return text.replace("`", "")


def lab(name: str, language: str = ENGLISH) -> Lab:
    """Return a lab of `minirun lab list`, by its name or number; in a notebook it has buttons.

    Raises ValueError if there is none of that name.
    """
    return Lab(name, language)
