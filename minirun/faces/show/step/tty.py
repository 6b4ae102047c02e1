"""A terminal as the whole-screen stepper has it: alternate screen, keys, size, all put back.

Control sequences: console_codes(4); the alternate screen is xterm's private mode 1049.
"""

from __future__ import annotations

import os
import signal
import termios
import tty
from typing import Any

from minirun.faces.show.step import keys

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_SEQUENCES = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down", "[5~": "pageup", "[6~": "pagedown",
    "[H": "home", "[F": "end", "[1~": "home", "[4~": "end", "": "escape",
}  # fmt: skip


class Tty:
    """The screen on `out`; keys from `fd` (-1: there is no keyboard)."""

    def __init__(self, fd: int, out: int, runtime_pipe: int) -> None:
        self.fd, self.out, self.runtime_pipe = fd, out, runtime_pipe
        self.before = termios.tcgetattr(fd) if fd >= 0 else None
        self.entered = False
        self.pending: list[str] = []
        self.shown: dict[int, str] = {}
        """Number of a line, from 1 → what stands there."""
        self.wake, end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        for number in (signal.SIGWINCH, signal.SIGINT):  # ^C is for the run, whose end is seen
            signal.signal(number, lambda *_: None)

    def enter(self) -> None:
        """Take the screen and the keys. Raises OSError."""
        if self.entered:
            return
        self.entered, self.shown = True, {}
        if self.fd >= 0:
            tty.setcbreak(self.fd, termios.TCSANOW)
            mode = termios.tcgetattr(self.fd)
            mode[6][termios.VSUSP] = b"\0"  # ^Z would leave this screen to the shell: termios(3)
            termios.tcsetattr(self.fd, termios.TCSANOW, mode)
        self._write(_ENTER)

    def leave(self) -> None:
        """Put everything back. Never raises for a terminal that has gone."""
        if not self.entered:
            return
        self.entered = False
        try:
            self._write(LEAVE)
            if self.before:
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self.before)
        except (OSError, termios.error):
            pass

    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        found = os.get_terminal_size(self.out)
        return max(found.columns, 20), max(found.lines, 5)

    def draw(self, lines: list[str]) -> None:
        """Show these lines, from the top; what has not changed is not sent. Raises OSError."""
        if not self.entered:
            return
        drawn = dict(enumerate(lines, 1))
        changed = sorted(drawn.items() - self.shown.items())
        self.shown = drawn
        self._write("".join(f"\x1b[{number};1H\x1b[2K{line}" for number, line in changed))

    def forget(self) -> None:
        """Draw everything the next time: the size has changed."""
        self.shown = {}

    def key(self, seconds: float | None) -> str:
        """Wait for a key: its letter, or up, down, pageup, pagedown, home, end, escape.

        "resize": the terminal has another size; "": the time is over. Raises RunEnded.
        """
        while not self.pending:
            ready = keys.ready([self.wake, *([self.fd] if self.fd >= 0 else [])],
                               self.runtime_pipe, seconds)  # fmt: skip
            if self.wake in ready:
                os.read(self.wake, 4096)
                self.forget()
                return "resize"
            if not ready:
                return ""
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                data = b""
            if not data:
                raise keys.RunEnded  # the terminal has gone
            self.pending = _keys(data.decode(errors="replace"))
        return self.pending.pop(0)

    def _write(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")
        while data:
            data = data[os.write(self.out, data) :]


def attributes(fd: int) -> list[Any] | None:
    """Return how a terminal is set: termios(3); None if it is none."""
    try:
        return termios.tcgetattr(fd)
    except (OSError, termios.error):
        return None


def restore(fd: int, out: int, before: list[Any] | None) -> None:
    """Give the screen back for a stepper that was killed. Never raises for a terminal's end."""
    try:
        os.write(out, LEAVE.encode())
        if before:
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
    except (OSError, termios.error):
        pass


def _keys(text: str) -> list[str]:
    """Cut what a terminal has sent into keys."""
    found = []
    while text:
        if text[0] != "\x1b":
            found.append(text[0])
            text = text[1:]
            continue
        known = [end for end in _SEQUENCES if end and text[1:].startswith(end)]
        length = len(known[0]) if known else 0
        found.append(_SEQUENCES[text[1 : 1 + length]])
        text = text[1 + length :]
    return found
