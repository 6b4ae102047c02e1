"""$NOTIFY_SOCKET: how a container's command tells systemd that it is ready. sd_notify(3).

A service sends READY=1 to the datagram socket that $NOTIFY_SOCKET names: the host's. The command
gets one of its own instead, /run/notify/notify.sock. `start` or `run` listens there, and hands on
READY, and MAINPID: the process that systemd is to watch. Nothing else of the container reaches it.

What the real stack does: runc the same; crun binds the host's socket itself into the container.
"""

from __future__ import annotations

import os
import select

from minirun.core.config import Config
from minirun.core.errors import reason
from minirun.core.keeping import places
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy

with lazy:  # few callers have such a socket
    import threading

    from minirun.core.kernel import signals
    from minirun.oci import descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

NAME = "notify.sock"
"""The socket, in the directory that :func:`make_directory` makes."""
_INSIDE = "/run/notify"
_LONGEST = 4096
"""Bytes of a message, as in runc."""
_PATIENCE = 30_000
"""Milliseconds that systemd has to read what it is told, as in runc."""


def manager() -> str:
    """Return the socket of the service manager, systemd's; "" if the caller has none."""
    return os.environ.get("NOTIFY_SOCKET", "")


def offered(config: Config, container: str) -> Config:
    """Return `config` with the mount and the variable, if the caller has a manager.

    `container`: the directory that the container will have.
    """
    if not manager() or not config.process:
        return config
    mount = {
        "destination": _INSIDE, "type": "bind", "source": f"{container}/{places.NOTIFY}",
        "options": ["bind", "nosuid", "noexec", "nodev", "ro"],
    }  # fmt: skip
    raw = {**config.raw, "mounts": [*(config.raw.get("mounts") or []), mount]}
    variables = config.process.get("env") or []
    offered = Config(raw, config.bundle, config.choices)
    return offered.with_variables([*variables, f"NOTIFY_SOCKET={_INSIDE}/{NAME}"])


def make_directory(container: str) -> None:
    """Make the directory that :func:`offered` has named. Raises OSError."""
    if manager():
        path = f"{container}/{places.NOTIFY}"
        os.mkdir(path)
        os.chmod(path, 0o755)  # whatever the umask is: the command may be any user


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
            _send_ready(ready[0], main)
            return


def relay_or_warn(ours: socket, pidfd: int, main: int) -> None:
    """Do as :func:`relay`; what goes wrong is a warning, since the command runs by now."""
    try:
        relay(ours, pidfd, main)
    except OSError as error:
        warn(f"NOTIFY_SOCKET {manager()}: {reason(error)}")


def relay_aside(ours: socket, pidfd: int, main: int) -> Callable[[], None]:
    """Do so in a thread; the signals stay with the caller's. Return a function that waits for it.

    It is to be called when init has ended, and before a process is cloned: the copy of one of two
    threads may wait for ever for the interpreter's lock (minirun.core.kernel.libc).
    """

    def act() -> None:
        signals.pthread_sigmask(signals.SIG_BLOCK, signals.valid_signals())
        relay_or_warn(ours, pidfd, main)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return lambda: thread.join(_PATIENCE / 1000)


def _send_ready(ready: bytes, main: int) -> None:
    """Send READY to the manager, and wait until it has read it: it asks which process was the
    sender.

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
