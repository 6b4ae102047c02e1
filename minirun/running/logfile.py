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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.running.output import Limits

_LONGEST = 65536
"""Bytes: what is longer than that without a line's end is written as it is."""


class OutputLog:
    """The writer: the container's supervisor."""

    def __init__(self, directory: str, limits: "Limits") -> None:
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
            if os.write(self.fd, data) < len(data):
                os.ftruncate(self.fd, self.size)  # half a line: the next would be a part of it
            else:
                self.size += len(data)
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
