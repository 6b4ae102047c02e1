"""Where the keys of a stepped run come from: a terminal, a presenter's script, or nowhere.

A script plays a demonstration that was rehearsed: one line a key, by name (next, continue, inspect,
shell COMMAND, until EVENT, back, why, quit) or by letter (n, c, i, s, u, b, ?, q). And:

    say TEXT       a caption, until the next one
    wait           for a key of the presenter (none is waited for without a keyboard)
    pause 0.5      that many seconds
    at 5:begin     go on to this boundary, unless the run is there; a label to jump to
    # …            a comment

A start does not go back: boundaries stand in their order.

While it pauses or waits, the presenter's keys count: space pauses and resumes, 1 to 7 jump to a
stage that is still to come (one that is over is refused), n or Enter goes on at once, i ? b s show
what they always show (the pause then begins anew), q quits. After the last line the run continues.
"""

from __future__ import annotations

import os
import select
import termios
import time
import tty
from collections.abc import Callable
from typing import NamedTuple, Protocol

from minirun.common.quantities import decimal
from minirun.core.errors import UsageError
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces.show.step import destinations

NAMES = {
    "n": "next", " ": "next", "\r": "next", "\n": "next", "c": "continue", "i": "inspect",
    "s": "shell", "u": "until", "b": "back", "?": "why", "w": "why", "q": "quit",
    "h": "help", "\x03": "quit",
}  # fmt: skip
HELP = (
    "n next  c continue  u until  i inspect  s shell  b back  ? why  q quit  h help\n"
    "n (or Enter) goes on to the next stop, c to the end, u to an event by name\n"
    "(mknodat) or by name and argument (mknodat /dev/nvidia*); i shows what both\n"
    "processes are made of now; s opens a shell in the half-built container;\n"
    "b shows the snapshot of the stop before; ? says why; q gives up and cleans up\n"
)


_LAST_STAGE = 7


class Key(NamedTuple):
    """What was chosen, and its argument: `shell ls -l /dev`, `pause 0.5`."""

    name: str
    argument: str = ""


class RunEnded(Exception):
    """The run ended while a key was waited for."""


class Chooser(Protocol):
    """Where the keys of a stepped run come from."""

    def next(self) -> Key:
        """Wait for a key. Raises RunEnded if the run ends first."""


class TerminalKeys(NamedTuple):
    """Single keys from a terminal."""

    fd: int
    runtime_pipe: int

    def next(self) -> Key:
        """Wait for a key that means something. Raises RunEnded if the run ends first."""
        before = termios.tcgetattr(self.fd)
        tty.setcbreak(self.fd, termios.TCSANOW)
        try:
            while True:
                wait([self.fd], self.runtime_pipe, None)
                data = os.read(self.fd, 1)
                if not data:
                    raise RunEnded  # the terminal has gone
                name = NAMES.get(data.decode("ascii", errors="replace"))
                if name:
                    return Key(name)
        finally:
            termios.tcsetattr(self.fd, termios.TCSANOW, before)


class Script:
    """Keys from a presenter's script, at the presenter's pace."""

    def __init__(
        self, keys: list[Key], waiter: Callable[[float | None, str], str], *,
        passed: Callable[[str], bool], keyboard: bool, rehearsed: bool = False,
    ) -> None:  # fmt: skip
        """`waiter` waits some seconds (None: without an end) for a key, and says "paused" or "wait"
        as long. `passed`: if the run has come to a boundary. `keyboard`: there is a presenter.
        `rehearsed`: waits are left out."""
        self.keys = keys
        self.at = 0
        self.passed = passed
        self.waiter = waiter
        self.keyboard = keyboard
        self.rehearsed = rehearsed

    def next(self) -> Key:
        """Return the next key, after its pauses. Raises RunEnded if the run ends first."""
        while self.at < len(self.keys):
            key = self.keys[self.at]
            self.at += 1
            if key.name == "at" and self._is_over(int(key.argument[0])):
                self._skip_section()
            if key.name not in ("pause", "wait"):
                return key
            if chosen := self._pause(key):
                return chosen
        return Key("continue")

    def _pause(self, key: Key) -> Key | None:
        """Wait as a line of the script says. The presenter can pause, jump, go on, or quit."""
        if self.rehearsed or (key.name == "wait" and not self.keyboard):
            return None
        seconds = float(key.argument) if key.name == "pause" else None
        end = time.monotonic() + (seconds or 0)
        while True:
            rest = None if seconds is None else max(0.0, end - time.monotonic())
            typed = self.waiter(rest, "wait" if seconds is None else "")
            if typed == " " and seconds is not None:
                left = max(0.0, end - time.monotonic())
                typed = self.waiter(None, "paused")
                end = time.monotonic() + left
                if typed == " ":
                    continue
            if typed in "1234567" and typed:
                return self._jump(f"{typed}:begin")
            if NAMES.get(typed) in ("quit", "continue"):
                return Key(NAMES[typed])
            if NAMES.get(typed) in ("inspect", "why", "back", "shell"):
                self.at -= 1  # then the same line again
                return Key(NAMES[typed])
            if typed in ("", " ", "n", "\r", "\n") or seconds is None:
                return None

    def _is_over(self, stage: int) -> bool:
        return stage < _LAST_STAGE and self.passed(f"{stage + 1}:begin")

    def _skip_section(self) -> None:
        """Go to the next label: what is said of a stage that is over would be of another one."""
        while self.at < len(self.keys) and self.keys[self.at].name != "at":
            self.at += 1

    def _jump(self, boundary: str) -> Key:
        """Go on with the line `at BOUNDARY`, if the script has it and the run can come to it."""
        if self.passed(boundary):
            self.at -= 1  # the same line again: the run refuses the key
            return Key("at", boundary)
        labels = [at for at, key in enumerate(self.keys) if key == Key("at", boundary)]
        if labels:
            self.at = labels[0] + 1
        return Key("at", boundary)


def line(fd: int, runtime_pipe: int) -> str:
    """Return a line that is typed at a terminal. Raises RunEnded if the run, or it, ends."""
    wait([fd], runtime_pipe, None)
    data = os.read(fd, 4096)
    if not data:
        raise RunEnded
    return data.decode(errors="replace").strip()


def wait(fds: list[int], runtime_pipe: int, seconds: float | None) -> None:
    """Wait until one of `fds` can be read, or for some seconds. Raises RunEnded."""
    ready(fds, runtime_pipe, seconds)


def ready(fds: list[int], runtime_pipe: int, seconds: float | None) -> list[int]:
    """Wait in the same way, and return which of them can be read. Raises RunEnded."""
    poll = select.poll()
    for fd in (*fds, runtime_pipe):
        poll.register(fd, select.POLLIN)
    found = [fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)]
    if runtime_pipe in found:
        raise RunEnded
    return found


def waiter(fd: int, runtime_pipe: int) -> Callable[[float | None, str], str]:
    """Return what waits for a presenter's key at a terminal that shows lines; `fd` -1: no key."""

    def pause(seconds: float | None, note: str) -> str:
        if fd < 0:
            wait([], runtime_pipe, seconds)
            return ""
        before = termios.tcgetattr(fd)
        tty.setcbreak(fd, termios.TCSANOW)
        try:
            if ready([fd], runtime_pipe, seconds):
                return os.read(fd, 1).decode("ascii", errors="replace") or "q"
            return ""
        finally:
            termios.tcsetattr(fd, termios.TCSANOW, before)

    return pause


def read_script(path: str) -> list[Key]:
    """Return the keys of a script. Raises UsageError that names the line, OSError."""
    with open(path, encoding="utf-8") as file:
        return parse_script(file.read(), path)


def parse_script(text: str, path: str = "script") -> list[Key]:
    """Return the keys in the text of a script. Raises UsageError that names the line."""
    found: list[Key] = []
    reached = -1
    for number, whole in enumerate(text.splitlines(), 1):
        said = whole.strip().startswith("say ")  # a caption may have a #
        row = whole if said else whole.partition("#")[0]
        word, _, argument = row.strip().partition(" ")
        if not word:
            continue
        key = Key(NAMES.get(word, word), argument.strip())
        if key.name not in {*NAMES.values(), *_SCRIPTED}:
            hint = (
                "next, continue, until EVENT, inspect, shell, back, why, quit, pause, wait, say, at"
            )
            raise UsageError(f"{path}:{number}: unknown key {word!r}", hint)
        fits, hint = _SCRIPTED.get(key.name, (lambda _: True, ""))
        if not fits(key.argument):
            raise UsageError(f"{path}:{number}: {word} cannot have {key.argument!r}", hint)
        try:
            reached = _reached(key, reached)
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error}", error.hint) from None
        found.append(key)
    return found


def _reached(key: Key, before: int) -> int:
    """Return the number of the boundary that a run has come to after a line of a script.

    `before`: that of the lines above; -1: none. Raises UsageError for a way back, and for an event
    that there is not.
    """
    if key.name not in ("at", "until"):
        return before
    boundary = destinations.boundary(key.argument)
    if not boundary:
        destinations.check(key.argument)
        return before
    at = BOUNDARIES.index(boundary)
    if at < before:
        hint = "a start does not go back: boundaries stand in their order"
        raise UsageError(f"{boundary} is over here, after {BOUNDARIES[before]}", hint)
    return at


def _is_seconds(text: str) -> bool:
    seconds = decimal(text)
    return seconds is not None and seconds <= 3600


_SCRIPTED: dict[str, tuple[Callable[[str], bool], str]] = {
    "pause": (_is_seconds, "pause SECONDS: pause 0.5"),
    "wait": (lambda text: not text, "wait alone: for a key"),
    "say": (bool, "say TEXT: a caption"),
    "until": (bool, "until EVENT: until mknodat"),
    "at": (lambda text: text in BOUNDARIES, "at BOUNDARY: at 5:begin"),
}
"""What only scripts have, or need an argument for: if it fits, and how it is written."""
