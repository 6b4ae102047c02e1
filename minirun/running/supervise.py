"""What `run` does around a container: the live view, its streams, signals, its end.

The process that does this is the container's supervisor. With -d it is a process of its own
(minirun.running.background). When a supervisor is killed, `gc` finds its container and ends it.
"""

from __future__ import annotations

import os

from minirun.common import docker_record
from minirun.core import endings, events, lifecycle
from minirun.core.container import Container
from minirun.core.errors import NOT_FOUND, REFUSED, MinirunError, from_os
from minirun.core.keeping import state
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.running import ends, handover, output, shelves, signals

with lazy:
    from minirun.running import shared_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.core.handshake import Init


class SupervisorOptions(Record):
    """How `run IMAGE` deals with the container around its life."""

    detach: bool = False
    interactive: bool = False
    auto_remove: bool = False
    viewers: output.Viewers = output.Viewers()
    pid_file: str = ""
    log: output.OutputLimits | None = output.OutputLimits()
    """How much of its output is kept; None: none."""
    begin: Callable[[Container], None] | None = None
    """Called before stage 1, as soon as the log is open; its error ends the container."""
    shown: tuple[str, ...] = ("stdout", "stderr")
    """Which of its streams the caller sees."""
    leaving: output.Leaving | None = None
    """How the user leaves a terminal in front; None: there is no way."""
    held: bool = False
    """The command waits for `start`, as with docker's create."""
    again: bool = False
    """It has run before: its files stay, also if this start fails."""
    earlier: bytes = b""
    """Log lines written before the container existed: those of a pull."""


def run(
    reserve: Callable[[], Container],
    options: SupervisorOptions,
    started: Callable[[Container], None] | None = None,
) -> int:
    """Make, run and end a container; return the exit status of its command.

    `started` is called once the command runs. Raises MinirunError, OSError.
    """
    signals.block()
    container = reserve()
    try:
        status = _run(container, options, started)
        if not docker_record.of(container.record).restart or options.auto_remove:
            return status
        return shelves.go_on(
            container, status, lambda again: _run(again, options._replace(again=True), None)
        )
    finally:
        options.viewers.ended()


def _run(
    container: Container,
    options: SupervisorOptions,
    started: Callable[[Container], None] | None,
) -> int:
    """Make, start and follow one container to its end; return its command's exit status."""
    viewers, streams = options.viewers, None
    try:
        signals.catch()
        _open_log(container, viewers, options.earlier)
        if options.begin:
            options.begin(container)
        if docker_record.of(container.record).shared_memory:
            shared_memory.mount(container)
        detach, auto_remove = options.detach, options.auto_remove
        log = options.log if detach or not auto_remove else None
        streams = output.Streams(
            container, options.interactive, detach, log, options.leaving, options.shown
        )
        container.console = streams.console
        init = lifecycle.create(container)
        streams.close_containers_ends()
        if options.pid_file:
            handover.write_pid(options.pid_file, init.pid)
        signals.forward_once_running(init.channel, init.pidfd)
        if options.again and ends.is_halted(container):
            raise signals.Interrupted("it was stopped while it was to start again")
        if options.held:
            _hold(container, init)
        else:
            endings.start(container, init.channel, lambda: signals.forward(init.pidfd))
        events.observer = None  # no gate is held after the start
        viewers.finish()
        if docker_record.of(container.record).health:
            shelves.watch_health(container)
        if started:
            started(container)
    except BaseException as error:
        if streams:
            streams.close()
        stays = options.again or (_is_commands(error) and not options.auto_remove)
        endings.abandon(container, is_new=not stays)
        if stays:
            events.close_log()
            status = error.status if isinstance(error, MinirunError) else 128
            _save_end(container, status, str(error) or "interrupted")
        raise
    finally:
        viewers.finish()
    status = streams.relay(init.pid, init.pidfd)
    _end(container, status, options.auto_remove)
    streams.dismiss(status)
    if docker_record.of(container.record).restart:
        signals.drop()
        for fd in (init.pidfd, init.channel.read_fd, init.channel.write_fd):
            os.close(fd)
    return status


def _is_commands(error: BaseException) -> bool:
    """Return True if a start has failed since the command cannot be executed: init says so."""
    return isinstance(error, MinirunError) and error.status in (NOT_FOUND, REFUSED)


def _open_log(container: Container, viewers: output.Viewers, earlier: bytes) -> None:
    """Start the viewers, open the logs, and hold the run at the gates that are asked for."""
    settings = container.settings
    viewers.start(container)
    container.open_log()
    if settings.log and settings.log_format == "json":
        events.open_log(settings.log, container.id, 0o644)
    for fd in events.log_fds() if earlier else ():
        os.write(fd, earlier)
    docker = docker_record.of(container.record)
    if docker.image:
        origin = {"image": docker.image} | ({"labels": docker.labels} if docker.labels else {})
        if (name := container.name) != container.id:
            origin["name"] = name
        why = "what it is made of, and called, at its start"
        events.emit("note", "origin", origin, why=why)
    for text in docker.warnings or ():
        events.emit("note", "warning", {"text": text}, why="said before there was a container")
    viewers.hold(container)


def _end(container: Container, status: int, auto_remove: bool) -> None:
    """Record the end, or remove the container with --rm."""
    if auto_remove:
        container.record = container.record._replace(exit_status=status)
        endings.destroy(container)
        return
    oom = ends.oom_killed(container.record)
    endings.clear_cgroup(container)
    endings.give_back(container)
    _save_end(container, status, oom=oom)
    events.close_log()


def _hold(container: Container, init: Init) -> None:
    """Leave init at the gate of stage 7: `start` opens it. Raises OSError."""
    container.save(container.record._replace(status=state.CREATED, complete=True))
    signals.forward(init.pidfd)


def _save_end(container: Container, status: int, error: str = "", *, oom: bool = False) -> None:
    try:
        ends.save_end(container, status, error, oom=oom)
    except OSError as error:  # a full disk must not cost the caller the command's exit status
        line = from_os(error, "the end of the container is not recorded").line()
        warn(line)
