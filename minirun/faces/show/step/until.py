"""`u`, `until mknodat`: which event the run is to go on to, and how the run learns of it.

Gates are made when the run starts (minirun.core.gates). So the stepper's own gates look, after each
event, at a page of memory that the runtime, init and the stepper share. The process waits there
only if the event is the one that is asked for; every other event costs one look and no line in the
log. A run without --step has no such page.
"""

from __future__ import annotations

import mmap

from minirun.core import events, gates
from minirun.faces.show.log.pattern import Pattern


class StopPattern:
    """The pattern that stands now, in a page that processes share from their fork on."""

    def __init__(self, text: str = "") -> None:
        self.page = mmap.mmap(-1, mmap.PAGESIZE)  # MAP_SHARED, MAP_ANONYMOUS: mmap(2)
        self.known: tuple[bytes, Pattern | None] = (b"", None)
        if text:
            self.set(text)

    def set(self, text: str) -> None:
        """Let this pattern stand; "" for none. Raises UsageError."""
        data = Pattern(text).text.encode() if text else b""
        self.page[0] = 0  # no other process reads a half of it
        self.page[1 : len(data) + 2] = data + b"\0"
        self.page[0] = bool(data)

    def mark(self, taken: bool) -> None:
        """Note that the stepper has the terminal's screen, or has given it back."""
        self.page[-1] = taken

    def marked(self) -> bool:
        """Return True if it has it: then it died without giving it back, if it is no more."""
        return bool(self.page[-1])

    def pattern(self) -> Pattern | None:
        """Return what stands now."""
        if not self.page[0]:
            return None
        data = self.page[1 : self.page.find(b"\0", 1)]
        if self.known[0] != data:
            self.known = (data, Pattern(data.decode()))
        return self.known[1]


class SteppedGates(gates.Gates):
    """Gates that a process waits at after an event only if the pattern matches it."""

    def __init__(self, directory: str, stops: tuple[str, ...], awaited: StopPattern) -> None:
        super().__init__(directory, stops)
        self.awaited = awaited
        events.observer = self.wait_after

    def wait_after(self, kind: str, name: str, args: dict[str, object]) -> None:
        """Wait after an event."""
        pattern = self.awaited.pattern()
        if gates.EVERY_EVENT in self.stops or (pattern and pattern.matches(name, args)):
            super().wait_after(kind, name, args)
