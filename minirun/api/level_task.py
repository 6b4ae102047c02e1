"""A level of the ladder in a notebook: what is to be written, in a file that a cell writes."""

from contextlib import suppress
from pathlib import Path

from minirun.api.table import Shown
from minirun.core.errors import MinirunError
from minirun.show.text.event_row import clean, wrap
from minirun.teach.levels import programs

HOME = Path("~/ladder")
"""Where the learner's programs are, as ``%%writefile`` takes it."""
_WIDTH = 92


class LevelTask(Shown):
    """The gaps of a level. Its skeleton and linux.py are in ~/ladder, if the programs are here.

    Raises UsageError if there is no such level, OSError.
    """

    def __init__(self, number: int, language: str) -> None:
        self.level = programs.find(str(number), language)
        self.path = HOME / self.level.file
        self._words = programs.words(language)
        with suppress(FileExistsError):
            try:
                programs.start(self.level, HOME.expanduser())
            except MinirunError:
                return  # minirun without its programs, as in a browser: the gaps are known still

    def __str__(self) -> str:
        values = {"number": self.level.number, "title": self.level.title, "idea": self.level.idea,
                  "path": self.path, "count": len(self.level.gaps)}  # fmt: skip
        lines = [self._words[key].format(**values) for key in ("started", "file")]
        for name, sentence in self.level.gaps.items():
            lines += ["", f"{name}:", *wrap(sentence, _WIDTH, "    ")]
        return "\n".join(map(clean, lines))
