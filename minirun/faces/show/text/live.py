"""The live view: a process of its own follows events.jsonl and shows it while the run goes on.

It only reads. Nothing that happens to it (a closed terminal, a stopped one, a reader that went
away) reaches the run: every wait here has an end, and every failure to write ends the view
quietly. How it looks is minirun.faces.show.text.paint's matter: two lanes, sentences, or columns.

What it draws with is imported here, by the view's own process, while the runtime is already at
work on the other CPU.
"""

from __future__ import annotations

import os
import select

from minirun.core.keeping.visible import say
from minirun.core.kernel import signals
from minirun.faces.show.log.event import Tail
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.order import Births
from minirun.faces.show.text.paint import painter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.faces.show.log.event import Event
    from minirun.faces.show.text.paint import Paint

_TICK = 10
"""Milliseconds between two looks at the file."""
_SHELLS = ("sh", "ash", "dash", "bash", "zsh")
_PATIENCE = 2000
"""Milliseconds that a terminal may refuse to take output (^S, a stalled pipe)."""


def follow(
    log: str | int,
    out_fd: int,
    *,
    level: str = "stages",
    style: str = "lanes",
    runtime_pipe: int = -1,
    at_gate: Callable[[Event], None] | None = None,
) -> None:
    """Show the events of `log` on `out_fd` as they are written, until the run is over.

    To be called in a process of its own, whose signals it sets to a viewer's needs. `log` is the
    path of events.jsonl, which need not exist yet, or a descriptor of it. The run is over at stage
    7's end, when a stage failed, or when all writers of `runtime_pipe`, or the parent process, are
    gone and the rest is shown. `style`: see minirun.faces.show.text.paint. `at_gate` is called once
    the gate's event, and all before it, is shown. Never raises for a failing file, terminal or
    pipe.
    """
    for number in (signals.SIGINT, signals.SIGQUIT, signals.SIGTTOU, signals.SIGPIPE):
        signals.signal(number, signals.SIG_IGN)  # ^C is for the run, whose end ends the view
    for number in (signals.SIGTERM, signals.SIGHUP):
        signals.signal(number, signals.SIG_DFL)
    narrator, births, tail, parent = Narrator(level), Births(), Tail(log), os.getppid()
    try:
        paint = painter(out_fd, style)
        while not narrator.over:
            runtime_ended = _wait(runtime_pipe) or os.getppid() != parent
            events = births.take(tail.events(), last=runtime_ended)
            narrator.init = births.init
            for some in _up_to_gates(events) if at_gate else [events]:
                _show(some, narrator, paint, out_fd)
                if at_gate and some[-1].kind == "gate":
                    at_gate(some[-1])
            if runtime_ended:
                break
    except OSError:
        pass
    finally:
        tail.close()


def show_summary(log_fd: int, out_fd: int, style: str) -> None:
    """Show a line for each stage of a start that is over, and close its log.

    The command's output may have ended within a line. As many blanks as a line has, less one, then
    lead to the beginning of the next line, and from the beginning of a line nowhere.
    Never raises for a failing file or terminal.
    """
    tail = Tail(log_fd)
    try:
        births = Births()
        events = births.take(tail.events(), last=True)
        narrator = Narrator("summary", births.init)
        if os.isatty(out_fd):
            _write(out_fd, b" " * (os.get_terminal_size(out_fd).columns - 1) + b"\r")
        _show(events, narrator, painter(out_fd, style), out_fd)
        if (shell := _bare_shell(events)) and os.isatty(0):
            say(f"{shell} has ended, as it had no terminal: run -it gives it this one")
    except OSError:
        pass
    finally:
        tail.close()


def _bare_shell(events: list[Event]) -> str:
    """Return the name of a shell that is the container's command, and has no argument; else "".

    What `exec` or the stepper has run in there stands in the log too, as another actor's.
    """
    own = (e.words() for e in reversed(events) if e.kind == "exec" and e.actor == "init")
    words = next(own, list[str]())
    name = words[0].rpartition("/")[2] if len(words) == 1 else ""
    return name if name in _SHELLS else ""


def _up_to_gates(events: list[Event]) -> list[list[Event]]:
    """Cut a list behind each gate."""
    parts: list[list[Event]] = []
    for event in events:
        if not parts or parts[-1][-1].kind == "gate":
            parts.append([])
        parts[-1].append(event)
    return parts


def _wait(runtime_pipe: int) -> bool:
    """Wait a moment; True if no process holds the other end of the pipe any more."""
    poll = select.poll()
    if runtime_pipe >= 0:
        poll.register(runtime_pipe, select.POLLIN)
    return any(what & select.POLLHUP for _, what in poll.poll(_TICK))


def _show(events: list[Event], narrator: Narrator, paint: Paint, out_fd: int) -> None:
    rows = [row for event in events for row in narrator.rows(event)]
    if rows:
        _write(out_fd, paint(rows).encode(errors="backslashreplace"))


def _write(fd: int, data: bytes) -> None:
    """Write all, in pieces that cannot block once poll says that there is room. Raises OSError."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    while data:
        ready = poll.poll(_PATIENCE)
        if not ready or not ready[0][1] & select.POLLOUT:
            raise TimeoutError("the view's output is not read")
        data = data[os.write(fd, data[:4096]) :]
