"""Where the keys of a stepped run come from: a terminal, a presenter's script, or nowhere.

A script plays a demonstration that was rehearsed: one key a line, by name (next, continue,
inspect, shell COMMAND, until EVENT, back, why, quit) or by letter (n, c, i, s, b, ?, q);
`pause 0.5` waits that many seconds; # begins a comment. After its last line the run continues.
"""

import os
import select
import termios
import tty
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from minirun.core.errors import UsageError

NAMES = {
    "n": "next", " ": "next", "\r": "next", "\n": "next", "c": "continue", "i": "inspect",
    "s": "shell", "u": "until", "b": "back", "?": "why", "w": "why", "q": "quit",
    "h": "help", "\x03": "quit",
}  # fmt: skip
HELP = (
    "n next  c continue  u until  i inspect  s shell  b back  ? why  q quit  h help\n"
    "n (or Enter) goes on to the next stop, c to the end, u to an event by name (mknodat) or by\n"
    "name and argument (mknodat /dev/nvidia*); i shows what both processes are made of now;\n"
    "s opens a shell in the half-built container; b shows the snapshot of the stop before;\n"
    "? says why; q gives up and cleans up\n"
)


class Key(NamedTuple):
    """What was chosen, and its argument: `shell ls -l /dev`, `pause 0.5`."""

    name: str
    argument: str = ""


class RunEnded(Exception):
    """The run ended while a key was waited for."""


class Chooser(Protocol):
    """Who says how a stepped run goes on."""

    def next(self) -> Key:
        """Wait for a key. Raises RunEnded if the run ends meanwhile."""


class TerminalKeys(NamedTuple):
    """Single keys from a terminal."""

    fd: int
    runtime_pipe: int

    def next(self) -> Key:
        """Wait for a key that means something. Raises RunEnded if the run ends meanwhile."""
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
    """Keys from a presenter's script."""

    def __init__(self, keys: list[Key], runtime_pipe: int) -> None:
        self.keys: Iterator[Key] = iter(keys)
        self.runtime_pipe = runtime_pipe

    def next(self) -> Key:
        """Return the next key, after its pauses. Raises RunEnded if the run ends meanwhile."""
        for key in self.keys:
            if key.name != "pause":
                return key
            wait([], self.runtime_pipe, float(key.argument))
        return Key("continue")


def line(fd: int, runtime_pipe: int) -> str:
    """Return a line that is typed at a terminal. Raises RunEnded if the run, or it, ends."""
    wait([fd], runtime_pipe, None)
    data = os.read(fd, 4096)
    if not data:
        raise RunEnded
    return data.decode(errors="replace").strip()


def wait(fds: list[int], runtime_pipe: int, seconds: float | None) -> None:
    """Wait until one of `fds` can be read, or for some seconds. Raises RunEnded."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    poll.register(runtime_pipe, select.POLLIN)
    ready = poll.poll(None if seconds is None else seconds * 1000)
    if any(fd == runtime_pipe for fd, _ in ready):
        raise RunEnded


def read_script(path: str) -> list[Key]:
    """Return the keys of a script. Raises UsageError that names the line, OSError."""
    with open(path, encoding="utf-8") as file:
        return parse_script(file.read(), path)


def parse_script(text: str, path: str = "script") -> list[Key]:
    """Return the keys in the text of a script. Raises UsageError that names the line."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        word, _, argument = line.partition("#")[0].strip().partition(" ")
        if not word:
            continue
        key = Key(NAMES.get(word, word), argument.strip())
        if key.name not in {*NAMES.values(), "pause"}:
            hint = "next, continue, until EVENT, inspect, shell, back, why, quit, pause SECONDS"
            raise UsageError(f"{path}:{number}: unknown key {word!r}", hint)
        if key.name == "pause" and not _is_seconds(key.argument):
            raise UsageError(f"{path}:{number}: {argument!r} is no number of seconds", "pause 0.5")
        found.append(key)
    return found


def _is_seconds(text: Any) -> bool:
    try:
        return 0 <= float(text) <= 3600
    except ValueError:
        return False
