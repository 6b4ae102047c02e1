"""SCMP_ACT_NOTIFY: a program outside decides over some of the container's system calls.

    init                              runtime                       listenerPath
      │ seccomp(NEW_LISTENER) = fd      │                                │
      │ ── LISTENER fd ───────────────▶ │ pidfd_getfd                    │
      │                                 │ ── JSON, and fd (SCM_RIGHTS) ─▶│
      │ ◀─────────────────────── TAKEN  │ ── closes the connection ─────▶│

What the spec says: runtime-spec, config-linux.md, "The Container Process State": one connection for
each process, one message, "seccompFd" among the descriptors. The man page: seccomp_unotify(2).

What the real stack does: runc does the same, and like here refuses `write` among the calls, since
init needs it to speak of the listener. Imported only if config.json has a listener.
"""

import _socket  # the C half of socket; the Python half costs 5 ms at import
import os

from minirun.core import events, jsonlite, state
from minirun.core.container import Container
from minirun.core.errors import MinirunError
from minirun.core.handshake import Channel, Message
from minirun.oci.seccomp import compiler as seccomp
from minirun.oci.seccomp.profile import Listener
from minirun.oci.terminal import terminal


def hand_over(
    container: Container, to: Listener, channel: Channel, pid: int, pidfd: int, status: str
) -> None:
    """Take the listener that process `pid` speaks of, pass it on, and let the process go on.

    `status` is the container's. Raises MinirunError, OSError.
    """
    number = int(channel.expect(Message.LISTENER))
    listener = seccomp.pidfd_getfd(pidfd, number)
    try:
        _send(container, to, listener, pid, status)
    finally:
        os.close(listener)
    channel.say(Message.TAKEN, why="the listener is with the program at listenerPath")


def _send(container: Container, to: Listener, listener: int, pid: int, status: str) -> None:
    document = {
        "ociVersion": state.OCI_VERSION, "fds": ["seccompFd"], "pid": pid,
        "metadata": to.metadata, "state": container.oci_state(status),
    }  # fmt: skip
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        terminal.connect(connection, to.path)
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, "little"))
        data = jsonlite.dumps(document).encode()
        sent = connection.sendmsg([data], [rights])
        connection.sendall(data[sent:])
    except OSError as error:
        text = os.strerror(error.errno or 0).lower()
        where = "config.json: linux.seccomp.listenerPath"
        raise MinirunError(f"{where}: {to.path}: {text}") from None
    finally:
        connection.close()
    events.emit("note", "seccomp listener", {"path": to.path, "pid": pid})
