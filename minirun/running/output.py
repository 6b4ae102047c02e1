"""What comes out of a run: the container's streams, kept for `minirun logs`, and the live view."""

import os

from minirun.core import endings, gates, places
from minirun.core.container import Container
from minirun.core.kernel import process
from minirun.core.process.streams import Console
from minirun.core.record import Record
from minirun.core.settings import BOUNDARIES
from minirun.running import logfile, pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Streams:
    """The container's standard streams: a terminal, whose master end is relayed, or pipes.

    What pipes bring goes to the caller, and into log.json where a log is kept. None of them is the
    caller's own (minirun.running.pipes). Without input, stdin is /dev/null; detached without a
    log, all are.
    """

    def __init__(
        self,
        container: Container,
        interactive: bool,
        detach: bool,
        log: "logfile.Limits | None" = None,
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

        from minirun.oci.terminal import terminal

        self.terminal = terminal
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.console = Console(socket=theirs.detach())
        self.theirs.append(self.console.socket)

    def close_containers_ends(self) -> None:
        """Close, in the supervisor, the ends that init has by now."""
        for fd in self.theirs:
            os.close(fd)
        if self.console.socket >= 0:
            self.master = self.terminal.receive_master(self.ours)

    def relay(self, pid: int, pidfd: int) -> int:
        """Pass everything on until the command ends; return its exit status."""
        if self.console.socket >= 0 and not self.detach:
            self.terminal.relay(self.master, 0 if self.interactive else -1, 1, pidfd)
            os.close(self.master)
        else:
            if self.master >= 0:
                os.set_blocking(self.master, False)
                self.flows.append((self.master, -1, self.master, "stdout"))
            self._copy(pidfd)
        return endings.wait(pidfd, pid)

    def _copy(self, pidfd: int) -> None:
        log = logfile.OutputLog(self.directory, self.log) if self.log else None
        flows = []
        for source, target, owned, name in self.flows:
            keep = log.keeper(name) if log and name else None
            flows.append(pipes.Flow(source, target, owned, keep))
        pipes.copy(flows, pidfd)
        if log:
            log.close()


def _root_of(container: Container) -> "tuple[int, int] | None":
    """Return the host's ids of the container's root; None where it knows the caller's own ids.

    In a user namespace init can give a pipe to the command's user only if it knows its owner.
    """
    if container.unprivileged or not container.config.new_namespace("user"):
        return None
    from minirun.oci.namespaces import userns

    linux = container.config.linux
    return userns.host_id(linux["uidMappings"], 0), userns.host_id(linux["gidMappings"], 0)


class ViewOptions(Record):
    """What `run` shows of the stages, and where it holds: its flags."""

    show: bool = False
    """The stages, on standard error."""
    plain: bool = False
    step: str = ""
    """stage, or syscall; empty: go on without stopping."""
    script: str = ""
    """A presenter's script, whose keys are played."""
    snapshots: bool = False


class Viewers:
    """Processes that read the log and render it: on the terminal, and into --log as text."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.gate: tuple[str, ...] = ()
        self.ends: list[int] = []
        """Pipes that tell the viewers, by their end, that nothing more will come."""
        self.alive: list[int] = []
        """Pipes that end with the viewers: then nobody holds a gate any more."""

    def finish(self) -> None:
        """Wait until the viewers have shown everything."""
        for fd in self.ends:
            os.close(fd)
        for pid in self.pids:
            os.waitpid(pid, 0)
        self.pids, self.ends = [], []

    def start(self, container: Container, options: ViewOptions) -> None:
        """Start what the flags ask for. Raises OSError.

        A view on the caller's terminal holds the last gate (7:end) until all is shown, so that
        the command's output never mixes with it.
        """
        settings = container.settings
        if options.step or options.snapshots:
            _start_stepper(self, container, options)
            every = (gates.EVERY_EVENT,) if options.step == gates.EVERY_EVENT else ()
            self.gate = (*BOUNDARIES, *every)
        elif options.show:
            _start(self, container, 2, "stages", "plain" if options.plain else "lanes")
            self.gate = ("7:end",)
        if settings.log and settings.log_format == "text":
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            _start(self, container, os.open(settings.log, flags, 0o644), "syscalls", "columns")


def _start(viewers: Viewers, container: Container, fd: int, level: str, style: str) -> None:
    events_path = places.events_jsonl(container.directory)

    def view(over: int) -> None:
        from minirun.show import live

        live.follow(events_path, fd, level=level, style=style, runtime_pipe=over)
        gates.open_gate(container.directory)

    _fork(viewers, "minirun:view", view)


def _start_stepper(viewers: Viewers, container: Container, options: ViewOptions) -> None:
    def step(over: int) -> None:
        from minirun.show import step

        step.run(container.settings, container.id, options, over)

    _fork(viewers, "minirun:step", step)


def _fork(viewers: Viewers, name: str, work: "Callable[[int], None]") -> None:
    """Start a process that looks on: `work` gets a pipe that ends with this one."""
    alive, held = os.pipe2(os.O_CLOEXEC)
    over, end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(alive)
            os.close(end)
            process.become_named(name)
            work(over)
        finally:
            os._exit(0)
    os.close(held)
    os.close(over)
    viewers.ends.append(end)
    viewers.pids.append(pid)
    viewers.alive.append(alive)
