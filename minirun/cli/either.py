"""Verbs that runc and docker both have: the container decides, for `create` and `ps` the arguments.

Engines call runc's, to the letter: minirun.cli.runc. A container that `run IMAGE` or `create IMAGE`
has made is docker's.
"""

from __future__ import annotations

import os

from minirun.cli import as_runc, part
from minirun.cli.flags import ANY, Flags, flag
from minirun.cli.several import each
from minirun.common import docker_record
from minirun.core.errors import StateError
from minirun.core.keeping import places, state
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy

with lazy:
    from minirun.cli import words
    from minirun.cli.run import run_image
    from minirun.cli.runc import control as runcs
    from minirun.cli.runc import create, ps
    from minirun.engines import roots
    from minirun.running import control, lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.core.container import Container


class Ps(Flags):
    """List containers, or the processes of one, with the options of ps(1)."""

    command, mixed = "ps", False
    all: bool = flag("-a")
    filter: list[str] = flag("-f")
    format: str
    last: str = flag("-n", default="-1")
    latest: bool = flag("-l")
    no_trunc: bool
    quiet: bool = flag("-q")
    size: bool = flag("-s")


def main_create(args: list[str], settings: Settings) -> int:
    """Create a container from a bundle, whose init waits at exec.fifo; of an image: docker's."""
    names = ("-b", "--bundle", "-bundle", "--help")
    named = any(word.partition("=")[0] in names for word in args)
    if not args or named or os.path.exists(places.CONFIG):
        return int(create.main(args, settings))
    return int(run_image.main_create(args, settings))


def main_start(args: list[str], settings: Settings) -> int:
    """Let a created container run its command; docker's: of one that has stopped, too."""
    if len(args) == 1 and args[0][:1] != "-" and not is_dockers(settings, args[0]):
        return runcs.main_start(args, settings)
    return int(part("minirun.docker.start", "main_start")(args, settings))


def main_kill(args: list[str], settings: Settings) -> int:
    """Send a signal; docker's is KILL unless another is named, and several containers may be."""
    flags = runcs.Kill(args)
    one = len(flags.args) == 1 and is_dockers(settings, flags.args[0])
    if not flags.all and (flags.signal or len(flags.args) > 2 or one):
        number = words.signal_number(flags.signal or "KILL")
        return _each(flags.args, settings, lambda it: control.kill(it, number))
    return runcs.main_kill(args, settings)


def main_pause(args: list[str], settings: Settings) -> int:
    """Stop all processes of a container where they are; docker's: of several."""
    names = Flags(args, "pause").args
    if len(names) == 1 and not is_dockers(settings, names[0]):
        return runcs.main_pause(args, settings)
    Flags(args, "pause").takes(1, ANY)
    return _each(names, settings, control.pause)


def main_unpause(args: list[str], settings: Settings) -> int:
    """Let paused containers go on, and print their names: docker's. runc's is `resume`."""
    names = Flags(args, "unpause").args
    Flags(args, "unpause").takes(1, ANY)
    return _each(names, settings, control.resume)


def main_ps(args: list[str], settings: Settings) -> int:
    """List containers: docker's; with an id its processes: runc's."""
    flags = Ps(args)
    forms = [text for text in flags.filter if text in ps.FORMATS]
    if forms:  # -f json is runc's --format: a filter has an equals sign
        flags.format = forms[-1]
        flags.filter = [text for text in flags.filter if text not in forms]
    if not flags.args:
        return int(part("minirun.docker.ps", "list_containers")(flags, settings))

    def list_processes() -> int:
        keys = flags.known().keys() - {"format", "help"}
        flags.refuse_flags(keys, "with an id", "ps ID -o pid prints the pids alone")
        return int(ps.main(flags.args, flags.format, settings))

    return as_runc(list_processes)


def _each(names: list[str], settings: Settings, act: Callable[[Container], None]) -> int:
    """Do it to each of docker's containers, and print its name; return the exit status."""

    def act_on(name: str) -> None:
        act(lookup.load(*roots.locate(settings, name, only_made_up=True)))

    return each(names, act_on)


def is_dockers(settings: Settings, name: str) -> bool:
    """Return True for one of `run IMAGE` or `create IMAGE`, or for a part of a name."""
    try:
        return docker_record.of(state.load(settings.root, roots.own(settings, name))).managed
    except StateError:
        return not state.is_id(name) or not os.path.lexists(f"{settings.root}/{name}")
