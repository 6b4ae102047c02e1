"""`minirun timeline`, `replay` and `diff`: the log shown again.

`timeline` without an argument lists what is recorded: living containers, and those that have gone,
of every engine that has called minirun (minirun.engines.roots). `replay` plays a recording, at its
own pace or at another: it reads a file and nothing else: no root, no Linux, no network, no
container. `diff` compares the snapshots of a recording.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from minirun.cli import part
from minirun.cli.flags import Flags, flag
from minirun.cli.output import write
from minirun.common import screen, table
from minirun.common.quantities import decimal
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.faces import recordings
from minirun.faces.knowledge import language
from minirun.faces.show.compare import as_text, snapshots, starts
from minirun.faces.show.log import filters, find, narrate, recorded, recording
from minirun.faces.show.log import trace as chrome_trace
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.text import played
from minirun.image import store, workshop

with lazy:
    from minirun.faces.show.compare import starts_page  # 30 ms
    from minirun.faces.show.page import html

LONGEST = 1.0
"""Seconds: no pause is longer, however long the run was held at a gate."""


OF_ONE_START = ("stage", "filter", "html", "svg", "trace")
"""Flags that a list of starts would not heed."""


class ViewFlags(Flags):
    """What timeline and replay have in common."""

    wrong = 1
    level: str
    stage: str
    filter: list[str]
    plain: bool
    text: bool
    html: str
    svg: str
    figure: str
    upto: str
    trace: str
    lang: str


class TimelineFlags(ViewFlags):
    """Show the start of a container again; without an argument, list what is recorded."""

    command = "timeline"
    last: str = flag("-n", default="20")


class Replay(ViewFlags):
    """Play a recorded start; without an argument, list the recordings that are shipped."""

    command = "replay"
    speed: str


class Diff(Flags):
    """Show what a stage changed: run the container with --snapshots (or --step)."""

    command = "diff"
    stage: str
    between: str
    only: str
    files: bool
    json: bool
    html: str
    lang: str


def main_timeline(args: list[str], settings: Settings) -> int:
    """Show or export the recordings of a container or a file, or list all that there is."""
    flags = TimelineFlags(args)
    if len(flags.args) > 1:
        raise UsageError("timeline takes one container or file", "minirun timeline ID", status=1)
    _check(flags)
    if flags.args:
        _show(_read(flags.args[0], settings), flags, settings)
    elif (last := whole(flags.last)) is None:
        raise UsageError(f"invalid --last {flags.last!r}", "a number", status=1)
    else:
        images = store.list_images(settings.store)
        write(recorded.listing(settings, last, images))
    return 0


def _check(flags: ViewFlags) -> None:
    """Raise UsageError where the flags of VIEWS make no sense."""
    flags.check("level", "", *narrate.LEVELS)
    flags.check("figure", "", "1", "2", "3", "4")
    if flags.figure and not flags.svg:
        raise UsageError("--figure is for --svg FILE", status=1)
    if flags.upto:
        flags.check("upto", "", *"1234567")
        if not flags.svg or flags.figure not in ("", "3"):
            raise UsageError("--upto is for --svg FILE, of Figure 3", status=1)
    filters.wanted(flags.stage, flags.filter)
    if (flags.stage or flags.filter) and (flags.html or flags.svg or flags.trace):
        raise UsageError("--stage and --filter are for text, and the page has its own", status=1)
    alone = [name for name in OF_ONE_START if getattr(flags, name) and not flags.args]
    if alone:
        hint = f"minirun {flags.command} lists the starts"
        raise UsageError(f"--{alone[0]} needs the name of a start", hint, status=1)
    if flags.plain and flags.text:
        raise UsageError("--plain or --text, not both", status=1)


def _read(name: str, settings: Settings) -> list[Recording]:
    """Return what a file, a container's id, or - (standard input) holds.

    Raises StateError where that is nothing, OSError.
    """
    if name == "-":
        return recording.parse(sys.stdin.buffer.read(), "standard input")
    return find.find(name, *roots.known(settings))


def _show(
    recordings: list[Recording],
    flags: ViewFlags,
    settings: Settings,
    pause: Callable[[int], None] | None = None,
) -> None:
    """Write the files that the flags of VIEWS ask for, or show all on standard output.

    `pause` is called before each event, with the nanoseconds since the one before.
    Raises OSError.
    """
    spoken = language.choose(flags.lang or settings.lang) if flags.html or flags.svg else ""
    if flags.html:
        _export(flags.html, html.render(recordings, language=spoken))
    if flags.svg:
        name = f"figure_{flags.figure or 3}"
        more = {"figure_3": (int(flags.upto or 0), spoken), "figure_4": (spoken,)}.get(name, ())
        _export(
            flags.svg, part(f"minirun.faces.show.figures.{name}", "document")(recordings, *more)
        )
    if flags.trace:
        _export(flags.trace, json.dumps(chrome_trace.document(recordings)) + "\n")
    if flags.html or flags.svg or flags.trace:
        return
    for number, each in enumerate(recordings):
        write(("\n" if number else "") + played.title(each, plain=flags.plain) + "\n")
        level = flags.level or ("syscalls" if flags.text or flags.filter else "stages")
        picture = "summary" if level == "summary" else "lanes"
        style = "plain" if flags.plain else "columns" if flags.text else picture
        played.draw(each, style, level, pause, write, filters.wanted(flags.stage, flags.filter))


def _export(path: str, content: str) -> None:
    if path == "-":
        write(content)
    else:
        Path(path).write_text(content, encoding="utf-8", errors="backslashreplace")


def main_replay(args: list[str], settings: Settings) -> int:
    """Play or export a recording, or list those that are shipped."""
    flags = Replay(args)
    if len(flags.args) > 1:
        raise UsageError("replay takes one recording", "minirun replay FILE", status=1)
    _check(flags)
    speed = _speed(flags.speed)
    if not flags.args:
        write(_shipped())
        return 0
    name = flags.args[0]
    shipped = name in recordings.RECORDINGS and not os.path.exists(name)
    found = recording.read(recordings.path(name)) if shipped else _read(name, settings)
    pause = (lambda gap: time.sleep(min(LONGEST, gap / 1e9 / speed))) if speed else None
    _show(found, flags, settings, pause)
    return 0


def _speed(given: str) -> float:
    """Return how many times faster than it was; 0 for at once. Raises UsageError."""
    if not given:
        return 1.0 if os.isatty(1) else 0.0
    speed = decimal(given)
    if speed is None:
        raise UsageError(f"invalid --speed {given!r}", "a number: 0.1, 2, or 0 for at once", 1)
    return speed


def _shipped() -> str:
    head = ("NAME", "CONTAINERS", "WHAT IT SHOWS")
    rows = []
    for name, what in recordings.RECORDINGS.items():
        found = recording.read(recordings.path(name))
        rows.append((name, " ".join(each.name for each in found), what))
    return table.text([head, *rows], unicode=screen.speaks_unicode())


def main_diff(args: list[str], settings: Settings) -> int:
    """Print what a container has changed, or the difference of two snapshots, or of two starts."""
    flags = Diff(args)
    if len(flags.args) == 2 and flags.given <= {"html", "lang"}:
        return _diff_starts(flags, settings)
    if flags.html:
        raise UsageError("--html is for two starts", "minirun diff A B --html FILE", status=1)
    if len(flags.args) != 1 or (flags.stage and flags.between):
        hint = "minirun diff ID, diff ID --stage 5, diff ID --between s4,s5, or diff ID ID"
        raise UsageError("diff needs a container, and one thing to compare", hint, status=1)
    if not flags.stage and not flags.between:
        return int(workshop.call("changes")(flags.args[0], settings, flags.json))
    if flags.only and flags.only not in snapshots.PARTS:
        raise UsageError(f"unknown part {flags.only!r}", ", ".join(snapshots.PARTS), status=1)
    first, second = snapshots.boundaries(flags.between, flags.stage)
    recording = _one(flags.args[0], find.find(flags.args[0], *roots.known(settings)))
    before, after = (snapshots.choose(recording, at) for at in (first, second))
    if flags.files:
        return write(as_text.of_files(before, after))
    parts = (flags.only,) if flags.only else snapshots.PARTS
    changes = [each for each in snapshots.compare(before, after) if each.part in parts]
    if flags.json:
        rows: dict[str, dict[str, list[str]]] = {part: {"gone": [], "new": []} for part in parts}
        rows |= {each.part: {"gone": each.gone, "new": each.new} for each in changes}
        return write(json.dumps(rows, indent=2) + "\n")
    return write(as_text.of_snapshots(changes, parts))


def _diff_starts(flags: Diff, settings: Settings) -> int:
    """Show what one start did that the other did not; return 1 if there is any, as diff(1)."""
    first, second = (_one(name, find.find(name, *roots.known(settings))) for name in flags.args)
    spoken = language.choose(flags.lang or settings.lang)
    if flags.html:
        pair = starts_page.pair(first, second)
        _export(flags.html, html.render(pair.recordings, language=spoken, pair=pair))
    else:
        write(as_text.of_starts(first, second, spoken))
    return 1 if starts.compare(first, second) else 0


def _one(name: str, recordings: list[Recording]) -> Recording:
    """Return the one recording of a file or container. Raises StateError."""
    if len(recordings) > 1:
        names = ", ".join(each.name for each in recordings)
        raise StateError(f"{name} holds several containers: {names}", status=1)
    return recordings[0]
