"""The other half of $NOTIFY_SOCKET (minirun.running.notify): hearing the command, telling systemd.

A module of its own, since few callers have such a socket, and sockets cost time at import.
"""

from __future__ import annotations

import os
import select

from minirun.core.keeping import places
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.oci import descriptors
from minirun.running.notify import NAME, manager

with lazy:
    import _signal  # what the module signal is made of
    import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

_LONGEST = 4096
"""Bytes of a message, as in runc."""
_PATIENCE = 30_000
"""Milliseconds that systemd has to read what it is told, as in runc."""


def listen(container: str) -> socket | None:
    """Make the container's socket, before its command runs. Raises OSError.

    None if the caller has no manager, or had none when the container was made.
    """
    path = f"{container}/{places.NOTIFY}"
    if not manager() or not os.path.isdir(path):
        return None
    ours = descriptors.datagram()
    if os.path.lexists(f"{path}/{NAME}"):
        os.unlink(f"{path}/{NAME}")  # of a `start` that was killed before the command ran
    descriptors.bind(ours, f"{path}/{NAME}")
    os.chmod(f"{path}/{NAME}", 0o777)
    return ours


def relay(ours: socket, pidfd: int, main: int) -> None:
    """Wait until the command is ready, and tell the manager so; `main`: the process to watch.

    Ends too if init does, the process of `pidfd`. Raises OSError.
    """
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    while ours.fileno() in dict(poll.poll()):
        lines = ours.recv(_LONGEST).split(b"\n")
        ready = [line for line in lines if line.startswith(b"READY=")]
        if ready:
            _tell(ready[0], main)
            return


def relay_or_warn(ours: socket, pidfd: int, main: int) -> None:
    """Do as :func:`relay`; what goes wrong is a warning, since the command runs by now."""
    try:
        relay(ours, pidfd, main)
    except OSError as error:
        warn(f"NOTIFY_SOCKET {manager()}: {os.strerror(error.errno or 0).lower()}")


def relay_aside(ours: socket, pidfd: int, main: int) -> Callable[[], None]:
    """Do so in a thread; the signals stay with the caller's. Return a function that waits for it.

    It is to be called when init has ended, and before a process is cloned: the copy of one of two
    threads may wait for ever for the interpreter's lock (minirun.core.kernel.libc).
    """

    def act() -> None:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        relay_or_warn(ours, pidfd, main)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return lambda: thread.join(_PATIENCE / 1000)


def _tell(ready: bytes, main: int) -> None:
    """Tell the manager, and wait until it has read it: it asks which process was the sender.

    sd_notify_barrier(3): it closes the pipe. Raises OSError.
    """
    theirs, path = descriptors.datagram(), manager()
    if path.startswith("@"):  # an abstract one: unix(7)
        theirs.connect(f"\0{path[1:]}")
    else:
        descriptors.connect(theirs, path)
    theirs.send(ready + b"\n")
    theirs.send(b"MAINPID=%d\n" % main)
    reading, writing = os.pipe()
    descriptors.send(theirs, b"BARRIER=1", [writing])
    os.close(writing)
    poll = select.poll()
    poll.register(reading, select.POLLIN)  # and POLLHUP, which is always told
    poll.poll(_PATIENCE)
    os.close(reading)
