"""Reads what a container has written, from the files that minirun.running.output_files keeps."""

from __future__ import annotations

import os
from collections import deque

from minirun.core.keeping import jsonlite, state
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.places import OUTPUT
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


class Span(Record):
    """From when to when, in seconds since the epoch."""

    begin: float = 0.0
    end: float = float("inf")

    def holds(self, stamp: str) -> bool:
        """Return True if a time stamp of ours lies in it: they sort as texts do."""
        if self.begin > 0 and stamp < state.timestamp(min(self.begin, _LAST)):
            return False
        return self.end > _LAST or stamp <= state.timestamp(max(self.end, 0.0))


_LAST = 253402300799.0
"""The end of the year 9999: RFC 3339 has four digits."""


class OutputReader:
    """Reads the files of a log one after the other, and goes on where it has stopped.

    It keeps the newest file open, so that it knows it again when it has got another name.
    """

    def __init__(
        self, directory: str, timestamps: bool, span: Span | None = None, details: bool = False
    ) -> None:
        """`span`: which lines. `details`: docker's form, in which a line begins with what --log-opt
        adds, here nothing, and a blank."""
        self.directory = directory
        self.timestamps, self.span, self.details = timestamps, span or Span(), details
        self.current: BinaryIO | None = None

    def show(self, tail: int | None = None) -> None:
        """Show the whole lines that have come since; with `tail`, so many of them at the end."""
        rows = (
            row for line in self._lines() if (row := _row(line)) and self.span.holds(row["time"])
        )
        for row in rows if tail is None else deque(rows, maxlen=tail):
            before = f"{clean(row['time'])} " if self.timestamps else ""
            text = before + (" " if self.details else "") + row["log"]
            _write(2 if row["stream"] == "stderr" else 1, text.encode(errors="replace"))

    def _lines(self) -> Iterator[bytes]:
        """Yield the whole lines from where it has stopped; begin with the oldest file."""
        try:
            files: list[BinaryIO] = [open(fd, "rb") for fd in open_all(self.directory)]
        except FileNotFoundError:  # the container has gone
            files = []
        for file in self._after_current(files):
            if self.current:
                yield from _whole_lines(self.current)
                self.current.close()
            self.current = file
        if self.current:
            yield from _whole_lines(self.current)

    def _after_current(self, files: list[BinaryIO]) -> list[BinaryIO]:
        """Close those that were read, or are being read; return the others."""
        if not self.current:
            return files
        inodes = [os.fstat(file.fileno()).st_ino for file in files]
        own = os.fstat(self.current.fileno()).st_ino
        known = inodes.index(own) + 1 if own in inodes else 0
        for file in files[:known]:
            file.close()
        return files[known:]


def _write(fd: int, data: bytes) -> None:
    """Write at once, whatever the locale: what a container writes is not ours to encode."""
    while data:
        data = data[os.write(fd, data) :]


def _row(line: bytes) -> dict[str, str] | None:
    """Return what a line of the log holds; None if it is broken: a disk was full."""
    try:
        row = jsonlite.loads(line.decode())
    except ValueError:
        return None
    whole = isinstance(row, dict) and {"log", "stream", "time"} <= row.keys()
    return row if whole and all(isinstance(value, str) for value in row.values()) else None


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    while True:
        place = file.tell()
        line = file.readline()
        if not line.endswith(b"\n"):
            file.seek(place)
            return
        yield line


def open_all(directory: str) -> list[int]:
    """Return descriptors of all files that there are, the oldest first. Raises OSError.

    A name may become another file's between two looks: then all are looked for again.
    """
    while True:
        names = _names(directory)
        opened: list[int] = []
        try:
            for name in names:
                opened.append(os.open(f"{directory}/{name}", os.O_RDONLY | os.O_CLOEXEC))
            now = [os.stat(f"{directory}/{name}").st_ino for name in names]
            if _names(directory) == names and now == [os.fstat(fd).st_ino for fd in opened]:
                return opened
        except FileNotFoundError:
            pass
        for fd in opened:
            os.close(fd)


def _names(directory: str) -> list[str]:
    """Return the names of a container's log files, the oldest first."""
    numbers = [name[len(OUTPUT) + 1 :] for name in os.listdir(directory) if name.startswith(OUTPUT)]
    rotated = sorted((n for text in numbers if (n := whole(text)) is not None), reverse=True)
    return [*(f"{OUTPUT}.{number}" for number in rotated), *([OUTPUT] if "" in numbers else [])]
