"""The same for each of several things, as docker's commands do it: a line for each."""

from __future__ import annotations

from minirun.cli.output import show
from minirun.core.errors import MinirunError
from minirun.core.keeping.visible import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def each(names: list[str], act: Callable[[str], str | None]) -> int:
    """Do it to each, and print its name, or the line that `act` returns.

    An error is a line too, and stops none of the others. Return 1 if one has failed, else 0.
    """
    status = 0
    for name in names:
        try:
            line = act(name)
        except MinirunError as error:
            say(error.line())
            status = min(error.status, 1) or status
        else:
            show([line or name])
    return status
