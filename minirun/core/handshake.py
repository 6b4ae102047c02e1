"""The handshake of runtime and init, over two named FIFOs in the container's state directory.

    runtime                                     init
       │ ── clone3 ─────────────────────────────▶ │   stage 1
       │                                          │   joins its cgroup
       │ ── MAPPED   (user namespace only) ─────▶ │   mounts
       │ ◀──────────── READY   root filesystem ── │
       │ ── YOUR_TURN ──────────────────────────▶ │
       │ ◀──────────── RUN_HOOKS ──────────────── │   stage 2
       │ ◀──────────── YOUR_TURN ──────────────── │
       │   runs the hooks                         │   stages 3, 4, 5
       │ ── HOOKS_DONE ─────────────────────────▶ │   stage 6
       │ ── YOUR_TURN ──────────────────────────▶ │
       │ ◀──────────── LISTENER N (seccomp) ───── │   stage 7
       │ ── TAKEN    (if so) ───────────────────▶ │
       │ ◀──────────── WAITING  at exec.fifo ──── │   `create` ends here
       │   `start` writes START to exec.fifo      │
       │ ◀──────────── end of file ────────────── │   execve has happened
       │ ◀──────────── ERROR, from either side ─▶ │

Only the side that has the turn begins or ends a stage, so the log is in order by construction.
If a side dies, its end of a FIFO closes, and the other side reads the end of file: so neither waits
forever. The real runc's messages go over a socketpair; its one FIFO is exec.fifo, for `start`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from minirun.core import events
from minirun.core.errors import MinirunError, os_error
from minirun.core.keeping import jsonlite, places
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.core.lazy import lazy

with lazy:
    from minirun.core.kernel import files  # `start` needs none of it, nor ctypes


class Message:
    """The messages. (A class of strings: importing ``enum`` would cost 3 ms.)"""

    MAPPED = "MAPPED"
    READY = "READY"
    YOUR_TURN = "YOUR_TURN"
    RUN_HOOKS = "RUN_HOOKS"
    HOOKS_DONE = "HOOKS_DONE"
    LISTENER = "LISTENER"
    TAKEN = "TAKEN"
    WAITING = "WAITING"
    ERROR = "ERROR"


START = b"start\n"
MOST_BYTES = 1 << 24
"""The most that is read from one process: a container may have taken it over."""
_LARGEST = (1 << 31) - 1
"""Of a pid and a descriptor: a C int."""
LONGEST_ERROR = 3000
"""Characters of an error that are passed on."""


class PeerDied(MinirunError):
    """The other side closed its end of the FIFO before it sent what it should."""


class Channel:
    """One side's two FIFO ends."""

    def __init__(self, read_fd: int, write_fd: int, peer: str) -> None:
        self.read_fd, self.write_fd, self.peer = read_fd, write_fd, peer
        self.buffer = b""

    def say(self, message: str, why: str = "") -> None:
        """Send one message; logged right before, since the other side may act at once.

        Raises PeerDied.
        """
        events.emit("message", message.split(" ", 1)[0], {"to": self.peer}, why=why)
        try:
            os.write(self.write_fd, message.encode() + b"\n")
        except BrokenPipeError:
            raise PeerDied(f"{self.peer} died while {message} was being sent") from None

    def fail(self, error: MinirunError) -> None:
        """Send an error: the last message of this side. Do nothing if the other side has died."""
        text, hint = str(error)[:LONGEST_ERROR], error.hint[:500]
        fields = {"text": text, "hint": hint, "status": error.status}
        try:
            self.say(f"{Message.ERROR} {jsonlite.dumps(fields)}")
        except PeerDied:
            pass

    def expect(self, message: str) -> str:
        """Wait for `message`; return what it carries, such as a number.

        Raises PeerDied, or the error that the other side sent instead.
        """
        line = self.read_line()
        if not line:
            raise PeerDied(f"{self.peer} died before it said {message}")
        word, _, rest = line.partition(" ")
        if word != message:
            raise error_from(line)
        return rest

    def expect_number(self, message: str) -> int:
        """Wait for `message`; return the number that it carries. Raises as `expect` does."""
        number = whole(self.expect(message), 0, _LARGEST)
        if number is None:
            raise error_from(message)
        return number

    def read_line(self) -> str:
        """Return the next line without its end; empty at the end of file."""
        while b"\n" not in self.buffer:
            if not self._read_more():
                return ""
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode(errors="replace")

    def read_rest(self) -> bytes:
        """Return all that the other side still sends until it closes its end."""
        while self._read_more():
            pass
        rest, self.buffer = self.buffer, b""
        return rest

    def _read_more(self) -> bool:
        """Read a chunk; False at the end of the file. Raises PeerDied if there is no end."""
        chunk = os.read(self.read_fd, 65536)
        self.buffer += chunk
        if len(self.buffer) > MOST_BYTES:
            raise PeerDied(f"{self.peer} said more than {MOST_BYTES} bytes")
        return bool(chunk)

    def close(self) -> None:
        """Close both ends."""
        os.close(self.read_fd)
        os.close(self.write_fd)


def error_from(line: str) -> MinirunError:
    """Return the error that an ERROR message carries, or one that says what came instead."""
    word, _, rest = line.partition(" ")
    try:
        fields = jsonlite.loads(rest) if word == Message.ERROR else {}
        text, hint, status = str(fields["text"]), str(fields["hint"]), fields["status"]
        if type(status) is int and 0 < status < 256:
            return MinirunError(text, hint, status)
    except (KeyError, TypeError, ValueError):  # another message, or a forged one
        pass
    return MinirunError(f"handshake: unexpected {word!r}")


class Init(Record):
    """The runtime's end of the connection to init."""

    pid: int
    pidfd: int
    channel: Channel


class Ends:
    """All four ends, opened by the runtime before clone, so that neither side waits in open(2)."""

    def __init__(self, directory: str) -> None:
        self.from_init = _open_both(f"{directory}/{places.FROM_INIT}")
        self.from_runtime = _open_both(f"{directory}/{places.FROM_RUNTIME}")

    def runtime(self) -> Channel:
        """Keep the runtime's two ends and close init's."""
        os.close(self.from_init[1])
        os.close(self.from_runtime[0])
        return Channel(self.from_init[0], self.from_runtime[1], "init")

    def init(self) -> Channel:
        """Keep init's two ends and close the runtime's."""
        os.close(self.from_init[0])
        os.close(self.from_runtime[1])
        return Channel(self.from_runtime[0], self.from_init[1], "runtime")


def make_fifos(directory: str) -> None:
    """Make the three named FIFOs. Raises OSError."""
    for name, why in (
        (places.FROM_INIT, "init asks the runtime through this FIFO to run the prestart hooks"),
        (places.FROM_RUNTIME, "and gets its answer through this one"),
        (places.EXEC, "init will wait here until `start`"),
    ):
        files.mknodat(-100, f"{directory}/{name}", stat.S_IFIFO | 0o600, why=why)


def _open_both(path: str) -> tuple[int, int]:
    """Open a FIFO's reading end (which would wait for a writer), then its writing end."""
    read_fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    write_fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.set_blocking(read_fd, True)
    return read_fd, write_fd


def start(directory: str) -> None:
    """Remove exec.fifo, then let the init that waits there go on. Of several callers one does it.

    Raises FileNotFoundError if there is no FIFO, and OSError ENXIO if no init waits.
    """
    path = f"{directory}/{places.EXEC}"
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink == 0:
            raise os_error(errno.ENOENT, path)
        os.unlink(path)  # first: what still has its exec.fifo is "created", and runs nothing
        os.write(fd, START)
    finally:
        os.close(fd)
