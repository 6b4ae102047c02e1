"""What holds a run at each stage: a child process (live), or nothing (a recording is played).

Both write on a board (minirun.faces.show.web.board), from which the page in a notebook is drawn,
and both take the same keys.
"""

from collections.abc import Iterable
from typing import Protocol

from minirun.core.errors import UsageError
from minirun.faces.show.step import destinations
from minirun.faces.show.web.board import Board

ONWARD = ("next", "continue", "until")
"""The keys after which the run goes on."""


class RunHolder(Protocol):
    """What holds a run."""

    board: Board

    def press(self, key: str, argument: str) -> None:
        """Do what a key asks for; the board changes when it is done.

        Raises StateError, UsageError.
        """

    def close(self) -> None:
        """Let go of it; give it up if it is held."""


def check(key: str, argument: str, names: Iterable[str] = ()) -> None:
    """Raise UsageError for a key that needs an argument and has none, or names no event.

    `names`: of events, besides those of minirun's log.
    """
    if key in ("until", "shell") and not argument.strip():
        raise UsageError(f"{key} what?", "until mknodat; shell ls /dev")
    if key == "until":
        destinations.check(argument, names)
