"""The caller's side of pipes: input goes in, output comes out, none waits for another.

    caller's 0 ──▶ flow ──▶ pipe ──▶ the command ──▶ pipe ──▶ flow ──▶ caller's 1 (and the log)
                                                 ──▶ pipe ──▶ flow ──▶ caller's 2 (and the log)

A descriptor of the caller's is not handed on, since it is more than a stream: a terminal can be
read and typed into (TIOCSTI), and a file that is open for reading can, through /proc/self/fd, be
opened for writing by root of a container. So docker has pipes in between, and so have we.

What the man pages say: pipe(7): poll(2) calls a pipe writable where PIPE_BUF bytes fit, so a write
of that size does not wait. The caller's descriptors keep their flags: O_NONBLOCK belongs to
all processes that have the same open file (fcntl(2)).

What the real stack does: docker's client, containerd's shim and conmon copy; runc does without -d.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class Audience(Protocol):
        """Who is attached to a container in the background: minirun.docker.attached."""

        @property
        def is_full(self) -> bool:
            """Return True while one of them has not taken all that was sent."""

        def interests(self) -> Iterator[tuple[int, int]]:
            """Yield descriptors, and what poll(2) is to wait for at each."""

        def handle(self, fd: int) -> None:
            """Do what there is to do for a descriptor of :meth:`interests`."""

        def show(self, name: str, data: bytes) -> None:
            """Send what the command has written to stdout or stderr."""

        def end(self, status: int) -> None:
            """Tell the exit status, and listen no more. Raises OSError."""


CHUNK = 65536
_PIPE_BUF = 4096
_FIONREAD = 0x541B  # asm-generic/ioctls.h
_MOST_HELD = 1 << 20


class Flow:
    """What is read from `source` goes to `target` (-1: nowhere), and a copy of it to `keep`.

    `source` is non-blocking, or is read only when poll(2) says so. `owned` is the one of the two
    that is closed when the flow ends.
    """

    def __init__(
        self, source: int, target: int, owned: int, keep: Callable[[bytes], None] | None = None
    ) -> None:
        self.source = source
        self.target = target
        self.owned = owned
        self.keep = keep
        self.waiting = memoryview(b"")
        self.open = True
        regular = target >= 0 and stat.S_ISREG(os.fstat(target).st_mode)
        self.most = CHUNK if regular else _PIPE_BUF

    def interest(self) -> tuple[int, int]:
        """Return the descriptor and the event that the flow waits for."""
        return (self.target, select.POLLOUT) if self.waiting else (self.source, select.POLLIN)

    def step(self) -> None:
        """Do one read or one write."""
        if self.waiting:
            self._write(self.most)
        else:
            self._read(CHUNK)

    def finish(self) -> None:
        """Pass on what is there now, and end; what others write later is lost to them.

        A process in the background may go on writing, so a pipe is read once, up to what it holds.
        """
        self._write_all()
        left = self._held() if self.open else 0
        while self.open and left > 0 and (size := self._read(min(left, CHUNK))):
            left -= size
            self._write_all()
        self.end()

    def _held(self) -> int:
        """Return how many bytes are in a pipe now; more than any terminal holds for one."""
        if not stat.S_ISFIFO(os.fstat(self.source).st_mode):
            return _MOST_HELD
        return int.from_bytes(fcntl.ioctl(self.source, _FIONREAD, bytes(4)), "little")

    def end(self) -> None:
        """Close our end: the other side reads the end of file, or gets SIGPIPE."""
        if self.open:
            self.open = False
            os.close(self.owned)

    def _read(self, size: int) -> int:
        """Read; return how many bytes: 0 if there is nothing now, or nothing more."""
        try:
            data = os.read(self.source, size)
        except BlockingIOError:
            return 0
        except OSError:  # EIO: the terminal's last user has gone
            data = b""
        if not data:
            self.end()
            return 0
        if self.keep:
            self.keep(data)
        if self.target >= 0:
            self.waiting = memoryview(data)
        return len(data)

    def _write(self, most: int) -> None:
        try:
            self.waiting = self.waiting[os.write(self.target, self.waiting[:most]) :]
        except BlockingIOError:
            pass
        except OSError:  # the reader has gone: the container is read on, as docker does
            self.waiting = memoryview(b"")
            self.target = -1
            if self.owned != self.source:  # the command reads no input any more
                self.end()

    def _write_all(self) -> None:
        while self.waiting:
            poll = select.poll()
            poll.register(self.target, select.POLLOUT)
            poll.poll()
            self._write(self.most)


def copy(flows: list[Flow], pidfd: int, attached: Audience | None = None) -> None:
    """Let everything flow until the process of `pidfd` has ended and its output is passed on.

    If a command that is attached does not read, the output waits.
    """
    while True:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        is_held = attached is not None and attached.is_full
        waiting = {flow.interest()[0]: flow for flow in flows if flow.open and not is_held}
        for flow in waiting.values():
            poll.register(*flow.interest())
        for fd, events in attached.interests() if attached else ():
            poll.register(fd, events)
        ready = [fd for fd, _ in poll.poll()]
        if pidfd in ready:
            break
        for fd in ready:
            if fd in waiting:
                waiting[fd].step()
            elif attached:
                attached.handle(fd)
    for flow in flows:
        if flow.owned == flow.source:  # it comes from the container
            flow.finish()
        flow.end()
