"""The object that a lesson's first cell makes: live as root on Linux, else from the recording."""

from __future__ import annotations

import atexit
import sys
from typing import Any

from minirun.core.errors import UsageError
from minirun.faces.api import level_task
from minirun.faces.api.course import tab
from minirun.faces.api.course.session import Session
from minirun.faces.api.course.text import Question, Text, last_line, load, plain
from minirun.faces.api.labs import Lab
from minirun.faces.api.launch import Able, can_run
from minirun.faces.api.prediction import Prediction, Verdict
from minirun.faces.api.table import Shown
from minirun.faces.knowledge import language as languages
from minirun.faces.knowledge import texts
from minirun.faces.show.log.event_row import clean


class CellOutput(Shown):
    """What the commands of a cell have printed."""

    def __init__(self, text: str, status: int = 0, mark: str = "") -> None:
        self.text = text
        """On both streams, as it came."""
        self.status = status
        """The exit status of the last command."""
        self.mark = mark
        """Where it was recorded; empty if it was run now."""

    def __str__(self) -> str:
        end = [f"exit status {self.status}"] if self.status else []
        marks = [self.mark] if self.mark else []
        return "\n".join([*map(clean, self.text.expandtabs().splitlines()), *end, *marks])


class Lesson(Shown):
    """A lesson: its questions, and a shell for its cells.

    - `live`: true if its commands run here; if not, it has the reason.
    """

    def __init__(self, name: str, text: Text, language: str, live: Able) -> None:
        self.name = name
        self.live = live
        self._text = text
        self._language = language
        self._session: Session | None = None
        self._asked: dict[int, Prediction] = {}

    def question(self, number: int, answer: int | None = None) -> Prediction:
        """Ask the lesson's question with this number, from 1 on, with a button for each choice.

        `answer`: the number of the choice, if there are no buttons. Raises UsageError.
        """
        found = self._question(number)
        choices = list(map(plain, found.choices))
        self._asked[number] = Prediction(plain(found.question), choices, answer, self._language)
        return self._asked[number]

    def lab(self, name: str) -> Lab:
        """Return a lab, in the lesson's language: a broken container, with buttons.

        Raises ValueError if there is none of that name.
        """
        if self.live:
            self._shell()  # whose state root the lab is in, also before the first command
        return Lab(name, self._language)

    def level(self, number: int) -> level_task.LevelTask:
        """Return what is to be written in a level of the ladder, in the lesson's language.

        Its skeleton is written into ~/ladder, if it is not there. Raises UsageError, OSError.
        """
        return level_task.level(number, self._language)

    def shell(self, commands: str) -> CellOutput:
        """Run the commands in the lesson's shell, or show what they printed when recorded.

        Raises UsageError if they can't be run here and were not recorded.
        """
        if self.live:
            return CellOutput(*self._shell().run(commands))
        said = self._text.said.get(commands.strip())
        if said is None:
            raise UsageError(self._word("changed", reason=self.live.reason))
        return CellOutput(said, mark=self._word("mark", system=self._text.system))

    def answer(self, number: int, output: CellOutput) -> Verdict:
        """Compare the prediction with what happened: the last line that the commands printed.

        If it is another than when the lesson was recorded (a cell before it was left out, or the
        machine is another), the lesson's reason may not hold: the verdict says so, without one.
        """
        found = self._question(number)
        key = last_line(output.text)
        happened = plain(found.chosen(key))
        if key != self._text.happened[number]:
            why = self._word("skipped", system=self._text.system)
            return Verdict(None, happened, why, self._language, differs=True)
        asked = self._asked.get(number) or self.question(number)
        return asked.check(happened, plain(found.why))

    def close(self) -> None:
        """End the lesson's shell; what it has made is removed. A later cell begins a new one."""
        if self._session:
            self._session.close()
        self._session = None

    def _word(self, name: str, **values: str) -> str:
        return texts.lesson(name, self._language).format_map(values)

    def _question(self, number: int) -> Question:
        if not 1 <= number <= len(self._text.questions):
            raise UsageError(f"question {number} of {len(self._text.questions)} (count from 1 on)")
        return self._text.questions[number - 1]

    def _shell(self) -> Session:
        if not self._session or not self._session.alive:
            self.close()
            self._session = Session()
        return self._session

    def typed(self, commands: str) -> tab.Typed:
        """Type the commands into the machine of the site's tab, from a browser's Python.

        What they print stands there. Raises UsageError in any other Python.
        """
        tab.type_into(commands)
        return tab.Typed(self._word("typed", address=tab.address()))

    def __str__(self) -> str:
        if self.live:
            return self._word("live")
        said = self._word("recorded", reason=self.live.reason, system=self._text.system)
        return f"{said}\n{self._word('tab', address=tab.address())}" if tab.is_near() else said


def lesson(name: str, language: str = "") -> Lesson:
    """Begin a lesson of a notebook: %%shell and %%answer cells work from here on.

    `name`: as its notebook, "07-devices"; `language`: en, ko, or the environment's. Its commands
    run as root on Linux; anywhere else each cell shows what it printed when it was recorded.
    From its first command or lab on $MINIRUN_ROOT of this process names a state root of the
    lesson's own: its containers end with it, and those of the reader stay.

    Raises UsageError for a name or a language that there is not.
    """
    global _current
    chosen = languages.choose(language)
    begun = Lesson(name, load(name, chosen), chosen, can_run())
    if _current:
        _current.close()
    else:
        atexit.register(_close)
    _current = begun
    _register_magics(begun)
    return begun


def _register_magics(lesson: Lesson) -> None:
    """Give the running IPython, if there is one, three magics: what a lesson's cells begin with.

    %%shell         the lines below are commands of the lesson's shell
    %%answer 2      so are these; their last line is what happened, in question 2
    %%minirun       the lines below are typed into the machine of the site's tab
    """
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return

    def run(line: str, cell: str) -> CellOutput:
        return lesson.shell(cell)

    def answer(line: str, cell: str) -> Verdict:
        from IPython.display import display

        said = lesson.shell(cell)
        display(said)  # type: ignore[no-untyped-call]
        return lesson.answer(int(line), said)

    def typed(line: str, cell: str) -> tab.Typed:
        return lesson.typed(cell)

    shell.register_magic_function(run, "cell", "shell")
    shell.register_magic_function(answer, "cell", "answer")
    shell.register_magic_function(typed, "cell", "minirun")


_current: Lesson | None = None


def _close() -> None:
    if _current:
        _current.close()
