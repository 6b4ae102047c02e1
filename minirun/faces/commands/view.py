"""What `run` shows while a container starts: from its flags to the processes that look on."""

from __future__ import annotations

import os
import re

from minirun.common.ports import MOST
from minirun.common.quantities import decimal
from minirun.core import gates
from minirun.core.errors import UsageError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.visible import say
from minirun.core.lazy import lazy
from minirun.faces.show.text.viewers import LogViewers, ViewOptions

with lazy:
    from minirun.faces.show.step import stepper_process  # 40 ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.running.shelves import RunViewFlags

_LONGEST_PACE = 3600
_PAIR = re.compile(r"fd:(\d{1,6}),(\d{1,6})", re.ASCII)
"""--web for a program: see minirun.faces.show.step.piped."""
_LEAST = {False: (60, 20), True: (40, 16)}
"""Columns and lines that the whole-screen stepper needs; True: with --large."""


def viewers(flags: RunViewFlags, *, show: bool) -> LogViewers:
    """Return who looks on; with `show` on standard error. Raises UsageError, OSError."""
    step, lines = _step(flags)
    keyboard = os.isatty(0) or bool(flags.web)
    if step and not flags.script and (flags.detach or not keyboard):
        hint = "or play the keys of a file: --script FILE"
        raise UsageError("--step needs a terminal to read keys from", hint)
    if flags.rehearse and not flags.script:
        raise UsageError("--rehearse plays a script", "--script FILE")
    if flags.large and not step:
        raise UsageError("--large is the stepper's", "with --step or --script")
    whole = step and not (lines or flags.web) and os.isatty(2)
    screen = bool(whole and _fits(_LEAST[flags.large]))
    pace = _pace(flags, held=bool(step))
    asked = step or pace or flags.snapshots or (show and flags.progress != "auto")
    show = _has_log(bool(asked or (show and flags.plain))) and show
    drawn = (step and not screen) or pace or flags.progress == "lanes"
    style = "plain" if flags.plain or flags.progress == "plain" else "lanes" if drawn else "summary"
    late = style == "summary" and not (flags.tty or flags.detach)
    options = ViewOptions(
        show, style, step, flags.script, screen, flags.large, flags.rehearse, late,
        flags.snapshots, pace, _port(flags, step),
    )  # fmt: skip
    if not (step or flags.snapshots):
        return LogViewers(options)
    return stepper_process.SteppedViewers(options)


def _has_log(asked: bool) -> bool:
    """Return False if there will be no log to show. Raises UsageError if a view is `asked` for."""
    if os.environ.get("MINIRUN_LOG") != "off":
        return True
    if asked:
        raise UsageError("MINIRUN_LOG=off: there is no log that a view could show", "leave it out")
    return False


def _step(flags: RunViewFlags) -> tuple[str, bool]:
    """Return what --step stops at, and True if it is to be lines. Raises UsageError."""
    words = [word for word in flags.step.split(",") if word]
    if unknown := [word for word in words if word not in ("stage", gates.EVERY_EVENT, "plain")]:
        hint = "--step, --step=syscall, --step=plain or --step=syscall,plain"
        raise UsageError(f"invalid --step {unknown[0]!r}", hint)
    step = "stage" if words or flags.script else ""
    lines = "plain" in words or flags.plain or flags.progress == "plain"
    return gates.EVERY_EVENT if gates.EVERY_EVENT in words else step, lines


def _port(flags: RunViewFlags, step: str) -> str:
    """Return the port of --web, or its descriptors; "" without it. Raises UsageError."""
    if not flags.web:
        return ""
    if not step or flags.script or flags.detach:
        hint = "without --script and --detach"
        raise UsageError("--web is a page for --step", f"--step --web, {hint}")
    if pair := _PAIR.fullmatch(flags.web):
        try:
            for number in pair.groups():
                os.set_inheritable(int(number), False)  # no other program is to hold them
            return flags.web
        except OSError:
            raise UsageError(f"--web={flags.web}: {number} is no open descriptor") from None
    number = whole(flags.web, 0, MOST)
    if number is None:
        raise UsageError(f"invalid --web {flags.web!r}", "a port: --web=8080")
    return str(number)


def _fits(least: tuple[int, int]) -> bool:
    """Return True if the terminal can have the whole-screen stepper; else say why it cannot."""
    columns, rows = os.get_terminal_size(2)
    if os.environ.get("TERM", "dumb") == "dumb":
        say("--step in lines: the terminal is dumb (TERM)")
    elif columns < least[0] or rows < least[1]:
        needed = f"{least[0]}x{least[1]}"
        say(f"--step in lines: the terminal is {columns}x{rows}, the screen needs {needed}")
    else:
        return True
    return False


def _pace(flags: RunViewFlags, *, held: bool) -> float:
    """Return the seconds of --pace, 0 without it; say what it does. Raises UsageError."""
    if not flags.pace:
        return 0
    seconds = decimal(flags.pace)
    if seconds is None or not 0 < seconds <= _LONGEST_PACE:
        raise UsageError(f"invalid --pace {flags.pace!r}", "seconds at each boundary: 0.5, 2")
    if held or flags.snapshots or flags.detach:
        other = "--step" if held else "--snapshots" if flags.snapshots else "--detach"
        raise UsageError(f"--pace or {other}, not both")
    say(f"--pace {flags.pace}: the run is held for {seconds:g} s at each boundary of a stage")
    return seconds
