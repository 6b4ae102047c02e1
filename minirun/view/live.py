"""The live view: a process of its own follows events.jsonl and shows it while the run goes on.

It only reads. Nothing that happens to it (a closed terminal, a stopped one, a reader that went
away) reaches the run: every wait here has an end, and every failure to write ends the view
quietly. On a terminal it paints with rich; where there is no terminal, with NO_COLOR, TERM=dumb or
without UTF-8, it writes plain lines (minirun.view.text).

Rich is imported here, by the view's own process, while the runtime is already at work on the other
CPU: it takes longer to load than a container takes to start.
"""

import _signal
import os
import select
import stat

from minirun import jsonlite
from minirun.view import text
from minirun.view.narrate import Narrator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Paint = Callable[[list[text.Row]], str]

_TICK = 10
"""Milliseconds between two looks at the file."""
_PATIENCE = 2000
"""Milliseconds that a terminal may refuse to take output (^S, a stalled pipe)."""
_COLOURS = {"runtime": "cyan", "init": "green", "hook": "yellow", "cli": "magenta"}
_STYLES = {"time": "dim", "stage": "bold", "heading": "bold", "what": "", "why": "dim italic"}


def follow(
    log: "str | int",
    out_fd: int,
    *,
    level: str = "stages",
    plain: bool = False,
    full: "bool | None" = None,
    runtime_pipe: int = -1,
) -> None:
    """Show the events of `log` on `out_fd` as they are written, until the run is over.

    To be called in a process of its own, whose signals it sets to a viewer's needs. `log` is the
    path of events.jsonl, which need not exist yet, or a descriptor of it. The run is over at stage
    7's end, when a stage failed, or when all writers of `runtime_pipe`, or the parent process, are
    gone and the rest is shown. `full` lines are not cut: by default where `out_fd` is a file.
    Never raises for a failing file, terminal or pipe.
    """
    for number in (_signal.SIGINT, _signal.SIGQUIT, _signal.SIGTTOU, _signal.SIGPIPE):
        _signal.signal(number, _signal.SIG_IGN)  # ^C is for the run, whose end ends the view
    for number in (_signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_DFL)
    narrator, tail, parent = Narrator(level), Tail(log), os.getppid()
    try:
        paint = painter(out_fd, plain, full)
        while not narrator.over:
            runtime_ended = _wait(runtime_pipe) or os.getppid() != parent
            _show(tail.events(), narrator, paint, out_fd)
            if runtime_ended:
                break
    except OSError:
        pass
    finally:
        tail.close()


def render_file(
    path: str, level: str, out_fd: int, *, plain: bool = False, full: "bool | None" = None
) -> None:
    """Show a finished log. Raises OSError where it cannot be read or written."""
    narrator, tail = Narrator(level), Tail(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    try:
        _show(tail.events(), narrator, painter(out_fd, plain, full), out_fd)
    finally:
        tail.close()


def _wait(runtime_pipe: int) -> bool:
    """Wait a moment; True where nobody holds the other end of the pipe any more."""
    poll = select.poll()
    if runtime_pipe >= 0:
        poll.register(runtime_pipe, select.POLLIN)
    return any(what & select.POLLHUP for _, what in poll.poll(_TICK))


class Tail:
    """The end of a growing file of JSON lines."""

    def __init__(self, log: "str | int") -> None:
        self.path = log if isinstance(log, str) else ""
        self.fd = -1 if isinstance(log, str) else log
        self.rest = b""

    def events(self) -> "list[dict[str, Any]]":
        """Return the events written since the last call. Raises OSError."""
        if self.fd < 0:
            try:
                self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return []
        found = []
        while chunk := os.read(self.fd, 65536):
            *lines, self.rest = (self.rest + chunk).split(b"\n")
            found += [self._event(line) for line in lines]
        return found

    def _event(self, line: bytes) -> "dict[str, Any]":
        """Return the event of a line; a note where it is none (the disk was full)."""
        try:
            event = jsonlite.loads(line.decode(errors="replace"))
            if isinstance(event, dict) and "kind" in event and isinstance(event["t"], int):
                return event
        except (jsonlite.JSONError, KeyError, SystemError):
            pass  # SystemError: what _json raises where the exception's own module is not loaded
        return {"kind": "note", "name": "a line of the log is unreadable"}

    def close(self) -> None:
        """Let go of the file."""
        if self.fd >= 0:
            os.close(self.fd)


def _show(events: "list[dict[str, Any]]", narrator: Narrator, paint: "Paint", out_fd: int) -> None:
    rows = [row for row in map(narrator.row, events) if row]
    if rows:
        _write(out_fd, paint(rows).encode(errors="backslashreplace"))


def _write(fd: int, data: bytes) -> None:
    """Write all, in pieces that cannot block once poll says that there is room. Raises OSError."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    while data:
        ready = poll.poll(_PATIENCE)
        if not ready or not ready[0][1] & select.POLLOUT:
            raise TimeoutError("nobody takes the view's output")
        data = data[os.write(fd, data[:4096]) :]


def painter(out_fd: int, plain: bool = False, full: "bool | None" = None) -> "Paint":
    """Return the function that makes text of rows, with or without colours, for `out_fd`."""
    terminal = os.isatty(out_fd)
    unicode = speaks_unicode()
    if full is None:
        full = stat.S_ISREG(os.fstat(out_fd).st_mode)
    width = (os.get_terminal_size(out_fd).columns or text.WIDTH) if terminal else text.WIDTH
    dumb = os.environ.get("TERM", "dumb") == "dumb" or bool(os.environ.get("NO_COLOR"))
    end = "\r\n" if terminal else "\n"  # a terminal in raw mode (run -it) needs the return too

    def pieces(row: text.Row) -> "list[tuple[str, str]]":
        return text.columns(row, max(width, 40), unicode=unicode, full=full)

    if plain or not terminal or dumb or not unicode:
        return lambda rows: "".join(
            "".join(part for _, part in pieces(row)).rstrip() + end for row in rows
        )
    return _colourful(pieces, end)


def _colourful(pieces: "Callable[[text.Row], list[tuple[str, str]]]", end: str) -> "Paint":
    from rich.console import Console
    from rich.text import Text

    console = Console(force_terminal=True, width=1000, highlight=False, legacy_windows=False)

    def paint(rows: "list[text.Row]") -> str:
        with console.capture() as captured:
            for row in rows:
                styled = [(part, _style(name, row)) for name, part in pieces(row)]
                console.print(Text.assemble(*styled), end="\n", soft_wrap=True)
        return captured.get().replace("\n", end)

    return paint


def _style(name: str, row: text.Row) -> str:
    if name == "actor":
        return _COLOURS.get(row.actor, "")
    if name == "result":
        failed = row.result not in ("", "ok") and not row.result.startswith("=")
        return "bold red" if failed else "green"
    return _STYLES[name]


def speaks_unicode() -> bool:
    """Whether the locale of this process says UTF-8: locale(7), the first variable that is set."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if os.environ.get(name):
            return "utf8" in os.environ[name].lower().replace("-", "")
    return False
