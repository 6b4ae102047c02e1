"""Who looks on while `run` starts a container: the live view, and --log as text.

Each is a process of its own, forked before the run begins. What it renders with (text, colours,
keys: 10 to 45 ms) it imports itself, so the runtime does not wait for that. The stepper, which
minirun.faces.show.step.stepper_process adds, is another one.
"""

from __future__ import annotations

import os

from minirun.core import gates
from minirun.core.container import Container, log_detail
from minirun.core.errors import UsageError
from minirun.core.keeping import places
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import BOUNDARIES
from minirun.core.kernel import process
from minirun.core.lazy import lazy
from minirun.running.output import Viewers

with lazy:
    from minirun.faces.show.text import live, pacing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ViewOptions(Record):
    """What `run` shows of the stages, and where it holds: its flags."""

    show: bool = False
    """The stages, on standard error."""
    style: str = "lanes"
    """How: summary, lanes or plain (minirun.faces.show.text.paint)."""
    step: str = ""
    """stage, or syscall; empty: go on without stopping."""
    script: str = ""
    """A presenter's script, whose keys are played."""
    screen: bool = False
    """The stepper has the whole screen."""
    large: bool = False
    """With fewer words, for a projector."""
    rehearse: bool = False
    """The script is played without its waits and pauses."""
    late: bool = False
    """Once the command has ended, which leaves it on the screen."""
    snapshots: bool = False
    pace: float = 0
    """Seconds that the run is held at each boundary of a stage."""
    web: str = ""
    """The port of --step's live page, "0" for any; "fd:3,4" for a program; empty: there is none."""


class LogViewers(Viewers):
    """Processes that read the log and render it: on the terminal, and into --log as text."""

    def __init__(self, options: ViewOptions) -> None:
        self.options = options
        self.gate: tuple[str, ...] = ()
        """Gates that they hold until they have shown all that came before."""
        self.alive: list[int] = []
        """Pipes that end with the viewers: after that no gate is held any more."""
        self.pids: list[int] = []
        self.log_fd = -1
        """The log, for what is shown at the end; it outlives the container. -1: nothing is."""
        self.ends: list[int] = []
        """Pipes that tell the viewers, by their end, that nothing more will come."""

    def finish(self) -> None:
        """Wait until the viewers have shown everything."""
        for fd in self.ends:
            os.close(fd)
        for pid in self.pids:
            os.waitpid(pid, 0)
        self.pids, self.ends = [], []

    def ended(self) -> None:
        """Show a line for each stage, if they are wanted at the end."""
        if self.log_fd >= 0:
            live.show_summary(self.log_fd, 2, self.options.style)
            self.log_fd = -1

    def start(self, container: Container) -> None:
        """Start what the flags ask for. Raises UsageError, OSError.

        A view on the caller's terminal holds the last gate (7:end) until all is shown, so that
        the command's output never mixes with it.
        """
        options = self.options
        if (options.show and not options.late) or options.pace:
            level = "summary" if options.style == "summary" else "stages"
            _start(self, container, 2, level, options.style, options.pace)
            self.gate = BOUNDARIES if options.pace else BOUNDARIES[-1:]
        self.start_log(container)

    def start_log(self, container: Container) -> None:
        """Start what writes --log as text. Raises UsageError, OSError."""
        settings = container.settings
        if settings.log and settings.log_format == "text":
            if log_detail(container.config) == "off":
                raise UsageError("MINIRUN_LOG=off: there is no log to be written to --log FILE")
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            _start(self, container, os.open(settings.log, flags, 0o644), "syscalls", "columns")

    def hold(self, container: Container) -> None:
        """Make the gates that the viewers, or $MINIRUN_GATES, hold. Raises UsageError, OSError."""
        if self.options.show and self.options.late:
            path = f"{container.directory}/{places.EVENTS}"
            self.log_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if stops := (*container.settings.gates, *self.gate):
            container.gates = self.gates(container.directory, stops)
            container.gates.watched += self.alive

    def gates(self, directory: str, stops: tuple[str, ...]) -> gates.Gates:
        """Return the gates of these boundaries. Raises UsageError, OSError."""
        return gates.Gates(directory, stops)

    def fork(self, name: str, work: Callable[[int], None]) -> None:
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
        self.ends.append(end)
        self.pids.append(pid)
        self.alive.append(alive)


def _start(
    viewers: LogViewers, container: Container, fd: int, level: str, style: str, pace: float = 0
) -> None:
    events_path = f"{container.directory}/{places.EVENTS}"

    def view(over: int) -> None:
        at_gate = None
        if pace:
            at_gate = pacing.pacer(container.directory, container.id, pace, over)
        live.follow(events_path, fd, level=level, style=style, runtime_pipe=over, at_gate=at_gate)
        gates.open_gate(container.directory)

    viewers.fork("minirun:view", view)
