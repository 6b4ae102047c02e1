"""`minirun replay`: a recorded start played again, at its own pace or at another.

It reads a file and nothing else: no root, no Linux, no network, no container. minirun.recordings
are found by their names.
"""

import math
import os
import sys
import time

from minirun import recordings
from minirun.cli import recorded, timeline
from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core.errors import UsageError
from minirun.core.settings import Settings
from minirun.show import recording
from minirun.show.recording import Recording

FLAGS = (
    Flag(
        ("--speed",), "N",
        "times its own pace: 0.01 is slow, 0 at once (default: 1; at once off a terminal)",
    ),
    *timeline.VIEWS,
    HELP,
)  # fmt: skip
SUMMARY = "Play a recorded start; without an argument, list the recordings that are shipped."
LONGEST = 1.0
"""Seconds: no pause is longer, however long somebody stood at a gate."""


def main(args: "list[str]", settings: Settings) -> int:
    """Play or export a recording, or list those that are shipped."""
    flags = parse("replay", FLAGS, args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("replay", "[FILE|NAME]", SUMMARY, FLAGS))
        return 0
    if len(flags.args) > 1:
        raise UsageError("replay takes one recording", "minirun replay FILE", status=1)
    timeline.check(flags)
    speed = _speed(flags.speed)
    if not flags.args:
        timeline.say(_listing())
        return 0
    found = _read(flags.args[0], settings)
    timeline.show(found, flags, settings, (lambda gap: _pause(gap, speed)) if speed else None)
    return 0


def _read(name: str, settings: Settings) -> list[Recording]:
    if name in recordings.RECORDINGS and not os.path.exists(name):
        return recording.read(recordings.path(name))
    return timeline.read(name, settings)


def _speed(given: str) -> float:
    """Return how many times faster than it was; 0 for at once. Raises UsageError."""
    if not given:
        return 1.0 if os.isatty(1) else 0.0
    try:
        speed = float(given)
    except ValueError:
        speed = -1.0
    if not 0 <= speed < math.inf:
        raise UsageError(f"invalid --speed {given!r}", "a number: 0.1, 2, or 0 for at once", 1)
    return speed


def _pause(nanoseconds: int, speed: float) -> None:
    time.sleep(min(LONGEST, nanoseconds / 1e9 / speed))


def _listing() -> str:
    head = ("NAME", "CONTAINERS", "WHAT IT SHOWS")
    rows = []
    for name, what in recordings.RECORDINGS.items():
        found = recording.read(recordings.path(name))
        rows.append((name, " ".join(each.id for each in found), what))
    return recorded.table([head, *rows])
