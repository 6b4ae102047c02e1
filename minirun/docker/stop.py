"""`minirun stop` and `rm`: docker's. stop: a signal, some patience, then SIGKILL. rm: delete.

The signal is --signal, else `run --stop-signal`, else the image's StopSignal, else SIGTERM.
"""

from __future__ import annotations

import errno
import os

from minirun.cgroups import cgroup_of
from minirun.cli import words
from minirun.cli.flags import ANY, Flags, flag
from minirun.cli.several import each
from minirun.common import docker_record
from minirun.common.quantities import decimal
from minirun.core import endings
from minirun.core.container import Container
from minirun.core.errors import StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.kernel import signals
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.running import control, ends, lookup

with lazy:
    from minirun.running import volumes

_LONGEST = 10**6
"""Seconds."""


class StopFlags(Flags):
    """Stop containers: a signal, and SIGKILL for those that still run after some time."""

    command = "stop"
    signal: str = flag("-s")
    timeout: str = flag("-t", "--time")


class Rm(Flags):
    """Delete containers that have ended; with --force, running ones too."""

    command = "rm"
    force: bool = flag("-f")
    volumes: bool = flag("-v")


def main_rm(args: list[str], settings: Settings) -> int:
    """Delete containers, and print their names; one that fails stops none of the others.

    With --volumes their anonymous volumes go too; what lies in a volume that the image declares
    goes always. Raises OSError.
    """
    flags = Rm(args)
    flags.takes(1, ANY)

    def delete_one(name: str) -> None:
        place, container_id = roots.locate(settings, name, only_made_up=True)
        is_there = os.path.lexists(f"{place.root}/{container_id}")
        mounts = None
        if flags.volumes and is_there:
            mounts = docker_record.of(state.load(place.root, container_id)).mounts
        control.delete(place, container_id, force=flags.force)
        if not is_there:  # with --force, which docker says so, and with status 0
            error = state.no_such_container(name)
            error.status = 0
            raise error
        if mounts:
            volumes.drop_unused(place, volumes.anonymous(mounts))

    return each(flags.args, delete_one)


def main_stop(args: list[str], settings: Settings) -> int:
    """Stop containers, and print their names; one that fails stops none of the others.

    Raises UsageError, OSError.
    """
    flags = StopFlags(args)
    flags.takes(1, ANY)
    seconds = seconds_of(flags.timeout) if flags.timeout else None
    if flags.signal:
        words.signal_number(flags.signal)  # a wrong one is told before anything is stopped

    def stop_one(name: str) -> None:
        place = roots.locate(settings, name, only_made_up=True)
        stop(lookup.load(*place), flags.signal, seconds)

    return each(flags.args, stop_one)


def stop(container: Container, signal: str, seconds: float | None) -> None:
    """Stop a container, and wait until its end is recorded; one that has stopped is fine.

    It is not started again by its supervisor. `seconds`: None for what --stop-timeout of `run`
    said. Raises MinirunError, OSError.
    """
    if docker_record.of(container.record).restart:
        ends.halt(container)
    record = container.record
    docker = docker_record.of(record)
    seconds = docker.stop_timeout if seconds is None else seconds
    seconds = min(seconds, _LONGEST) if seconds >= 0 else _LONGEST
    signal = signal or (docker.declared or {}).get("stop_signal") or "TERM"
    if record.pid and not _ends(container, words.signal_number(signal), seconds):
        _ends(container, signals.SIGKILL, endings.PATIENCE)
    state.has_ended(record.supervisor, endings.PATIENCE)


def _ends(container: Container, number: int, seconds: float) -> bool:
    """Send init a signal; return True if it has ended within some time. Raises OSError."""
    try:
        endings.kill(container.record, number)
        if container.record.status == state.PAUSED:
            _thaw(container)
    except (ProcessLookupError, StateError):
        return True
    return state.has_ended(container.record.first_process(), seconds)


def _thaw(container: Container) -> None:
    """Let a paused container go on: a frozen process takes no signal. Raises OSError.

    One that the signal has ended may have no cgroup any more.
    """
    try:
        cgroup_of(container).set_frozen(False)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise


def seconds_of(text: str) -> float:
    """Return what --timeout says; docker's -1 waits for ever. Raises UsageError."""
    if text == "-1":
        return _LONGEST
    seconds = decimal(text)
    if seconds is None or seconds > _LONGEST:
        raise UsageError(f"invalid --timeout {text!r}", "a number of seconds, such as 10", 125)
    return seconds
