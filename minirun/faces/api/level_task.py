"""A level of the ladder in a notebook: what is to be written, in a file that a cell writes."""

import subprocess
from contextlib import suppress
from pathlib import Path

from minirun.core.errors import MinirunError
from minirun.faces.api.child import Location
from minirun.faces.api.table import Shown
from minirun.faces.knowledge.texts import ENGLISH
from minirun.faces.show.log.event_row import clean, wrap
from minirun.faces.teach.levels import programs

HOME = "~/ladder"
"""Where a learner's programs are, as ``%%writefile`` takes it."""
_WIDTH = 92


class LevelTask(Shown):
    """A level: its gaps, and the check of the learner's program."""

    def __init__(self, number: int, language: str, folder: str) -> None:
        self.level = programs.find(str(number), language)
        self.path = Path(folder) / self.level.file
        """The learner's program."""
        self._language = language
        with suppress(FileExistsError, FileNotFoundError, MinirunError):
            programs.start(self.level, self.path.parent.expanduser())

    def check(self) -> str:
        """Try the program, and return what `minirun level check` says of it."""
        return str(self._check().stdout)

    def holds(self) -> bool:
        """Return True if all that the level asks for holds: for graders."""
        return self._check().returncode == 0

    def _check(self) -> subprocess.CompletedProcess[str]:
        words = ("level", "check", str(self.level.number), str(self.path.expanduser()))
        return Location.usual().call("--lang", self._language, *words, merged=True)

    def __str__(self) -> str:
        words = programs.words(self._language)
        values = {"number": self.level.number, "title": self.level.title, "idea": self.level.idea,
                  "path": self.path, "count": len(self.level.gaps)}  # fmt: skip
        lines = [words[key].format(**values) for key in ("started", "file")]
        for name, sentence in self.level.gaps.items():
            lines += ["", f"{name}:", *wrap(sentence, _WIDTH, "    ")]
        return "\n".join(map(clean, lines))


def level(number: int, language: str = ENGLISH, *, folder: str = HOME) -> LevelTask:
    """Return a level of the ladder, by its number: 0 to 10.

    Its skeleton and linux.py are written into `folder`, if they are not there. Raises UsageError if
    there is no such level, OSError.
    """
    return LevelTask(number, language, folder)
