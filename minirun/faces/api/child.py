"""minirun as a child process of the program that imports this package.

It is started by `subprocess`, without a function to run in the child: that is vfork(2) and execve,
so no copy of the caller, a notebook's kernel with its threads, ever runs. The child gets a process
group of its own: an interrupt of the notebook's cell reaches the caller first, which then ends the
container in order.
"""

from __future__ import annotations

import codecs
import os
import selectors
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from minirun.core.keeping.places import CONTAINERS, STORE

TICK = 0.02
"""Seconds between two looks at a growing log."""


class Location(NamedTuple):
    """Where containers (`root`) and images (`store`) are kept, as absolute paths."""

    root: str
    store: str

    @classmethod
    def usual(cls) -> Location:
        """Return the command line's: $MINIRUN_ROOT and $MINIRUN_STORE, or the defaults."""
        store = os.path.abspath(os.environ.get("MINIRUN_STORE") or STORE)
        root = os.environ.get("MINIRUN_ROOT") or f"{store}/{CONTAINERS}"
        return cls(os.path.abspath(root), store)

    def argv(self, *words: str) -> list[str]:
        """Return the command line that calls minirun with these words."""
        return [*command(), "--root", self.root, "--store", self.store, *words]

    def call(self, *words: str, merged: bool = False) -> subprocess.CompletedProcess[str]:
        """Run minirun to its end, with nothing on its standard input.

        `merged`: its standard error comes on stdout too, in the order in which both were written.
        """
        return subprocess.run(
            self.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE, text=True, errors="replace",
            check=False, process_group=0,
        )  # fmt: skip


def command() -> list[str]:
    """Return how minirun is called: the launcher beside this interpreter, or its module."""
    beside = Path(sys.executable).with_name("minirun")
    if os.access(beside, os.X_OK):
        return [str(beside)]
    return [sys.executable, "-P", "-m", "minirun"]


def words_of(command: tuple[str | Sequence[str], ...]) -> list[str]:
    """Return a command's words: given as words, as one list, or as one string with spaces.

    The string is split as a shell would split it, and no shell runs it. Raises ValueError for a
    quote that is not closed.
    """
    if len(command) == 1 and isinstance(command[0], (list, tuple)):
        return [str(word) for word in command[0]]
    if len(command) == 1 and " " in str(command[0]):
        return shlex.split(str(command[0]))
    return [str(word) for word in command]


class Child:
    """One minirun that runs, and both of its output streams."""

    def __init__(self, argv: list[str], pass_fds: tuple[int, ...] = ()) -> None:
        """`pass_fds`: descriptors that it gets beside its streams. Raises OSError."""
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            process_group=0, pass_fds=pass_fds,
        )  # fmt: skip
        self.errors = ""
        """What it has written on its standard error."""

    def follow(self, hear: Callable[[str, str], None], on_tick: Callable[[], None]) -> int:
        """Pass each piece of output on as hear(stream, text) until the end; return the status.

        `on_tick` is called every 20 ms, and once more at the end.
        """
        assert self.process.stdout and self.process.stderr
        decode = codecs.getincrementaldecoder("utf-8")
        with selectors.DefaultSelector() as selector:
            for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr)):
                selector.register(stream, selectors.EVENT_READ, (name, decode("replace")))
            while selector.get_map():
                for key, _ in selector.select(TICK):
                    name, decoder = key.data
                    data = os.read(key.fd, 65536)
                    text = decoder.decode(data, final=not data)
                    self.errors += text if name == "stderr" else ""
                    if text:
                        hear(name, text)
                    if not data:
                        selector.unregister(key.fileobj)
                on_tick()
        status = self.process.wait()
        self.close()
        on_tick()
        return status

    def close(self) -> None:
        """Read no more: the child's next write to us fails, and it goes on without us."""
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
