"""What the toolkit's Go programs log: time="…" level=info msg="…", on stderr and into files.

Other programs read these lines: containerd's shim shows the last one of level error.
"""

from __future__ import annotations

import os

from minirun.core.keeping import jsonlite
from minirun.core.keeping.record import Record
from minirun.core.keeping.state import timestamp

_RANK = {
    "trace": 0, "debug": 1, "info": 2, "warning": 3, "warn": 3, "error": 4, "fatal": 5, "panic": 5,
}  # fmt: skip


class LogFile(Record):
    """A file that lines are appended to: from which level on, and whether as JSON."""

    path: str
    level: str = "info"
    json: bool = False


class ToolkitLog:
    """A logger: `stderr` is the lowest level that is printed; files have levels of their own."""

    def __init__(self, stderr: str = "info", files: tuple[LogFile, ...] = ()) -> None:
        self.stderr = stderr
        self.files = files

    def debug(self, text: str) -> None:
        """Log what only a search for a fault needs. Raises OSError."""
        self._write("debug", text)

    def info(self, text: str) -> None:
        """Log what is done. Raises OSError."""
        self._write("info", text)

    def warning(self, text: str) -> None:
        """Log what the user should know. Raises OSError."""
        self._write("warning", text)

    def error(self, text: str) -> None:
        """Log why the program gives up. Raises OSError."""
        self._write("error", text)

    def _write(self, level: str, text: str) -> None:
        if _RANK[level] >= _RANK[self.stderr]:
            os.write(2, line(level, text))
        for file in self.files:
            if _RANK[level] >= _RANK[file.level]:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                fd = os.open(file.path, flags, 0o644)
                try:
                    os.write(fd, line(level, text, json=file.json))
                finally:
                    os.close(fd)


def line(level: str, text: str, *, json: bool = False) -> bytes:
    """Return one line in logrus's form, text or json."""
    if json:
        fields = {"level": level, "msg": text, "time": timestamp()}
        return f"{jsonlite.dumps(fields)}\n".encode()
    return f'time="{timestamp()}" level={level} msg={jsonlite.dumps(text)}\n'.encode()
