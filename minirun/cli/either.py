"""Verbs that runc and docker both have: the container decides, or for `create` the arguments.

Engines call runc's, to the letter: minirun.cli.runc.control. A container that `run IMAGE` or
`create IMAGE` has made is docker's.
"""

from __future__ import annotations

import os

from minirun.cli import part, several
from minirun.cli.flags import Flags
from minirun.common import docker_record
from minirun.core.errors import StateError
from minirun.core.keeping import places, state
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy

with lazy:
    from minirun.cli.run import run_image
    from minirun.cli.runc import control, create


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
        return control.main_start(args, settings)
    return int(part("minirun.docker.start", "main_start")(args, settings))


def main_kill(args: list[str], settings: Settings) -> int:
    """Send a signal; docker's is KILL unless another is named, and several containers may be."""
    flags = control.Kill(args)
    one = len(flags.args) == 1 and is_dockers(settings, flags.args[0])
    if not flags.all and (flags.signal or len(flags.args) > 2 or one):
        number = control.signal_number(flags.signal or "KILL")
        return int(
            several.each_container(flags.args, settings, lambda it: control.kill(it, number))
        )
    return control.main_kill(args, settings)


def main_pause(args: list[str], settings: Settings) -> int:
    """Stop all processes of a container where they are; docker's: of several."""
    words = Flags(args, "pause").args
    if len(words) == 1 and not is_dockers(settings, words[0]):
        return control.main_pause(args, settings)
    words or Flags(args, "pause").one_id()
    return int(several.each_container(words, settings, control.pause))


def main_unpause(args: list[str], settings: Settings) -> int:
    """Let paused containers go on, and print their names: docker's. runc's is `resume`."""
    words = Flags(args, "unpause").args
    words or Flags(args, "unpause").one_id()
    return int(several.each_container(words, settings, control.resume))


def is_dockers(settings: Settings, name: str) -> bool:
    """Return True for one of `run IMAGE` or `create IMAGE`, or for a part of a name."""
    try:
        return docker_record.of(state.load(settings.root, name)).managed
    except StateError:
        return not state.is_id(name) or not os.path.lexists(f"{settings.root}/{name}")
