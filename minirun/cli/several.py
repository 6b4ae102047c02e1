"""The same for each of several containers, as docker's commands do it: one line for each."""

from __future__ import annotations

from minirun.cli.output import show
from minirun.core.errors import MinirunError
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say
from minirun.engines import roots
from minirun.running import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.core.container import Container


def each(names: list[str], act: Callable[[str], None]) -> int:
    """Do it to each container, and print its name; return the last error's status, else 0."""
    status = 0
    for name in names:
        try:
            act(name)
        except MinirunError as error:
            say(error.line())
            status = error.status or status
        else:
            show([name])
    return status


def each_container(names: list[str], settings: Settings, act: Callable[[Container], None]) -> int:
    """Do it to each of the containers, and print its name; return the exit status."""

    def act_on(name: str) -> None:
        act(lookup.load(*roots.locate(settings, name, only_made_up=True)))

    return each(names, act_on)
