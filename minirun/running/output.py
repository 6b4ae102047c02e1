"""What comes out of a run: the container's streams, kept for `minirun logs`, and its viewers."""

import os

from minirun.core import endings
from minirun.core.container import Container
from minirun.core.errors import from_os
from minirun.core.process.streams import Console
from minirun.core.record import Record
from minirun.core.visible import warn
from minirun.running import pipes


class Limits(Record):
    """How much of the output is kept."""

    max_size: int = 20 << 20
    """Bytes of one file; -1: no limit."""
    max_file: int = 5


class Streams:
    """The container's standard streams: a terminal, whose master end is relayed, or pipes.

    What pipes bring goes to the caller, and into log.json if a log is kept. None of them is the
    caller's own (minirun.running.pipes). Without input, stdin is /dev/null; detached without a
    log, all are.
    """

    def __init__(
        self,
        container: Container,
        interactive: bool,
        detach: bool,
        log: "Limits | None" = None,
    ) -> None:
        self.flows: list[tuple[int, int, int, str]] = []
        self.theirs: list[int] = []
        self.master = -1
        self.detach = detach
        self.interactive = interactive
        self.owner = _root_of(container)
        self.directory = container.directory
        self.log = log
        if container.config.terminal:
            self._prepare_terminal()
        elif detach and not log:
            null = self._null()
            self.console = Console(null, null, null)
        else:
            stdin = self._input() if interactive and not detach else self._null()
            self.console = Console(stdin, self._output("stdout", 1), self._output("stderr", 2))

    def _null(self) -> int:
        fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.theirs.append(fd)
        return fd

    def _input(self) -> int:
        read_fd, write_fd = self._pipe()
        self.flows.append((0, write_fd, write_fd, ""))
        self.theirs.append(read_fd)
        os.set_blocking(write_fd, False)
        return read_fd

    def _output(self, name: str, target: int) -> int:
        read_fd, write_fd = self._pipe()
        self.flows.append((read_fd, -1 if self.detach else target, read_fd, name))
        self.theirs.append(write_fd)
        os.set_blocking(read_fd, False)
        return write_fd

    def _pipe(self) -> "tuple[int, int]":
        ends = os.pipe2(os.O_CLOEXEC)
        if self.owner:
            os.fchown(ends[1], *self.owner)
        return ends

    def _prepare_terminal(self) -> None:
        """Make the socket that init sends its terminal's master end through."""
        import socket

        from minirun.oci.terminal import relay, terminal

        self.terminal, self.relays = terminal, relay
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.console = Console(socket=theirs.detach())
        self.theirs.append(self.console.socket)

    def close_containers_ends(self) -> None:
        """Close, in the supervisor, the ends that init has by now."""
        for fd in self.theirs:
            os.close(fd)
        if self.console.socket >= 0:
            self.master = self.terminal.receive_master(self.ours)
            if not (self.detach or (self.interactive and os.isatty(0) and os.isatty(1))):
                self.relays.pass_line_feeds(self.master)  # no raw terminal is to show it

    def relay(self, pid: int, pidfd: int) -> int:
        """Pass everything on until the command ends; return its exit status."""
        if self.console.socket >= 0 and not self.detach:
            self.relays.relay(self.master, 0 if self.interactive else -1, 1, pidfd)
            os.close(self.master)
        else:
            if self.master >= 0:
                os.set_blocking(self.master, False)
                self.flows.append((self.master, -1, self.master, "stdout"))
            self._copy(pidfd)
        return endings.wait(pidfd, pid)

    def _copy(self, pidfd: int) -> None:
        log = None
        if self.log:
            from minirun.running import logfile  # what --rm has shown is not kept

            try:
                log = logfile.OutputLog(self.directory, self.log)
            except OSError as error:  # the command runs by now: it is looked after all the same
                warn(from_os(error, "what the container writes is not kept").line())
        flows = []
        for source, target, owned, name in self.flows:
            keep = log.keeper(name) if log and name else None
            flows.append(pipes.Flow(source, target, owned, keep))
        pipes.copy(flows, pidfd)
        if log:
            log.close()


def _root_of(container: Container) -> "tuple[int, int] | None":
    """Return the host's ids of the container's root; None if it knows the caller's own ids.

    In a user namespace init can give a pipe to the command's user only if it knows its owner.
    """
    if container.unprivileged or not container.config.new_namespace("user"):
        return None
    from minirun.oci.namespaces import userns

    linux = container.config.linux
    return userns.owner_of_root(linux["uidMappings"], linux["gidMappings"])


class Viewers:
    """No viewer looks on while the container starts. Those of minirun.show.viewers do."""

    def start(self, container: Container) -> None:
        """Start them, before the log is open: they do not write. Raises OSError."""

    def hold(self, container: Container) -> None:
        """Make the gates at which the run waits, as soon as the log is open.

        Raises UsageError, OSError.
        """

    def finish(self) -> None:
        """Wait until they have shown everything."""

    def ended(self) -> None:
        """Show what is to be shown last: the command has ended, or did not start."""
