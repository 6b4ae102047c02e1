"""What `run` shows while a container starts: from its flags to the processes that look on."""

import os

from minirun.cli.run import Run
from minirun.core import gates
from minirun.core.errors import UsageError
from minirun.core.visible import say
from minirun.show.viewers import LogViewers, ViewOptions

_LONGEST_PACE = 3600


def viewers(flags: Run, *, show: bool) -> LogViewers:
    """Return who looks on; with `show` on standard error. Raises UsageError, OSError."""
    step = flags.step or ("stage" if flags.script else "")
    if step not in ("", "stage", gates.EVERY_EVENT):
        raise UsageError(f"invalid --step {step!r}", "--step, or --step=syscall")
    if step and not flags.script and (flags.detach or not os.isatty(0)):
        hint = "or play the keys of a file: --script FILE"
        raise UsageError("--step needs a terminal to read keys from", hint)
    pace = _pace(flags, held=bool(step))
    whole = step or pace or flags.progress == "lanes"
    style = "plain" if flags.plain or flags.progress == "plain" else "lanes" if whole else "summary"
    late = style == "summary" and not (flags.tty or flags.detach)
    options = ViewOptions(show, style, step, flags.script, late, flags.snapshots, pace)
    if not (step or flags.snapshots):
        return LogViewers(options)
    from minirun.show.stepped import SteppedViewers  # 40 ms

    return SteppedViewers(options)


def _pace(flags: Run, *, held: bool) -> float:
    """Return the seconds of --pace, 0 without it; say what it does. Raises UsageError."""
    if not flags.pace:
        return 0
    try:
        seconds = float(flags.pace)
    except ValueError:
        seconds = -1
    if not 0 < seconds <= _LONGEST_PACE:
        raise UsageError(f"invalid --pace {flags.pace!r}", "seconds at each boundary: 0.5, 2")
    if held or flags.snapshots or flags.detach:
        other = "--step" if held else "--snapshots" if flags.snapshots else "--detach"
        raise UsageError(f"--pace or {other}, not both")
    say(f"--pace {flags.pace}: the run is held for {seconds:g} s at each boundary of a stage")
    return seconds
