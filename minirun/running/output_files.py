"""What a container has written, in files with a bound: log.json, log.json.1, log.json.2, …

The form is docker's json-file driver's: one JSON object a line of output. When log.json is full it
becomes log.json.1, log.json.1 becomes log.json.2, and what would be one file too many goes. Each
step is one rename, so a supervisor that is killed between two leaves at most a number that is
missing. docker bounds nothing unless told to; its "local" driver keeps 5 files of 20 MB, and so
does minirun.
"""

from __future__ import annotations

import os

from minirun.core.keeping import jsonlite, state
from minirun.core.keeping.places import OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 65536
"""Bytes: what is longer than that without a line's end is written as it is."""


class OutputLog:
    """The writer: the container's supervisor."""

    def __init__(self, directory: str, max_size: int, max_file: int) -> None:
        """Open it. Of at most `max_file` files each has at most `max_size` bytes; -1: no limit."""
        self.path = f"{directory}/{OUTPUT}"
        self.max_size, self.max_file = max_size, max_file
        self.rest = {"stdout": b"", "stderr": b""}
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.fd = os.open(self.path, flags, 0o600)
        self.size = os.fstat(self.fd).st_size

    def keeper(self, stream: str) -> Callable[[bytes], None]:
        """Return what writes a chunk of `stream` into the log."""
        return lambda data: self.write(stream, data)

    def write(self, stream: str, data: bytes) -> None:
        """Append every line of `data`; the beginning of a line waits for its end."""
        *lines, rest = (self.rest[stream] + data).split(b"\n")
        ended = [line + b"\n" for line in lines]
        if len(rest) > _LONGEST:
            ended.append(rest)
            rest = b""
        self.rest[stream] = rest
        self._append(stream, ended)

    def _append(self, stream: str, lines: list[bytes]) -> None:
        """Write a row for each line, as many as a file takes with one write(2)."""
        end = f', "stream": "{stream}", "time": "{state.timestamp()}"}}\n'
        rows: list[bytes] = []
        size = 0
        try:
            for line in lines:
                row = f'{{"log": {jsonlite.dumps(line.decode(errors="replace"))}{end}'.encode()
                full = 0 <= self.max_size < self.size + size + len(row)
                if full and self.size + size:
                    self._write(b"".join(rows))
                    self._rotate()
                    rows, size = [], 0
                rows.append(row)
                size += len(row)
            self._write(b"".join(rows))
        except OSError:
            pass  # a full disk ends the log, not the container

    def _write(self, rows: bytes) -> None:
        """Write rows; of one that the disk takes a part of, nothing. Raises OSError."""
        written = os.write(self.fd, rows)
        whole = len(rows) if written == len(rows) else rows.rfind(b"\n", 0, written) + 1
        self.size += whole
        if whole < written:
            os.ftruncate(self.fd, self.size)  # half a row: the next would be a part of it

    def _rotate(self) -> None:
        """Begin a new file. Raises OSError."""
        names = [self.path, *(f"{self.path}.{n}" for n in range(1, self.max_file))]
        _remove(names[-1])
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            try:
                os.rename(newer, older)
            except FileNotFoundError:
                pass
        os.close(self.fd)
        self._open()

    def close(self) -> None:
        """Write what is left and close."""
        for stream, line in self.rest.items():
            self._append(stream, [line] if line else [])
        os.close(self.fd)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
