"""A real terminal for the views: tmux, of any size."""

import itertools
import os
import subprocess
import time
from typing import Protocol

from conftest import processes, wait_until

_numbers = itertools.count()


class Terminal:
    """A terminal of some columns and lines, with a command in it."""

    def __init__(self, name: str, argv: list[str], columns: int = 80, lines: int = 40) -> None:
        # a server that is ending still has its socket: each has a name of its own
        self.tmux = ["tmux", "-L", f"{name}-{next(_numbers)}", "-f", "/dev/null"]
        quoted = " ".join(f"'{word}'" for word in argv)
        subprocess.run(
            [*self.tmux, "new-session", "-d", "-x", str(columns), "-y", str(lines),
             f"{quoted}; echo ended with $?; sleep 60"],
            check=True, env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"},
        )  # fmt: skip

    def visible(self) -> list[str]:
        """The lines that the screen shows now, without what has left it."""
        argv = [*self.tmux, "capture-pane", "-p"]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        return [line.rstrip() for line in done.stdout.splitlines()]

    def at_rest(self) -> list[str]:
        """The same, once two looks in turn are alike: tmux may draw a screen in several parts."""
        before, now = [""], self.visible()
        while now != before:
            time.sleep(0.2)
            before, now = now, self.visible()
        return now

    def screen(self) -> str:
        """All that was ever shown."""
        done = subprocess.run(
            [*self.tmux, "capture-pane", "-p", "-S", "-", "-J"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout

    def wait(self, text: str, times: int = 1) -> str:
        wait_until(lambda: self.screen().count(text) >= times)
        return self.screen()

    def press(self, *keys: str) -> None:
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def tell(self, *words: str) -> str:
        """Give tmux a command, and return what it prints."""
        done = subprocess.run([*self.tmux, *words], check=True, capture_output=True, text=True)
        return done.stdout

    def close(self) -> None:
        """End what runs in it, and wait until it has: a run cleans up after its terminal is gone.

        Each pane's process leads a session of its own: proc_pid_stat(5), field 6.
        """
        argv = [*self.tmux, "list-panes", "-a", "-F", "#{pane_pid}"]
        panes = subprocess.run(argv, check=False, capture_output=True, text=True).stdout.split()
        inside = [pid for pid, _, fields in processes() if fields[3] in panes]
        subprocess.run([*self.tmux, "kill-server"], check=False, capture_output=True)
        wait_until(
            lambda: not any(fields[0] != "Z" for pid, _, fields in processes() if pid in inside)
        )


class Start(Protocol):
    """The fixture `terminal`: opens a terminal with a command, and closes it at the test's end."""

    def __call__(self, argv: list[str], columns: int = 80, lines: int = 40) -> Terminal: ...
