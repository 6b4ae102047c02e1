"""A run of `minirun run --step` in a child process, spoken to through two pipes.

The run ends with this process: the kernel closes its end of the pipes, and the stepper gives the
run up. See minirun.faces.show.step.piped for what is said.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from minirun.core.errors import StateError
from minirun.faces.api.child import Child
from minirun.faces.api.container import ContainerHandle
from minirun.faces.api.stepping.holder import ONWARD, check
from minirun.faces.api.stream import OWN
from minirun.faces.show.compare.comparer import PartDifference
from minirun.faces.show.log.event import event_of
from minirun.faces.show.web.board import Board


class LiveRun:
    """A run of `minirun run --step` in a child process, which ends with this one."""

    def __init__(self, container: ContainerHandle, words: list[str], language: str) -> None:
        """Start it. `words`: of the command line from the flags on. Raises OSError."""
        self.board = Board(container.name, language)
        self.output = ""
        """What its command has written, and minirun's own messages."""
        theirs, self._keys = os.pipe2(os.O_CLOEXEC)
        self._news, ours = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(ours, True)
        step = ["run", "--quiet", "--name", container.name, "--step", f"--web=fd:{theirs},{ours}"]
        try:
            self.child = Child(container.place.argv(*step, *words), pass_fds=(theirs, ours))
        finally:
            os.close(theirs)
            os.close(ours)
        self._rest = b""
        self._place = ""
        """Where it was held last; "" once it is held no more."""
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def press(self, key: str, argument: str) -> None:
        """Send a key. Raises StateError if the run is not held, UsageError."""
        check(key, argument)
        with self.board.changed:
            if not self.board.stop:
                raise StateError("the run is not held: there is nothing to press")
            if key == "quit":
                self._place = ""
            if key in (*ONWARD, "quit"):
                self.board.show(stop="", changes=[], said="")
        data = json.dumps({"key": key, "argument": argument}).encode() + b"\n"
        try:
            os.write(self._keys, data)
        except BrokenPipeError:
            raise StateError("the run is over") from None

    def close(self) -> None:
        """Give the run up if it is held, and wait for its end."""
        if self._keys >= 0:
            os.close(self._keys)
            self._keys = -1
        self.thread.join(20)

    @property
    def status(self) -> int | None:
        """The exit status of minirun; None while it runs."""
        return self.child.process.poll()

    def _follow(self) -> None:
        self.child.follow(self._hear, self._read)
        os.close(self._news)
        words = self.output.strip().removeprefix(OWN)
        self.board.show(over=True, stop="", changes=[], said=words)

    def _hear(self, stream: str, text: str) -> None:
        self.output += text

    def _read(self) -> None:
        """Take what the stepper has said since the last time."""
        found: list[dict[str, Any]] = []
        try:
            while data := os.read(self._news, 1 << 16):
                *whole, self._rest = (self._rest + data).split(b"\n")
                found += [json.loads(line) for line in whole]
        except BlockingIOError:
            pass
        if events := [event_of(each["event"]) for each in found if "event" in each]:
            self.board.add(*events)
        for each in found:
            if "stop" in each:
                self._place = each["stop"]
                changes = [PartDifference(**change) for change in each["changes"]]
                self.board.show(stop=each["stop"], stage=each["stage"], changes=changes, said="")
            elif "said" in each:
                self.board.show(said=each["said"], stop=self._place)
            elif "ended" in each:
                self._place = ""
                self.board.show(stop="", changes=[])
