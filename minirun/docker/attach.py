"""`minirun attach`: the streams of a container that runs in the background, on this terminal.

What is typed goes to the command, if it was started with -i; what it writes is shown. The detach
keys, ctrl-p ctrl-q, leave it running. Without a terminal a signal is the container's
(--sig-proxy=false: this command's own).
"""

from __future__ import annotations

import os
import select
import struct

from minirun.cli.flags import Flags, flag
from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.errors import StateError
from minirun.core.keeping import places, state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import say
from minirun.core.kernel.signals import SIGWINCH, signal
from minirun.docker.attached import ERROR, INPUT, LARGEST, STATUS, WINDOW
from minirun.engines import roots
from minirun.oci import descriptors
from minirun.oci.terminal import keys, relay
from minirun.running import lookup, output, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

_DETACHED = "read escape sequence"
"""docker's words."""


class Attach(Flags):
    """Show what a container in the background writes, and give it what is typed."""

    command = "attach"
    detach_keys: str
    no_stdin: bool
    sig_proxy: str = flag(default="true", optional="true")


def main(args: list[str], settings: Settings) -> int:
    """Attach; return the command's exit status, or 0 if the user leaves it with the detach keys.

    Raises MinirunError, OSError.
    """
    flags = Attach(args)
    flags.check("sig_proxy", "true", "false")
    flags.takes(1)
    container = lookup.load(*roots.locate(settings, flags.args[0], only_made_up=True))
    if container.record.status in (state.RUNNING, state.CREATED):
        output.check_input(container.config.terminal, not flags.no_stdin)
    proxy = flags.sig_proxy == "true"
    return attach(container, flags.detach_keys, stdin=not flags.no_stdin, proxy=proxy)


def attach(
    container: Container, detach_keys: str, *, stdin: bool, proxy: bool = True,
    first: Callable[[], None] | None = None,
) -> int:  # fmt: skip
    """Show a container's streams until it ends, or the user leaves it; return the exit status.

    `first` is called once they are connected. Raises UsageError, StateError, OSError.
    """
    leave = keys.DetachKeys(keys.parse(detach_keys))
    client = AttachedTerminal(
        container, leave, stdin=stdin and docker_record.of(container.record).interactive
    )
    if proxy and not container.config.terminal:
        try:
            signals.forward(os.pidfd_open(container.record.first_process()["pid"]))
        except ProcessLookupError:
            pass  # it has just ended: its last words and its status are still to come
    if first:
        first()
    with relay.RawMode(0 if client.types else -1):
        status = client.run()
    if status is None:
        say(_DETACHED)
        return 0
    return status


def _connect(container: Container) -> _socket.socket:
    """Return a socket to the container's supervisor. Raises StateError, OSError."""
    status = container.record.status
    if status not in (state.RUNNING, state.CREATED):
        text = f"you cannot attach to a {status} container"
        way = "resume" if status == state.PAUSED else "start"
        raise StateError(text, f"minirun {way} {container.name}, first", 1)
    socket = descriptors.packets()
    try:
        descriptors.connect(socket, f"{container.directory}/{places.ATTACH}")
        socket.recv(1)
    except ConnectionResetError:
        raise StateError(f"{container.name} has just ended", status=1) from None
    except (FileNotFoundError, ConnectionRefusedError):
        text = f"{container.name} does not run in the background: another command has its streams"
        raise StateError(text, "run -d, or start", 1) from None
    return socket


class AttachedTerminal:
    """This end of the connection."""

    def __init__(self, container: Container, leave: keys.DetachKeys, *, stdin: bool) -> None:
        self.socket = _connect(container)
        self.leave = leave
        self.stdin = 0 if stdin else -1
        self.has_window = container.config.terminal and os.isatty(0)
        self.types = stdin and self.has_window
        """What is typed goes to the container's own line discipline, key by key."""

    def run(self) -> int | None:
        """Pass everything on; return the exit status, None once the detach keys were typed.

        Raises StateError, OSError.
        """
        if self.has_window:
            signal(SIGWINCH, lambda number, frame: self._tell_size())
            self._tell_size()
        while True:
            poll = select.poll()
            poll.register(self.socket, select.POLLIN)
            if self.stdin >= 0:
                poll.register(self.stdin, select.POLLIN)
            ready = [fd for fd, _ in poll.poll()]
            if self.socket.fileno() in ready and (status := self._show()) is not None:
                return status
            if self.stdin in ready and self._type():
                return None

    def _tell_size(self) -> None:
        try:
            self.socket.send(WINDOW + struct.pack("<2H", *relay.get_size(0)))
        except OSError:
            pass  # it has ended

    def _show(self) -> int | None:
        """Show one message; return the exit status if that is what it says."""
        message = self.socket.recv(LARGEST + 1)
        if message[:1] == STATUS:
            return message[1]
        if not message:
            raise StateError("the container's supervisor died", "minirun gc", 1)
        data = message[1:]
        while data:
            data = data[os.write(2 if message[:1] == ERROR else 1, data) :]
        return None

    def _type(self) -> bool:
        """Pass on what was typed; return True if it was the detach keys."""
        data = os.read(self.stdin, LARGEST)
        if not data:
            self.stdin = -1
            self._send(b"")
            return False
        passed, leaves = self.leave.feed(data) if self.types else (data, False)
        if passed:
            self._send(passed)
        return leaves

    def _send(self, data: bytes) -> None:
        """Give the command input; none says that no more will come."""
        try:
            self.socket.send(INPUT + data)
        except OSError:
            self.stdin = -1  # it has ended: its last words are still to be read
