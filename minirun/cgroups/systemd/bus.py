"""A connection to systemd, and the five things that a cgroup driver asks of it, over D-Bus.

D-Bus specification, "Message Protocol"; org.freedesktop.systemd1(5), interface Manager. As runc
does, the bus comes first, and if there is none, systemd's own socket, which is for its owner alone
and speaks the same without a daemon in between (and so without Hello and AddMatch).

Starting and stopping are jobs: the call returns at once with the job's path, and a signal,
JobRemoved, says how it ended. jeepney puts messages together and takes them apart; they are sent
and awaited here.
"""

from __future__ import annotations

import errno
import os
import socket
import time

import jeepney
from jeepney.low_level import HeaderFields, Message, MessageType, Parser

from minirun.common.waiting import readable
from minirun.core import events
from minirun.core.errors import MinirunError, StateError, os_error, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Properties = list[tuple[str, tuple[str, Any]]]
    """(name, (D-Bus signature, value)): what systemd takes as a(sv)."""

SYSTEM = ("/run/dbus/system_bus_socket", "/run/systemd/private")
"""The sockets of the system's bus and of the system's manager itself."""
_BOOTED = "/run/systemd/system"  # made by the systemd that is process 1: sd_booted(3)
_SECONDS = 30.0  # runc's patience with a job; a stop may have to kill
_MANAGER = jeepney.DBusAddress(
    "/org/freedesktop/systemd1", "org.freedesktop.systemd1", "org.freedesktop.systemd1.Manager"
)
_PEER = _MANAGER.with_interface("org.freedesktop.DBus.Peer")
_PROPERTIES = _MANAGER.with_interface("org.freedesktop.DBus.Properties")
_ERROR = "org.freedesktop.systemd1."


def of_user() -> Bus:
    """Return a connection to the caller's own manager: user@.service(5). Raises MinirunError.

    Root of a user namespace with a systemd of its own as process 1 owns the system's manager.
    """
    if os.path.exists(_BOOTED) and os.stat(_BOOTED).st_uid == os.geteuid():
        return Bus()
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    session = f"{folder}/bus"
    for address in os.environ.get("DBUS_SESSION_BUS_ADDRESS", "").split(";"):
        if address.startswith("unix:path="):  # D-Bus specification, "Server Addresses"
            session = address.removeprefix("unix:path=").partition(",")[0]
            break
    return Bus((session, f"{folder}/systemd/private"))


class Refused(MinirunError):
    """systemd's answer was an error; `name` is its D-Bus name."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, "systemctl status and journalctl may say more")
        self.name = name


class Bus:
    """A connection to a manager: systemd's for the system, or a user's."""

    def __init__(self, sockets: tuple[str, str] = SYSTEM) -> None:
        """`sockets`: a bus's, and the manager's own. Raises MinirunError if neither answers."""
        self._serial = 0
        self._parser = Parser()
        self._jobs: dict[str, str] = {}  # how each job ended that has ended
        try:
            self._socket = _connect(sockets[0], self._parser)
        except OSError:
            self._socket = _private(sockets, self._parser)
        else:
            self._call(jeepney.message_bus, "Hello")
            rule = "type='signal',sender='org.freedesktop.systemd1',member='JobRemoved'"
            self._call(jeepney.message_bus, "AddMatch", "s", (rule,))
            self._call(_MANAGER, "Subscribe")

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def top(self) -> str:
        """Return the cgroup of the manager, in which all its units are; "" for the root."""
        body = (_MANAGER.interface, "ControlGroup")
        (_, path), *_ = self._call(_PROPERTIES, "Get", "ss", body)
        return str(path).rstrip("/")

    def start_scope(self, scope: str, properties: Properties) -> None:
        """Start a transient unit and wait until it is there.

        A failed one of that name, which systemd keeps for its owner to see, is cleared first.
        Raises StateError if one is active, MinirunError.
        """
        job = self._start(scope, properties)
        if not job:
            self._forget(scope)
            job = self._start(scope, properties)
        if not job:
            text = f"systemd: the unit {scope} exists already"
            raise StateError(text, f"systemctl stop {scope}, or another name")
        result = self._finish(job)
        if result != "done":
            self._forget(scope)
            raise MinirunError(f"systemd: starting {scope}: {result}", f"systemctl status {scope}")

    def _start(self, scope: str, properties: Properties) -> str:
        """Return the job that starts a unit; "" if there is one of that name. Raises Refused."""
        try:
            body: tuple[Any, ...] = (scope, "fail", properties, [])
            job: str = self._manager("StartTransientUnit", "ssa(sv)a(sa(sv))", body)[0]
            return job
        except Refused as error:
            if error.name != _ERROR + "UnitExists":
                raise
            return ""

    def set_properties(self, scope: str, properties: Properties) -> None:
        """Change properties of a unit until the next boot. Raises MinirunError.

        systemd answers first and writes the cgroup's files on its next round, over what others have
        written since: the answer to a second call says that the round is over.
        """
        self._manager("SetUnitProperties", "sba(sv)", (scope, True, properties))
        self._call(_PEER, "Ping")

    def attach_caller(self, unit: str, below: str) -> None:
        """Have the process that has made this connection moved into a unit, or `below` it: /x/y.

        The unit must have Delegate=yes. Raises MinirunError.
        """
        self._manager("AttachProcessesToUnit", "ssau", (unit, below, [0]))

    def stop(self, scope: str) -> None:
        """Stop a unit and wait for its end; one that is gone is fine. Raises MinirunError."""
        try:
            self._finish(self._manager("StopUnit", "ss", (scope, "replace"))[0])
        except Refused as error:
            if error.name != _ERROR + "NoSuchUnit":
                raise
        self._forget(scope)

    def _forget(self, scope: str) -> None:
        """Have systemd drop the unit, if it keeps a failed one of this name."""
        try:
            self._manager("ResetFailedUnit", "s", (scope,))
        except Refused:
            pass

    def _manager(self, method: str, signature: str, body: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call the manager, and log it. Raises Refused, MinirunError."""
        start, shown = events.now(), {"method": method, "unit": body[0]}
        try:
            reply = self._call(_MANAGER, method, signature, body)
        except Refused as error:
            events.emit("message", "systemd", shown, ret=-1, start=start, why=str(error))
            raise
        events.emit("message", "systemd", shown, start=start)
        return reply

    def _call(
        self,
        address: jeepney.DBusAddress,
        method: str,
        signature: str = "",
        body: tuple[Any, ...] = (),
    ) -> tuple[Any, ...]:
        """Send a call, and return the body of its reply. Raises Refused, MinirunError."""
        self._serial += 1
        message = jeepney.new_method_call(address, method, signature or None, body)
        deadline = time.monotonic() + _SECONDS
        try:
            self._socket.sendall(message.serialise(self._serial))
        except OSError as error:
            raise _gone(error) from None
        while True:
            reply = self._receive(deadline)
            if reply.header.fields.get(HeaderFields.reply_serial) != self._serial:
                continue
            if reply.header.message_type == MessageType.error:
                name = str(reply.header.fields.get(HeaderFields.error_name))
                answer = reply.body[0] if reply.body else name
                raise Refused(f"systemd: {method}: {answer}", name)
            return tuple(reply.body)

    def _finish(self, job: str) -> str:
        """Wait for a job's end; return done, failed, canceled, timeout, … Raises MinirunError."""
        deadline = time.monotonic() + _SECONDS
        while job not in self._jobs:
            self._receive(deadline)
        return self._jobs.pop(job)

    def _receive(self, deadline: float) -> Message:
        """Return the next message; if it is the end of a job, keep the result."""
        while (message := self._parser.get_next_message()) is None:
            if not readable(self._socket.fileno(), deadline):
                text = f"systemd: no answer over D-Bus in {_SECONDS:.0f} s"
                raise MinirunError(text, "systemctl list-jobs tells what it waits for")
            try:
                data = self._socket.recv(65536)
            except OSError as error:
                raise _gone(error) from None
            if not data:
                raise MinirunError("systemd: the D-Bus connection was closed", "try again")
            self._parser.add_data(data)
        if message.header.fields.get(HeaderFields.member) == "JobRemoved":
            _, job, _, result = message.body
            self._jobs[job] = result
        return message


def _connect(path: str, parser: Parser) -> socket.socket:
    """Return a socket that messages can be sent on; `parser` gets what has come. Raises OSError.

    D-Bus specification, "Authentication Protocol". All is said at once and before the answer, as
    systemd's own clients do: a message that reaches systemd's socket together with BEGIN lies there
    until another one comes. No user is named: the kernel says who it is, also where a user
    namespace has another number for it than the server. Messages may follow the answer at once:
    systemd tells all who are connected that it reloads.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_SECONDS)
        connection.connect(path)
        connection.sendall(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")
        answer = b""
        while answer.count(b"\r\n") < (2 if answer.startswith(b"DATA\r\n") else 1):
            data = connection.recv(256)
            if not data:
                break
            answer += data
        lines = answer.split(b"\r\n", 2)
        if len(lines) < 3 or not lines[1].startswith(b"OK "):
            raise os_error(errno.EACCES, path)
        parser.add_data(lines[2])
    except BaseException:
        connection.close()
        raise
    return connection


def _private(sockets: tuple[str, str], parser: Parser) -> socket.socket:
    """Return a socket to systemd itself, as _connect does. Raises MinirunError."""
    bus, private = sockets
    try:
        return _connect(private, parser)
    except OSError as error:
        raise MinirunError(
            f"systemd: neither {bus} nor {private} answers:"
            f" {reason(error) if error.errno else error}",
            "as root: systemctl start dbus" if sockets == SYSTEM else "loginctl enable-linger USER",
        ) from None


def _gone(error: OSError) -> MinirunError:
    return MinirunError(f"systemd: D-Bus: {reason(error)}", "try again")
