"""`minirun timeline`: a container's start, shown again from its log.

Without an argument it lists what is recorded: living containers, and those that have gone, below
the state root. The views are those of `replay` too, so nothing here needs Linux.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from minirun.cli.flags import HELP, Flag, Parsed, parse, usage
from minirun.errors import StateError, UsageError
from minirun.settings import HISTORY, Settings
from minirun.view import find, narrate, paint, recording, text, trace
from minirun.view.recording import Recording

VIEWS = (
    Flag(("--level",), "LEVEL", "stages or syscalls (default: stages; with --text, syscalls)"),
    Flag(("--plain",), "", "sentences, one after the other, nothing drawn: for a screen reader"),
    Flag(("--text",), "", "aligned columns, nothing cut: for a file"),
    Flag(("--html",), "FILE", "write one self-contained page instead (-: standard output)"),
    Flag(("--trace",), "FILE", "write JSON for Perfetto or chrome://tracing instead"),
)
FLAGS = (Flag(("-n", "--last"), "N", "list the N newest; 0 for all", default="20"), *VIEWS, HELP)
SUMMARY = "Show the start of a container again; without an argument, list what is recorded."
_HEAD = ("ID", "LAST EVENT", "STAGES", "RESULT", "GPUS", "IMAGE", "COMMAND")
_IMAGE = re.compile(r"/images/([^/:]+)/layers/")


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
        show(read(flags.args[0], settings), flags)
    elif not (flags.last.isascii() and flags.last.isdigit()):
        raise UsageError(f"invalid --last {flags.last!r}", "a number", status=1)
    else:
        say(listing(settings.root, int(flags.last)))
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
        return find.find(name, settings.root)
    try:
        said = sys.stdin.buffer.read().decode(errors="replace")
        return recording.parse(said, "standard input")
    except ValueError as error:
        raise StateError(str(error), "a file of events, as --log FILE makes it") from None


def show(
    recordings: list[Recording], flags: Parsed, pause: Callable[[int], None] | None = None
) -> None:
    """Write the files that the flags of VIEWS ask for, or show all on standard output.

    `pause` is called before each event, with the nanoseconds since the one before.
    Raises OSError.
    """
    if flags.html:
        from minirun.view import html

        _export(flags.html, html.render(recordings))
    if flags.trace:
        _export(flags.trace, json.dumps(trace.document(recordings)) + "\n")
    if flags.html or flags.trace:
        return
    for number, each in enumerate(recordings):
        say(("\n" if number else "") + title(each, plain=flags.plain) + "\n")
        _draw(each, flags, pause)


def title(found: Recording, *, plain: bool = False) -> str:
    """Return one line about a recording."""
    calls = sum(event["kind"] == "syscall" for event in found.events)
    took = text.duration(found.stages[-1].end - found.start) if found.complete else ""
    parts = [
        _result(found) + (f" after {took}" if took else ""), f"{calls} system calls",
        _held(found), "GPUs SIMULATED" if found.simulated else "",
        f"{found.unreadable} lines unreadable" if found.unreadable else "",
    ]  # fmt: skip
    line = f"container {found.id}: {', '.join(part for part in parts if part)}"
    return text.clean(line + "." * plain, paint.speaks_unicode())


def _held(found: Recording) -> str:
    """Say how long the run stood still at gates: until who waited there did the next thing."""
    held, gates, waiting = 0, 0, dict[int, int]()
    for event in found.events:
        held += event["t"] - waiting.pop(event["pid"], event["t"])
        if event["kind"] == "gate":
            gates += 1
            waiting[event["pid"]] = event["t"]
    return f"{text.duration(held)} of it held at {gates} gates" if gates else ""


def _draw(found: Recording, flags: Parsed, pause: Callable[[int], None] | None) -> None:
    style = "plain" if flags.plain else "columns" if flags.text else "lanes"
    narrator = narrate.Narrator(flags.level or ("syscalls" if flags.text else "stages"))
    painted = paint.painter(1, style, full=True)
    if pause is None:
        say(painted([row for row in map(narrator.row, found.events) if row]))
        return
    before = found.start
    for event in found.events:
        pause(max(0, event["t"] - before))
        before = event["t"]
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


def listing(root: str, last: int) -> str:
    """Return a table of what is recorded below `root`, newest first. Raises OSError."""
    paths = [*_below(root, "{}/events.jsonl"), *_below(f"{root}/{HISTORY}", "{}")]
    times = {path: os.stat(path).st_mtime for path in paths if os.path.exists(path)}
    newest = sorted(times, key=lambda path: -times[path])
    if not newest:
        return "no container is recorded yet: minirun replay has some to show\n"
    rows = [_row(path, times[path]) for path in newest[: last or None]]
    more = len(newest) - len(rows)
    return table([_HEAD, *rows]) + (f"{more} more: minirun timeline --last 0\n" if more else "")


def _below(directory: str, form: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return [f"{directory}/{form.format(name)}" for name in names if not name.startswith(".")]


def _row(path: str, when: float) -> tuple[str, ...]:
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
    try:
        found = recording.read(path)[0]
    except (OSError, ValueError):
        return (find.id_of(Path(path)), shown, "", "unreadable", "", "", "")
    devices, image, command = "", "", ""
    for event in found.events:
        argv = event["args"].get("argv")
        words = [str(word) for word in argv] if isinstance(argv, list) else []
        if event["name"] == "nvidia-container-cli":
            devices = " ".join(w[9:] for w in words if w.startswith("--device="))
        elif event["name"] == "mount" and event["args"].get("fstype") == "overlay":
            image = " ".join(_IMAGE.findall(str(event["args"].get("data"))))
        elif event["kind"] == "exec" and event["actor"] == "init":
            command = " ".join(words)
    gpus = f"{devices} SIMULATED" if found.simulated and devices else devices
    return (found.id, shown, _stages(found), _result(found), gpus, image, command)


def _stages(found: Recording) -> str:
    """Return 123--67 for a container without GPUs, 12x for a hook that failed."""
    marks = {s.number: "x" if s.error else str(s.number) if s.end else "?" for s in found.stages}
    return "".join(marks.get(number, "-") for number in range(1, 8))


def _result(found: Recording) -> str:
    failed = [stage for stage in found.stages if stage.error]
    if failed:
        return f"failed in stage {failed[0].number}"
    reached = found.stages[-1].number if found.stages else 0
    return "started" if found.complete else f"came to stage {reached}"


def table(rows: list[tuple[str, ...]]) -> str:
    """Return rows as lines of aligned columns, printable whatever they hold."""
    unicode = paint.speaks_unicode()
    cells = [[text.clean(cell, unicode) for cell in row] for row in rows]
    widths = [max(map(text.display_width, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell + " " * (width - text.display_width(cell))
                  for cell, width in zip(row, widths, strict=True))
        for row in cells
    ]  # fmt: skip
    return "".join(f"{line.rstrip()}\n" for line in lines)
