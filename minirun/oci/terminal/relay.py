"""The caller's side of a terminal: keys go in, output comes out, the window's size follows.

The user's terminal is set to raw mode, so that every key, ^C too, reaches the container's own
line discipline; and it is set back whatever happens: an exception, SIGTERM, the container's end.

What the man pages say: termios(3), pty(7), ioctl_tty(2); signal(7) on SIGWINCH.

What the real stack does: runc relays in its foreground mode, conmon and containerd's shim else.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import tty

from minirun.core.kernel import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from minirun.oci.terminal.keys import DetachKeys

CHUNK = 65536
_FATAL = (signals.SIGHUP, signals.SIGINT, signals.SIGQUIT, signals.SIGTERM)
_RETRY = 50
"""Milliseconds until a terminal that no process has open is asked again while its command lives."""


def set_size(terminal: int, rows: int, columns: int) -> None:
    """Set the window size of a terminal, through either end. Raises OSError."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))


def get_size(terminal: int) -> tuple[int, int]:
    """Return (rows, columns) of a terminal. Raises OSError if it is none."""
    rows, columns, _, _ = struct.unpack("4H", fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8)))
    return rows, columns


def pass_line_feeds(terminal: int) -> None:
    """Have the terminal put no CR before LF, as runc has: termios(3), ONLCR. Raises termios.error.

    Files and pipes get what was written, and a screen that is not raw adds its own CR.
    """
    mode = termios.tcgetattr(terminal)
    mode[tty.OFLAG] &= ~termios.ONLCR
    termios.tcsetattr(terminal, termios.TCSANOW, mode)


def relay(
    master: int, stdin: int, stdout: int, pidfd: int = -1,
    keep: Callable[[bytes], None] | None = None, leave: DetachKeys | None = None,
) -> bool:  # fmt: skip
    """Connect the user's `stdin` and `stdout` with a container's terminal until its end.

    `stdin` is -1 if no keys are to go in (run -t without -i). `keep` gets a copy of the output.
    The end: the process of `pidfd` has ended and all its output is shown; without `pidfd`, no
    process has the terminal open any more (EIO); or the user's own terminal has gone. `master` is
    set to non-blocking. Never raises for a side that goes away. Returns True if the user has typed
    the keys of `leave`: the command goes on.
    """
    user = next((fd for fd in (stdin, stdout) if os.isatty(fd)), -1)
    os.set_blocking(master, False)

    def copy_size(*_: object) -> None:
        try:
            set_size(master, *get_size(user))
        except OSError:
            pass  # one of the two has gone, which the pump will see

    with RawMode(stdin):
        before = None
        if user >= 0:
            before = signals.signal(signals.SIGWINCH, copy_size)
            copy_size()
        try:
            pump = _Pump(master, stdin, stdout, pidfd, keep, leave)
            pump.run()
        finally:
            if before is not None:
                signals.signal(signals.SIGWINCH, before)
        return pump.is_left


class RawMode:
    """``with RawMode(fd):`` the terminal `fd` is raw; nothing happens if `fd` is none.

    Signals that would end this process (those with no handler yet) set the terminal back first.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.before: list[Any] = []
        self.handled: list[int] = []

    def __enter__(self) -> RawMode:
        if os.isatty(self.fd):
            self.before = termios.tcgetattr(self.fd)
            for number in _FATAL:
                if signals.getsignal(number) == signals.SIG_DFL:
                    signals.signal(number, self._die)
                    self.handled.append(number)
            tty.setraw(self.fd, termios.TCSANOW)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        for number in self.handled:
            signals.signal(number, signals.SIG_DFL)

    def _restore(self) -> None:
        if self.before:
            try:
                # not TCSADRAIN: a terminal that is stopped by ^S would hold us for ever
                termios.tcsetattr(self.fd, termios.TCSANOW, self.before)
            except termios.error:
                pass  # the terminal has gone

    def _die(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        signals.signal(number, signals.SIG_DFL)
        os.kill(os.getpid(), number)


class _Pump:
    """Copies both ways. Keys that the container does not take yet wait here, one chunk of them."""

    def __init__(
        self, master: int, stdin: int, stdout: int, pidfd: int,
        keep: Callable[[bytes], None] | None, leave: DetachKeys | None,
    ) -> None:  # fmt: skip
        self.master = master
        self.stdin = stdin
        self.stdout = stdout
        self.pidfd = pidfd
        self.keep = keep
        self.leave = leave
        self.is_left = False
        self.keyboard = os.isatty(stdin)  # now: a terminal that has gone is none
        self.keys = b""
        self.poll = select.poll()
        self.poll.register(master, select.POLLIN)
        for fd in (stdin, pidfd):
            if fd >= 0:
                self.poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Copy until the end."""
        while True:
            ready = dict(self.poll.poll())
            ended = self.pidfd in ready
            if self.stdin in ready and not self._read_keys():
                return
            if self.keys:
                self._write_keys()
            if (ended or self.master in ready) and not self._show_output(ended):
                return
            if ended:
                return

    def _show_output(self, all_of_it: bool) -> bool:
        """Show one chunk, or all that there is; False if no more will come."""
        while True:
            try:
                data = os.read(self.master, CHUNK)
            except BlockingIOError:
                return True
            except OSError:
                # EIO: no process has the slave end open; while pid 1 lives, it may again
                return self.pidfd >= 0 and not _is_ready(self.pidfd, select.POLLIN, _RETRY)
            if self.keep:
                self.keep(data)
            if not self._write_output(data):
                return False
            if not all_of_it:
                return True

    def _write_output(self, data: bytes) -> bool:
        """Write all of `data` to the user; False if the user's terminal has gone.

        If it is a pipe whose reader has gone, output is thrown away from now on.
        """
        while data and self.stdout >= 0:
            try:
                data = data[os.write(self.stdout, data) :]
            except BlockingIOError:  # the caller made it non-blocking
                _is_ready(self.stdout, select.POLLOUT)
            except BrokenPipeError:
                self.stdout = -1
            except OSError:
                return False
        return True

    def _read_keys(self) -> bool:
        """Take the next keys; False if the user's terminal has gone.

        At the end of a file or pipe the container's terminal gets its end-of-file key, ^D.
        """
        try:
            data = os.read(self.stdin, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data and self.keyboard:
            return False
        if data and self.leave:
            data, self.is_left = self.leave.feed(data)
            if self.is_left or not data:  # the first of the detach keys waits for the next
                return not self.is_left
        self.poll.unregister(self.stdin)  # until these keys are written
        if data:
            self.keys = data
        else:
            self.keys = self._end_of_file_key()
            self.stdin = -1
        return True

    def _end_of_file_key(self) -> bytes:
        try:
            key = termios.tcgetattr(self.master)[6][termios.VEOF]
        except termios.error:
            return b""
        return key if isinstance(key, bytes) else bytes((key,))

    def _write_keys(self) -> None:
        """Give the container what it takes; then ask for more, or for room."""
        try:
            self.keys = self.keys[os.write(self.master, self.keys) :]
        except BlockingIOError:
            pass
        except OSError:
            self.keys = b""
        wanted = select.POLLIN | (select.POLLOUT if self.keys else 0)
        self.poll.modify(self.master, wanted)
        if not self.keys and self.stdin >= 0:
            self.poll.register(self.stdin, select.POLLIN)


def _is_ready(fd: int, event: int, milliseconds: int | None = None) -> bool:
    """Wait for an event of poll(2), for ever by default; return True if it has come."""
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(milliseconds))
