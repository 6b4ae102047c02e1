"""What comes out of a run: the container's streams, kept for `minirun logs`, and its viewers."""

from __future__ import annotations

import os

from minirun.common import docker_record
from minirun.core import endings
from minirun.core.container import Console, Container
from minirun.core.errors import UsageError, from_os
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.running import pipes, shelves

with lazy:
    import socket

    from minirun.oci.terminal import keys, relay, terminal
    from minirun.running import output_files  # not for what --rm shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.common.docker_record import OutputRecord
    from minirun.running.output_files import OutputLog
    from minirun.running.pipes import Audience


class OutputLimits(Record):
    """How much of the output is kept."""

    max_size: int = 20 << 20
    """Bytes of one file; -1: no limit."""
    max_file: int = 5

    def as_json(self) -> OutputRecord:
        """Return what the record keeps."""
        return {"max_size": self.max_size, "max_file": self.max_file}


class Leaving(Record):
    """How a user leaves a terminal in front, and the container goes on."""

    keys: bytes
    leave: Callable[[], None]
    """Goes into the background: minirun.running.background.step_aside."""


class Streams:
    """The container's standard streams: a terminal, whose master end is relayed, or pipes.

    What pipes bring goes to the caller, and into log.json if a log is kept. None of them is the
    caller's own (minirun.running.pipes). Without input, stdin is /dev/null. Detached, they are
    read all the same, for the log and for those who attach (minirun.running.pipes.Audience).
    """

    def __init__(
        self,
        container: Container,
        interactive: bool,
        detach: bool,
        log: OutputLimits | None = None,
        leaving: Leaving | None = None,
        shown: tuple[str, ...] = ("stdout", "stderr"),
    ) -> None:
        """Open the command's streams.

        `leaving`: how a user may leave a terminal in front; `shown`: which streams the user sees.
        Raises OSError, and nothing is open then.
        """
        self.flows: list[tuple[int, int, int, str]] = []
        self.theirs: list[int] = []
        self.master = self.input = -1
        self.detach = detach
        self.interactive = interactive
        self.directory = container.directory
        self.docker = docker_record.of(container.record)
        self.log = log
        self.leaving = leaving
        self.shown = shown
        self.attachable = True
        """False for `exec`: who attaches wants the container's own command."""
        self.others: Audience | None = None
        try:
            self._open(terminal=container.config.terminal)
        except OSError:
            self.close()
            raise

    def _open(self, *, terminal: bool) -> None:
        """Prepare the command's streams: three descriptors, or a socket for its terminal."""
        if terminal:
            self._prepare_terminal()
        else:
            stdin = self._input() if self.interactive else self._null()
            self.console = Console(stdin, self._output("stdout", 1), self._output("stderr", 2))

    def _null(self) -> int:
        """Open /dev/null, for an input that is empty."""
        fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.theirs.append(fd)
        return fd

    def _input(self) -> int:
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        if self.detach:  # it stays open, as docker has it: `attach` may write
            self.input = write_fd
        else:
            self.flows.append((0, write_fd, write_fd, ""))
        self.theirs.append(read_fd)
        os.set_blocking(write_fd, False)
        return read_fd

    def _output(self, name: str, target: int) -> int:
        """Make the pipe for stdout or stderr; return the command's end of it."""
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        is_shown = not self.detach and name in self.shown
        self.flows.append((read_fd, target if is_shown else -1, read_fd, name))
        self.theirs.append(write_fd)
        os.set_blocking(read_fd, False)
        return write_fd

    def _prepare_terminal(self) -> None:
        """Make the socket that init sends its terminal's master end through."""
        self.terminal, self.relays = terminal, relay
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.console = Console(socket=theirs.detach())
        self.theirs.append(self.console.socket)

    def close_containers_ends(self) -> None:
        """Close, in the supervisor, the ends that init has by now."""
        while self.theirs:
            os.close(self.theirs.pop())
        if self.console.socket >= 0:
            self.master = self.terminal.receive_master(self.ours)
            rows, columns = callers_size()
            if rows and columns and not self.detach:  # before the command asks for it
                self.relays.set_size(self.master, rows, columns)
            is_raw = self.interactive and os.isatty(0) and os.isatty(1)
            if not (self.docker.managed or is_raw):
                self.relays.pass_line_feeds(self.master)  # no raw terminal is to show it
        self._listen()  # before the caller hears that the container runs

    def close(self) -> None:
        """Close all: the container is not made, and its removal needs descriptors too."""
        self.dismiss(1)
        while self.theirs:
            os.close(self.theirs.pop())
        while self.flows:
            os.close(self.flows.pop()[2])

    def relay(self, pid: int, pidfd: int) -> int:
        """Pass everything on until the command ends; return its exit status.

        Those who are attached get it from :meth:`dismiss`.
        """
        log = self._open_log()
        if self.console.socket >= 0 and not self.detach:
            keep = log.keeper("stdout") if log else None
            wanted = self.leaving.keys if self.leaving and self.interactive else b""
            leave = keys.DetachKeys(wanted) if wanted else None
            stdin = 0 if self.interactive else -1
            self.detach = self.relays.relay(self.master, stdin, 1, pidfd, keep, leave)
            if self.leaving and self.detach:
                self.leaving.leave()
        if self.console.socket >= 0 and not self.detach:
            os.close(self.master)
        else:
            if self.master >= 0:
                os.set_blocking(self.master, False)
                self.flows.append((self.master, -1, self.master, "stdout"))
            self._listen()
            self._copy(pidfd, log, self.others)
        if log:
            log.close()
        return endings.wait(pidfd, pid)

    def dismiss(self, status: int) -> None:
        """Give those who are attached the exit status, once it is recorded: they may ask for it."""
        if self.others:
            self.others.end(status)
            self.others = None

    def _listen(self) -> None:
        """Open what `attach` connects to; warn if that fails."""
        if not (self.detach and self.attachable) or self.others:
            return
        try:
            self.others = shelves.audience(
                self.directory, self.input, self.master, self.docker.stdin_once
            )
        except OSError as error:
            warn(from_os(error, "no command can attach to the container").line())

    def _open_log(self) -> OutputLog | None:
        """Return what keeps the output; None if nothing is to be kept, or if that fails."""
        if not self.log:
            return None
        try:
            return output_files.OutputLog(self.directory, self.log.max_size, self.log.max_file)
        except OSError as error:  # the command runs by now: it is looked after all the same
            warn(from_os(error, "what the container writes is not kept").line())
            return None

    def _copy(self, pidfd: int, log: OutputLog | None, others: Audience | None) -> None:
        """Pass the streams on, to the caller, the log and those who are attached."""
        flows = []
        for source, target, owned, name in self.flows:
            keep = log.keeper(name) if log and name else None
            if others and name:
                keep = _both(keep, others, name)
            flows.append(pipes.Flow(source, target, owned, keep))
        pipes.copy(flows, pidfd, others)


def _both(
    keep: Callable[[bytes], None] | None, others: Audience, name: str
) -> Callable[[bytes], None]:
    """Return what gives a chunk to the log, if there is one, and to all who are attached."""

    def act(data: bytes) -> None:
        if keep:
            keep(data)
        others.show(name, data)

    return act


def check_input(terminal: bool, stdin: bool) -> None:
    """Raise UsageError if a command on a terminal is to have an input that is none."""
    if terminal and stdin and not os.isatty(0):
        raise UsageError("the input device is not a TTY", "leave -t out", status=1)


def callers_size() -> tuple[int, int]:
    """Return (rows, columns) of the caller's terminal; (0, 0) if there is none."""
    for fd in (0, 1):
        try:
            columns, rows = os.get_terminal_size(fd)
        except OSError:
            continue
        return rows, columns
    return 0, 0


class Viewers:
    """No viewer looks on while the container starts. Those of the shelf faces/ do."""

    def start(self, container: Container) -> None:
        """Start the views, before the log is open: they do not write. Raises OSError."""

    def hold(self, container: Container) -> None:
        """Make the gates at which the run waits, as soon as the log is open.

        Raises UsageError, OSError.
        """

    def finish(self) -> None:
        """Wait until the views have shown everything."""

    def ended(self) -> None:
        """Show what is to be shown last: the command has ended, or did not start."""
