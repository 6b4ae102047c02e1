"""%%shell and %%answer: what a lesson's cells begin with, in IPython and Jupyter.

%%shell         the lines below are commands of the lesson's shell
%%answer 2      so are these; their last line is what happened, in question 2
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minirun.api.course.lesson import CellOutput, Lesson
    from minirun.api.prediction import Verdict


def register(lesson: Lesson) -> None:
    """Give the running IPython, if there is one, the two magics of this lesson."""
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

    shell.register_magic_function(run, "cell", "shell")
    shell.register_magic_function(answer, "cell", "answer")
