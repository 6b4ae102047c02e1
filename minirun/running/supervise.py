"""What `run` does around a container: the live view, its streams, signals, its end.

The process that does this is the container's supervisor. With -d it is a process of its own, in
its own session; its parent returns as soon as the container runs. When a supervisor is killed,
`gc` finds its container and ends it.
"""

import os

from minirun.core import endings, events, gates, lifecycle, state
from minirun.core.container import Container
from minirun.core.errors import MinirunError, from_os
from minirun.core.kernel import process
from minirun.core.record import Record
from minirun.core.visible import warn
from minirun.running import logfile, output, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class SupervisorOptions(Record):
    """How `run IMAGE` deals with the container around its life."""

    detach: bool = False
    interactive: bool = False
    auto_remove: bool = False
    viewers: output.Viewers = output.Viewers()
    pid_file: str = ""
    log: logfile.Limits = logfile.Limits()
    """How much of its output is kept."""
    begin: "Callable[[Container], None] | None" = None
    """Called before stage 1, as soon as the log is open; its error ends the container."""


def run(reserve: "Callable[[], Container]", options: SupervisorOptions) -> int:
    """Make, run and end a container; return the exit status of its command.

    Raises MinirunError, OSError.
    """
    if options.detach:
        return _in_background(reserve, options)
    return _run(reserve, options)


def _run(
    reserve: "Callable[[], Container]",
    options: SupervisorOptions,
    started: "Callable[[Container], None] | None" = None,
) -> int:
    """Do all of it; call `started` once the command runs."""
    signals.block()
    container = reserve()
    viewers = options.viewers
    try:
        signals.catch()
        _open_log(container, viewers)
        if options.begin:
            options.begin(container)
        detach, auto_remove = options.detach, options.auto_remove
        log = options.log if detach or not auto_remove else None
        streams = output.Streams(container, options.interactive, detach, log)
        container.console = streams.console
        init = lifecycle.create(container)
        streams.close_containers_ends()
        if options.pid_file:
            state.write(options.pid_file, str(init.pid))
        signals.forward_once_running(init.channel.is_closed, init.pidfd)
        endings.start(container, init.channel, lambda: signals.forward(init.pidfd))
        events.observer = None  # no gate is held after the start
        viewers.finish()
        if started:
            started(container)
    except BaseException:
        endings.destroy(container)
        raise
    finally:
        viewers.finish()
    status = streams.relay(init.pid, init.pidfd)
    _end(container, status, options.auto_remove)
    return status


def _open_log(container: Container, viewers: output.Viewers) -> None:
    """Start the viewers, open the logs, and hold the run at the gates that are asked for."""
    settings = container.settings
    viewers.start(container)  # first: they do not write
    container.open_log()
    if settings.log and settings.log_format == "json":
        events.open_log(settings.log, container.id, 0o644)
    for text in container.record.get("warnings") or ():
        events.emit("note", "warning", {"text": text}, why="said before there was a container")
    if settings.gates or viewers.gate:
        stops = (*settings.gates, *viewers.gate)
        container.gates = gates.Gates(container.directory, stops)
        container.gates.watched += viewers.alive


def _end(container: Container, status: int, auto_remove: bool) -> None:
    """Record the end, or remove the container with --rm."""
    if auto_remove:
        endings.destroy(container)
        return
    endings.clear_cgroup(container)
    try:
        container.save(status=state.STOPPED, exit_status=status, finished=state.timestamp())
    except OSError as error:  # a full disk must not cost the caller the command's exit status
        line = from_os(error, "the end of the container is not recorded").line()
        warn(line)
    events.close_log()


def _in_background(reserve: "Callable[[], Container]", options: SupervisorOptions) -> int:
    """Fork the supervisor; print the id when the container runs, or its error."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    signals.block()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os._exit(_background(reserve, options, write_end))
    signals.forward_to_child(pid)
    os.close(write_end)
    text = bytearray()
    while chunk := os.read(read_end, 4096):
        text += chunk
    kind, _, rest = text.decode(errors="replace").partition("\n")
    if kind != "ok":
        status, _, line = rest.partition("\n")
        raise MinirunError(line or "the supervisor died", status=int(status or 125))
    os.write(1, rest.encode())
    return 0


def _background(
    reserve: "Callable[[], Container]", options: SupervisorOptions, write_end: int
) -> int:
    """In the supervisor: run the container, and tell the parent how its start went."""
    os.setsid()
    process.become_named("minirun:watch")
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1):
            os.dup2(null, number)
        return _run(reserve, options, lambda container: _tell_started(container, write_end))
    except BaseException as caught:
        error = from_os(caught) if isinstance(caught, OSError) else caught
        status = error.status if isinstance(error, MinirunError) else 125
        line = error.line() if isinstance(error, MinirunError) else repr(error)
        try:
            os.write(write_end, f"error\n{status}\n{line}".encode())
        except OSError:
            pass
        return 1


def _tell_started(container: Container, write_end: int) -> None:
    os.write(write_end, f"ok\n{container.id}\n".encode())
    os.close(write_end)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 2)
    os.close(null)
