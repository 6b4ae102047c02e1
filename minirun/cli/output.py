"""What comes out of a run: the container's streams, kept for `minirun logs`, and the live view."""

import os
import select

from minirun import endings, gates, jsonlite
from minirun.container import Container
from minirun.kernel import process
from minirun.oci import state
from minirun.process.streams import Console
from minirun.record import Record
from minirun.settings import BOUNDARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 65536


class Streams:
    """The container's standard streams, in one of three ways.

    A terminal: its master end is relayed. With --rm: the caller's own streams, untouched, since
    no log is kept. Else: pipes, whose content goes to the caller and into log.json.
    """

    def __init__(
        self, container: Container, interactive: bool, detach: bool, auto_remove: bool
    ) -> None:
        self.pipes: dict[int, tuple[str, int]] = {}
        self.theirs: list[int] = []
        self.master = -1
        self.detach = detach
        self.interactive = interactive
        self.owner = _root_of(container)
        self.log_path = f"{container.directory}/log.json"
        stdin = 0 if interactive and not detach else self._null()
        if container.config.terminal:
            self._prepare_terminal()
        elif auto_remove and not detach:
            self.console = Console(stdin, 1, 2)
        else:
            stdout, stderr = self._pipe("stdout", 1), self._pipe("stderr", 2)
            self.console = Console(stdin, stdout, stderr)

    def _null(self) -> int:
        fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.theirs.append(fd)
        return fd

    def _pipe(self, name: str, target: int) -> int:
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        if self.owner:
            os.fchown(write_fd, *self.owner)
        self.pipes[read_fd] = (name, -1 if self.detach else target)
        self.theirs.append(write_fd)
        return write_fd

    def _prepare_terminal(self) -> None:
        """Make the socket that init sends its terminal's master end through."""
        import socket

        from minirun.process import terminal

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
        elif self.pipes or self.master >= 0:
            if self.master >= 0:
                self.pipes[self.master] = ("stdout", -1)
            self._copy(pidfd)
        return endings.wait(pidfd, pid)

    def _copy(self, pidfd: int) -> None:
        log = Log(self.log_path)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        for fd in self.pipes:
            os.set_blocking(fd, False)
            poll.register(fd, select.POLLIN)
        ended = False
        while self.pipes and not ended:
            ready = [fd for fd, _ in poll.poll()]
            ended = pidfd in ready
            for fd in list(self.pipes) if ended else ready:
                while fd in self.pipes and not self._copy_chunk(fd, log, poll):
                    pass
        log.close()

    def _copy_chunk(self, fd: int, log: "Log", poll: select.poll) -> bool:
        """Copy what there is; return True where nothing more is to be had now."""
        name, target = self.pipes[fd]
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # EIO: the terminal's last user has gone
            data = b""
        if not data:
            poll.unregister(fd)
            del self.pipes[fd]
            return True
        log.write(name, data)
        if target >= 0:
            try:
                _write_all(target, data)
            except OSError:  # the caller's stdout is gone; the log goes on
                self.pipes[fd] = (name, -1)
        return False


def _root_of(container: Container) -> "tuple[int, int] | None":
    """Return the host's ids of the container's root; None where it knows the caller's own ids.

    In a user namespace init can give a pipe to the command's user only if it knows its owner.
    """
    if container.unprivileged or not container.config.new_namespace("user"):
        return None
    from minirun.stages import userns

    linux = container.config.linux
    return userns.host_id(linux["uidMappings"], 0), userns.host_id(linux["gidMappings"], 0)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


class Log:
    """log.json, in the form of docker's json-file driver: one JSON object a line of output."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.fd = os.open(path, flags, 0o600)
        self.rest = {"stdout": b"", "stderr": b""}

    def write(self, stream: str, data: bytes) -> None:
        """Append every line of `data`; the beginning of a line waits for its end."""
        *lines, self.rest[stream] = (self.rest[stream] + data).split(b"\n")
        for line in lines:
            self._row(stream, line + b"\n")
        if len(self.rest[stream]) > CHUNK:
            self._flush(stream)

    def _flush(self, stream: str) -> None:
        line, self.rest[stream] = self.rest[stream], b""
        if line:
            self._row(stream, line)

    def _row(self, stream: str, line: bytes) -> None:
        row = {"log": line.decode(errors="replace"), "stream": stream, "time": state.timestamp()}
        try:
            os.write(self.fd, jsonlite.dumps(row).encode() + b"\n")
        except OSError:
            pass  # a full disk ends the log, not the container

    def close(self) -> None:
        """Write what is left and close."""
        for stream in self.rest:
            self._flush(stream)
        os.close(self.fd)


class Wanted(Record):
    """What of the run is to be shown, and held: flags of `run`."""

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

    def start(self, container: Container, wanted: Wanted) -> None:
        """Start what the flags ask for. Raises OSError.

        A view on the caller's terminal holds the last gate (7:end) until all is shown, so that
        the command's output never mixes with it.
        """
        settings = container.settings
        if wanted.step or wanted.snapshots:
            _start_stepper(self, container, wanted)
            every = (gates.EVERY_EVENT,) if wanted.step == gates.EVERY_EVENT else ()
            self.gate = (*BOUNDARIES, *every)
        elif wanted.show:
            _start(self, container, 2, "stages", "plain" if wanted.plain else "lanes")
            self.gate = ("7:end",)
        if settings.log and settings.log_format == "text":
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            _start(self, container, os.open(settings.log, flags, 0o644), "syscalls", "columns")


def _start(viewers: Viewers, container: Container, fd: int, level: str, style: str) -> None:
    events_path = f"{container.directory}/events.jsonl"

    def view(over: int) -> None:
        from minirun.view import live

        live.follow(events_path, fd, level=level, style=style, runtime_pipe=over)
        gates.open_gate(container.directory)

    _fork(viewers, "minirun:view", view)


def _start_stepper(viewers: Viewers, container: Container, wanted: Wanted) -> None:
    def step(over: int) -> None:
        from minirun.view import step

        step.run(container.settings, container.id, wanted, over)

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
