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

from __future__ import annotations

import os
from ctypes import c_int, c_uint

from minirun.core import events
from minirun.core.container import Container
from minirun.core.errors import ConfigError, MinirunError, reason
from minirun.core.handshake import Channel, Message
from minirun.core.keeping import jsonlite, state
from minirun.core.keeping.record import Record
from minirun.core.kernel import libc
from minirun.oci import descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ACTION = "SCMP_ACT_NOTIFY"
_pidfd_getfd = libc.bind_syscall(c_int, c_int, c_uint)


class Listener(Record):
    """The program behind SCMP_ACT_NOTIFY."""

    path: str
    """Its Unix socket, in the runtime's mount namespace."""
    metadata: str
    """For it alone: listenerMetadata of config.json."""

    def receive(
        self, container: Container, channel: Channel, pid: int, pidfd: int, status: str
    ) -> None:
        """Take the listener that process `pid` speaks of, pass it on, and let the process go on.

        `status` is the container's. Raises MinirunError, OSError.
        """
        number = channel.expect_number(Message.LISTENER)
        listener = libc.check("pidfd_getfd", _pidfd_getfd(438, pidfd, number, 0))
        document = {
            "ociVersion": state.OCI_VERSION, "fds": ["seccompFd"], "pid": pid,
            "metadata": self.metadata, "state": container.oci_state(status),
        }  # fmt: skip
        try:
            self._send(listener, jsonlite.dumps(document).encode())
        finally:
            os.close(listener)
        events.emit("note", "seccomp listener", {"path": self.path, "pid": pid})
        channel.say(Message.TAKEN, why="the listener is with the program at listenerPath")

    def _send(self, listener: int, data: bytes) -> None:
        connection = descriptors.stream()
        try:
            descriptors.connect(connection, self.path)
            sent = descriptors.send(connection, data, [listener])
            if sent < len(data):  # to send nothing would fail where the program has closed already
                connection.sendall(data[sent:])
        except OSError as error:
            text = reason(error)
            where = "config.json: linux.seccomp.listenerPath"
            what = "failed to connect with seccomp agent"
            raise MinirunError(f"{where}: {what}: {self.path}: {text}") from None
        finally:
            connection.close()


def listener(config: dict[str, Any], where: str) -> Listener | None:
    """Return the program to ask if a rule says SCMP_ACT_NOTIFY, or None. Raises ConfigError."""
    path, metadata = config.get("listenerPath") or "", config.get("listenerMetadata") or ""
    if metadata and not path:
        raise ConfigError(f"{where}.listenerMetadata: needs a listenerPath")
    rules = config.get("syscalls") or []
    rows = [i for i, rule in enumerate(rules) if rule.get("action") == _ACTION]
    if config["defaultAction"] == _ACTION:
        raise ConfigError(
            f"{where}.defaultAction: {_ACTION} cannot be the default: init would wait"
        )
    for index in rows:
        if "write" in rules[index]["names"]:
            text = f"{_ACTION} cannot be used for the write syscall: init reports by it"
            raise ConfigError(f"{where}.syscalls[{index}].names: {text}")
        if not path:
            raise ConfigError(f"{where}.syscalls[{index}].action: {_ACTION} needs a listenerPath")
    return Listener(path, metadata) if rows else None
