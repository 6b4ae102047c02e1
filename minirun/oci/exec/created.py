"""Entering a container that is created and not started, as its owner without root.

    exec                                  init, which waits at exec.fifo
      │ ── join.sock: the end of a pair ──▶ │
      │ ◀── root and namespaces, over it ── │

Until start init is the host's interpreter. It is not dumpable, so that no program in the container
can look into it: ptrace(2), "Ptrace access mode checking". /proc/PID/ns and /proc/PID/root are then
closed to its owner, too, who has no CAP_SYS_PTRACE. So init itself sends descriptors of its
namespaces and of its root directory to each `exec` that asks through a socket in the container's
directory, which only the owner can enter. After start the socket is closed, and /proc/PID/ns is
open again, since the container's command is a program like any other.

What the real stack does: runc's init is a copy of runc in a sealed memory file; it may be dumpable.
"""

from __future__ import annotations

import _socket  # the C half of socket; the Python half costs 5 ms at import
import os
import select

from minirun.core.container import Container, Extra
from minirun.core.errors import StateError
from minirun.core.keeping import places
from minirun.core.kernel import namespaces
from minirun.core.rootfs.inroot import Root
from minirun.oci import descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.handshake import Init

_ROOT = "root"
_SECONDS = 10.0
"""How long `exec` waits for init's answer."""


class NamespaceSender(Extra):
    """init's end: it sends its namespaces and its root to each process that asks."""

    def __init__(self, container: Container) -> None:
        super().__init__(container)
        self._socket = descriptors.datagram()  # both ends of clone have it
        self._socket.setblocking(False)
        self._fds: dict[str, int] = {}
        """Kind of namespace, or _ROOT → its descriptor."""

    def from_outside(self, init: Init) -> None:
        """Make join.sock. Raises OSError."""
        descriptors.bind(self._socket, f"{self.container.directory}/{places.JOIN}")

    def before_pivot(self, root: Root) -> None:
        """Open the namespaces, while /proc is the host's. Raises OSError."""
        for kind in self.config.namespaces:
            name = namespaces.PROC_NAMES.get(kind, kind)
            self._fds[kind] = os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def after_pivot(self) -> None:
        """Open the container's root. Raises OSError."""
        self._fds[_ROOT] = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def while_waiting(self, poll: select.poll) -> None:
        """Answer all that have asked since the last call; `poll` wakes init for the next."""
        poll.register(self._socket.fileno(), select.POLLIN)
        try:
            while True:
                _, asked = descriptors.receive(self._socket)
                for fd in asked:
                    self._answer(fd)
        except BlockingIOError:
            return
        except OSError:  # the seccomp filter of config.json refuses recvmsg
            poll.unregister(self._socket.fileno())

    def _answer(self, fd: int) -> None:
        answer = _socket.socket(fileno=fd)
        try:
            descriptors.send(answer, " ".join(self._fds).encode(), list(self._fds.values()))
        except OSError:  # that `exec` has gone, or a filter refuses sendmsg
            pass
        finally:
            answer.close()


def receive(container: Container) -> tuple[int, dict[str, int]]:
    """Ask init; return descriptors of the container's root and, by kind, of its namespaces.

    Raises StateError if init does not answer, OSError.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    request = descriptors.datagram()
    try:
        descriptors.connect(request, f"{container.directory}/{places.JOIN}")
        descriptors.send(request, b"?", [theirs.fileno()])
        theirs.close()
        ours.settimeout(_SECONDS)
        kinds, fds = descriptors.receive(ours)
    except (ConnectionError, TimeoutError):
        kinds, fds = b"", []
    finally:
        for each in (ours, theirs, request):
            each.close()
    found = dict(zip(kinds.decode().split(), fds, strict=False))
    if _ROOT not in found:
        raise StateError(f"init of container {container.name} does not answer", "try again")
    return found.pop(_ROOT), found
