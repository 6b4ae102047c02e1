"""`minirun wait`, `top`, `stats` and `rename`: docker's, on containers that are there.

wait prints the exit status of each container when it has ended. top is ps -ef of a container's
processes, read from /proc; with options of ps, the host's ps. stats shows what containers use again
and again: minirun.faces.inspect.use. rename: minirun.common.naming.
"""

from __future__ import annotations

import os
import time

from minirun.cgroups import cgroup_of
from minirun.cli.flags import ANY, Flags, flag
from minirun.cli.output import show, write
from minirun.common import naming, screen, table
from minirun.core import events
from minirun.core.errors import MinirunError, StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.running import listing, lookup

with lazy:
    from rich import live as rich_live

    from minirun.common import rich_console
    from minirun.docker import process_table
    from minirun.faces.inspect import past, use
    from minirun.faces.show.template import formats
    from minirun.net import neighbours
    from minirun.running import kept_logs, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.core.keeping.container_record import ContainerRecord
    from minirun.faces.inspect.use import Sample
    from minirun.faces.show.template.values import Fields

_INTERVAL = 1.0
"""Seconds between two samples of `stats`."""
STATS = {
    "ID": "CONTAINER ID", "Name": "NAME", "CPUPerc": "CPU %", "MemUsage": "MEM USAGE / LIMIT",
    "MemPerc": "MEM %",
    "NetIO": "NET I/O", "BlockIO": "BLOCK I/O", "PIDs": "PIDS",
}  # fmt: skip
"""Fields of a row, and what stands above each."""
HEADINGS = {"Container": "CONTAINER", **STATS, "GPU": "GPU %, MEM"}
"""The same with what only --format shows; GPU is minirun's."""


class Wait(Flags):
    """Wait until containers have ended, and print their exit status."""

    command = "wait"


class Top(Flags):
    """Show the processes of a container."""

    command, mixed = "top", False


class Stats(Flags):
    """Show what containers use, again and again."""

    command = "stats"
    all: bool = flag("-a")
    format: str
    no_stream: bool
    no_trunc: bool


class Rename(Flags):
    """Give a container another name."""

    command = "rename"


def main_wait(args: list[str], settings: Settings) -> int:
    """Print each container's exit status when it has ended; one that is not there stops none."""
    flags = Wait(args)
    flags.takes(1, ANY)
    failed = 0
    for name in flags.args:
        try:
            show([str(_wait(*roots.locate(settings, name, only_made_up=True)))])
        except MinirunError as error:
            say(error.line())
            failed = 1
    return failed


def _wait(place: Settings, container_id: str) -> int:
    """Return a container's exit status when it has ended. Raises StateError, OSError."""
    record, alone = state.load(place.root, container_id), False
    name = state.name_of(record.directory)
    while record.status != state.STOPPED or record.exit_status is None:
        if alone:
            text = f"the exit status of {name} is not known: no supervisor saw its end"
            raise StateError(text, "a container of `run IMAGE` has one", status=1)
        _until_it_ends(record)
        # once its supervisor has gone, one more look shows what was done last
        alone = record.status == state.STOPPED and not state.is_alive(record.supervisor)
        try:
            record = state.load(place.root, container_id)
        except StateError:
            return _kept_status(place.root, record, name)
    return record.exit_status


def _kept_status(root: str, record: ContainerRecord, name: str) -> int:
    """Return the exit status of a container that --rm has just removed. Raises StateError."""
    kept = [path for path in kept_logs.paths(root) if kept_logs.container_of(path) == record.id]
    try:
        status = past.exit_status(kept[-1], record.first_process()["pid"]) if kept else None
    except OSError:
        status = None
    if status is not None:
        return status
    text = f"{name} has removed itself at its end, and its exit status with it"
    raise StateError(text, "run it without --rm, or with a log", status=1)


def _until_it_ends(record: ContainerRecord) -> None:
    """Wait for the end of init, or a moment for the supervisor to write it down."""
    if state.is_alive(record.init):
        state.has_ended(record.init)
    else:
        time.sleep(0.02)


def main_top(args: list[str], settings: Settings) -> int:
    """Print the processes of a running container. Raises MinirunError, OSError."""
    flags = Top(args)
    flags.takes(1, ANY)
    container = lookup.load(*roots.locate(settings, flags.args[0]))
    if container.record.status not in (state.RUNNING, state.PAUSED, state.CREATED):
        text = f"container {container.name} is not running"
        raise StateError(text, "minirun ps lists those that are", status=1)
    cgroup = cgroup_of(container)
    pids = cgroup.processes() if cgroup.exists() else [container.record.pid]
    if options := flags.args[1:]:
        return show(processes.table(pids, options))
    return write(table.text([process_table.HEADER, *process_table.rows(pids)], 3))


def main_rename(args: list[str], settings: Settings) -> int:
    """Give a container another name. Its id stays: minirun.common.naming."""
    flags = Rename(args)
    flags.takes(2)
    old, new = flags.args
    if not (state.is_id(new) and new[0].isalnum()):
        hint = "letters, digits, '_', '+', '-', '.'; the first a letter or a digit"
        raise UsageError(f"invalid container name {new!r}", hint, 1)
    place, container_id = roots.locate(settings, old, only_made_up=True)
    container = lookup.load(place, container_id)
    was = container.name
    naming.rename(place.root, container_id, new)
    neighbours.rename(place.store, container.record, was, new)
    container.open_log()
    events.emit("note", "renamed", {"name": new}, why="the id stays")
    events.close_log()
    return 0


# --- stats -------------------------------------------------------------------------------------


def main_stats(args: list[str], settings: Settings) -> int:
    """Show what containers use: all that run, or those named. Raises MinirunError, OSError."""
    flags = Stats(args)
    if flags.format:
        formats.read(flags.format, 1)
    named = [roots.locate(settings, name, only_made_up=True) for name in flags.args]
    for place, container_id in named:
        state.load(place.root, container_id)

    def chosen() -> list[ContainerRecord]:
        if named:
            return [record for place, name in named if (record := _there(place.root, name))]
        found = [record for root in roots.known(settings) for record in listing.records(root)]
        found.sort(key=lambda record: record.created, reverse=True)
        return [one for one in found if flags.all or one.status in (state.RUNNING, state.PAUSED)]

    before = use.samples(chosen())
    time.sleep(_INTERVAL)
    if flags.no_stream:
        return write(_shown(_rows(before, use.samples(chosen()), flags), flags))
    return _stream(chosen, before, flags)


def _there(root: str, name: str) -> ContainerRecord | None:
    try:
        return state.load(root, name)
    except StateError:
        return None  # it has been deleted meanwhile


def _rows(before: list[Sample], after: list[Sample], flags: Stats) -> list[Fields]:
    """Return the rows; with --no-trunc they have whole ids."""
    rows: list[Fields] = use.rows(before, after)
    if flags.no_trunc:
        for row in rows:
            row["ID"] = row["Container"]
    return rows


def _shown(rows: list[Fields], flags: Stats) -> str:
    """Return the table, or what --format asks for."""
    if flags.format and flags.format != "table":
        return formats.lines(flags.format, rows, HEADINGS, 1)
    return table.text(_cells(rows), 3)


def _cells(rows: list[Fields]) -> list[list[str]]:
    names = {**STATS, **({"GPU": HEADINGS["GPU"]} if any("GPU" in row for row in rows) else {})}
    return [list(names.values()), *([row.get(name, "-") for name in names] for row in rows)]


def _stream(chosen: Callable[[], list[ContainerRecord]], before: list[Sample], flags: Stats) -> int:
    """Show it again and again, on a terminal in one place, until an interrupt or all have gone."""
    if not os.isatty(1):
        while after := use.samples(chosen()):
            write(_shown(_rows(before, after, flags), flags))
            before = after
            time.sleep(_INTERVAL)
        return 0
    console = rich_console.console(1, styled=screen.has_colours(1))
    try:
        with rich_live.Live(console=console, auto_refresh=False, screen=True) as shown:
            while True:
                after = use.samples(chosen())
                shown.update(rich_console.lines(_lines(_rows(before, after, flags), flags)))
                shown.refresh()
                before = after
                time.sleep(_INTERVAL)
    except KeyboardInterrupt:
        return 0


def _lines(rows: list[Fields], flags: Stats) -> list[str]:
    if flags.format and flags.format != "table":
        return formats.lines(flags.format, rows, HEADINGS, 1).splitlines()
    return table.aligned(_cells(rows), 3, unicode=screen.speaks_unicode())
