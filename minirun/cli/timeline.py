"""`minirun timeline`: a container's start, shown again from its log.

Without an argument it lists what is recorded: living containers, and those that have gone, of every
engine that has called minirun (minirun.engines.roots). The views are those of `replay` too, so
nothing here needs Linux.
"""

import json
import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from minirun.cli import recorded
from minirun.cli.flags import HELP, LANG, Flag, Parsed, parse, usage
from minirun.core.errors import StateError, UsageError
from minirun.core.settings import Settings
from minirun.engines import roots
from minirun.knowledge import language
from minirun.show import find, narrate, paint, recording, text, trace
from minirun.show.recording import Recording

VIEWS = (
    Flag(("--level",), "LEVEL", "stages or syscalls (default: stages; with --text, syscalls)"),
    Flag(("--plain",), "", "sentences, one after the other, nothing drawn: for a screen reader"),
    Flag(("--text",), "", "aligned columns, nothing cut: for a file"),
    Flag(("--html",), "FILE", "write one self-contained page instead (-: standard output)"),
    Flag(("--trace",), "FILE", "write JSON for Perfetto or chrome://tracing instead"),
    LANG,
)
FLAGS = (Flag(("-n", "--last"), "N", "list the N newest; 0 for all", default="20"), *VIEWS, HELP)
SUMMARY = "Show the start of a container again; without an argument, list what is recorded."


def main(args: "list[str]", settings: Settings) -> int:
    """Show or export the recordings of a container or a file, or list all that there is."""
    flags = parse("timeline", FLAGS, args, mixed=True)
    if flags.help:
        sys.stdout.write(usage("timeline", "[ID|FILE]", SUMMARY, FLAGS))
        return 0
    if len(flags.args) > 1:
        raise UsageError("timeline takes one container or file", "minirun timeline ID", status=1)
    check(flags)
    if flags.args:
        show(read(flags.args[0], settings), flags, settings)
    elif not (flags.last.isascii() and flags.last.isdigit()):
        raise UsageError(f"invalid --last {flags.last!r}", "a number", status=1)
    else:
        say(recorded.listing(roots.known(settings), int(flags.last)))
    return 0


def check(flags: Parsed) -> None:
    """Raise UsageError where the flags of VIEWS make no sense."""
    if flags.level not in ("", *narrate.LEVELS):
        raise UsageError(f"invalid --level {flags.level!r}", " or ".join(narrate.LEVELS), status=1)
    if flags.plain and flags.text:
        raise UsageError("--plain or --text, not both", status=1)


def read(name: str, settings: Settings) -> list[Recording]:
    """Return what a file, a container's id, or - (standard input) holds.

    Raises StateError where that is nothing, OSError.
    """
    if name != "-":
        return find.find(name, *roots.known(settings))
    try:
        return recording.parse(sys.stdin.buffer.read(), "standard input")
    except ValueError as error:
        raise StateError(str(error), "a file of events, as --log FILE makes it") from None


def show(
    recordings: list[Recording],
    flags: Parsed,
    settings: Settings,
    pause: Callable[[int], None] | None = None,
) -> None:
    """Write the files that the flags of VIEWS ask for, or show all on standard output.

    `pause` is called before each event, with the nanoseconds since the one before.
    Raises OSError.
    """
    if flags.html:
        from minirun.show import html

        spoken = language.choose(flags.lang or settings.lang)
        _export(flags.html, html.render(recordings, language=spoken))
    if flags.trace:
        _export(flags.trace, json.dumps(trace.document(recordings)) + "\n")
    if flags.html or flags.trace:
        return
    for number, each in enumerate(recordings):
        say(("\n" if number else "") + title(each, plain=flags.plain) + "\n")
        _draw(each, flags, pause)


def title(found: Recording, *, plain: bool = False) -> str:
    """Return one line about a recording."""
    took = (found.stages[-1].end or 0) - found.start if found.complete else 0
    parts = [
        recorded.result(found) + (f" after {text.duration(took)}" if took else ""),
        _held(found),
        f"{found.unreadable} lines unreadable" if found.unreadable else "",
    ]
    mark = " (GPUs SIMULATED)" if found.simulated else ""
    line = f"container {found.id}{mark}: {', '.join(part for part in parts if part)}"
    return text.clean(line + "." * plain, paint.speaks_unicode())


def _held(found: Recording) -> str:
    """Say how long the run stood still at gates: each until somebody did the next thing."""
    end = found.stages[-1].end if found.stages else None
    acts = [e for e in found.events if e.actor != "step" and e.t <= (end or found.end)]
    waits = [after.t - e.t for e, after in pairwise(acts) if e.kind == "gate"]
    return f"{text.duration(sum(waits))} of it at {len(waits)} gates" if waits else ""


def _draw(found: Recording, flags: Parsed, pause: Callable[[int], None] | None) -> None:
    style = "plain" if flags.plain else "columns" if flags.text else "lanes"
    narrator = narrate.Narrator(flags.level or ("syscalls" if flags.text else "stages"))
    painted = paint.painter(1, style, full=True)
    if pause is None:
        say(painted([row for row in map(narrator.row, found.events) if row]))
        return
    before = found.start
    for event in found.events:
        pause(max(0, event.t - before))
        before = event.t
        row = narrator.row(event)
        if row:
            say(painted([row]))


def say(said: str) -> None:
    """Write to standard output, at once. Raises OSError."""
    data = said.encode(errors="backslashreplace")
    while data:
        data = data[os.write(1, data) :]


def _export(path: str, content: str) -> None:
    if path == "-":
        say(content)
    else:
        Path(path).write_text(content, encoding="utf-8", errors="backslashreplace")
