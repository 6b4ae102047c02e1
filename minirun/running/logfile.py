"""What a container has written, in files with a bound: log.json, log.json.1, log.json.2, …

The form is docker's json-file driver's: one JSON object a line of output. When log.json is full it
becomes log.json.1, log.json.1 becomes log.json.2, and what would be one file too many goes. Each
step is one rename, so a supervisor that is killed between two leaves at most a number that is
missing. docker bounds nothing unless told to; its "local" driver keeps 5 files of 20 MB, and so
does minirun.
"""

import os

from minirun.core import jsonlite, state
from minirun.core.places import OUTPUT
from minirun.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 65536
"""Bytes: what is longer than that without a line's end is written as it is."""


class Limits(Record):
    """How much is kept."""

    max_size: int = 20 << 20
    """Bytes of one file; -1: no limit."""
    max_file: int = 5


class OutputLog:
    """The writer: the container's supervisor."""

    def __init__(self, directory: str, limits: Limits) -> None:
        self.path = f"{directory}/{OUTPUT}"
        self.limits = limits
        self.rest = {"stdout": b"", "stderr": b""}
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.fd = os.open(self.path, flags, 0o600)
        self.size = os.fstat(self.fd).st_size

    def keeper(self, stream: str) -> "Callable[[bytes], None]":
        """Return what writes a chunk of `stream` into the log."""
        return lambda data: self.write(stream, data)

    def write(self, stream: str, data: bytes) -> None:
        """Append every line of `data`; the beginning of a line waits for its end."""
        *lines, self.rest[stream] = (self.rest[stream] + data).split(b"\n")
        for line in lines:
            self._row(stream, line + b"\n")
        if len(self.rest[stream]) > _LONGEST:
            self._flush(stream)

    def _flush(self, stream: str) -> None:
        line, self.rest[stream] = self.rest[stream], b""
        if line:
            self._row(stream, line)

    def _row(self, stream: str, line: bytes) -> None:
        row = {"log": line.decode(errors="replace"), "stream": stream, "time": state.timestamp()}
        data = jsonlite.dumps(row).encode() + b"\n"
        try:
            if self.size and 0 <= self.limits.max_size < self.size + len(data):
                self._rotate()
            self.size += os.write(self.fd, data)
        except OSError:
            pass  # a full disk ends the log, not the container

    def _rotate(self) -> None:
        """Begin a new file. Raises OSError."""
        names = [self.path, *(f"{self.path}.{n}" for n in range(1, self.limits.max_file))]
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
        for stream in self.rest:
            self._flush(stream)
        os.close(self.fd)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def open_all(directory: str) -> "list[int]":
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


def _names(directory: str) -> "list[str]":
    """Return the names of a container's log files, the oldest first."""
    numbers = [name[len(OUTPUT) + 1 :] for name in os.listdir(directory) if name.startswith(OUTPUT)]
    rotated = sorted((int(text) for text in numbers if text.isdecimal()), reverse=True)
    return [*(f"{OUTPUT}.{number}" for number in rotated), *([OUTPUT] if "" in numbers else [])]
