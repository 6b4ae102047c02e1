"""runc's small commands, to the letter, for engines: start, kill, delete, pause, resume.

What they do to a container: minirun.running.control.
"""

from __future__ import annotations

from minirun.cli.flags import Flags, flag
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.running import control, lookup

with lazy:
    from minirun.cli import words


class Kill(Flags):
    """Send a signal to a container."""

    command = "kill"
    all: bool = flag("-a")
    signal: str = flag("-s")


class Delete(Flags):
    """Delete containers."""

    command = "delete"
    force: bool = flag("-f")


def main_start(args: list[str], settings: Settings) -> int:
    """Let a created container run its command."""
    container = lookup.load(settings, roots.own(settings, args[0]))
    status = container.record.status
    if status == state.STOPPED:
        raise StateError("cannot start a container that has stopped")
    if status != state.CREATED:
        text = f"cannot start a container in the {status} state"
        raise StateError(text, "minirun ps -a shows the states")
    control.start(container)
    return 0


def main_kill(args: list[str], settings: Settings) -> int:
    """Send a signal (TERM by default) to a container's init, or with --all to all its processes."""
    flags = Kill(args)
    if not 1 <= len(flags.args) <= 2:
        text = f'"minirun kill" needs an id and perhaps a signal, got {len(flags.args)} arguments'
        raise UsageError(text, "minirun kill ID [SIGNAL]", 1)
    number = words.signal_number(flags.args[1] if len(flags.args) > 1 else "TERM")
    container = lookup.load(settings, roots.own(settings, flags.args[0]))
    control.kill(container, number, everyone=flags.all)
    return 0


def main_delete(args: list[str], settings: Settings) -> int:
    """Delete containers; a running one only with --force, whatever its state."""
    flags = Delete(args)
    if not flags.args:
        raise UsageError('"minirun delete" needs at least one id', "minirun delete ID", 1)
    for name in flags.args:
        control.delete(settings, roots.own(settings, name), force=flags.force)
    return 0


def main_pause(args: list[str], settings: Settings) -> int:
    """Stop all processes of a container where they are."""
    name = Flags(args, "pause").one_id()
    control.pause(lookup.load(settings, roots.own(settings, name)))
    return 0


def main_resume(args: list[str], settings: Settings) -> int:
    """Let the processes of a paused container go on."""
    flags = Flags(args, "resume")
    control.resume(lookup.load(settings, roots.own(settings, flags.one_id())))
    return 0
