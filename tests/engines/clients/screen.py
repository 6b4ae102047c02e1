"""A client at a terminal, as a person has it: type, and read what appears."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time

_LIVING: list[Screen] = []


def end_all() -> None:
    """End the programs that a failed scenario has left."""
    while _LIVING:
        screen = _LIVING[-1]
        screen.child.kill()
        screen.wait()


class Screen:
    """A program with a terminal of 24 rows and 80 columns."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.master, slave = os.openpty()
        self._seen = ""
        self.resize(24, 80)
        self.child = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=os.environ | env | {"TERM": "xterm"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        _LIVING.append(self)

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size; the program gets SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def expect(self, text: str, seconds: float = 20) -> str:
        """Read until `text` appears; return all that was read since the last time."""
        deadline = time.monotonic() + seconds
        while text not in self._seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self._seen!r}"
            if not self._read():
                raise AssertionError(f"the program ended without {text!r}: {self._seen!r}")
        seen, self._seen = self._seen, ""
        return seen

    def rest(self) -> str:
        """Read until the program ends."""
        while self._read():
            pass
        return self._seen

    def wait(self) -> int:
        """Wait for the program's end; return its exit status."""
        _LIVING.remove(self)
        self.rest()
        os.close(self.master)
        return self.child.wait(20)

    def _read(self) -> bool:
        """Read once; False at the end."""
        ready, _, _ = select.select([self.master], [], [], 20)
        assert ready, f"waited in vain after {self._seen!r}"
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: nobody has the other end any more
            return False
        self._seen += data.decode(errors="replace")
        return bool(data)
