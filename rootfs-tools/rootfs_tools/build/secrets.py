"""What `build --secret` and `--ssh` give to steps that ask for it, and to nothing else.

A secret is never on a disk: its file lies in memory (tmpfs), in a folder of the caller's alone, and
is gone with the step. It is in no layer, no history and no cache key. Of ssh only the socket of the
agent that the command line names is reached, through a socket of its own, so that a step's user may
have it: an agent itself talks to its owner and root alone.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from minirun.core.errors import ImageError, reason
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import unprivileged
from minirun.core.kernel import files, process
from rootfs_tools.dockerfile.chmod import octal
from rootfs_tools.draft import MEMORY, beside
from rootfs_tools.unpack import ID_LIMIT

LIMIT = 500 << 10
"""Bytes of a secret: buildkit's."""
_TMPFS = 0x01021994
_CHUNK = 1 << 14
_MISSING = "minirun build --secret id={0},src=FILE"


class Secret(NamedTuple):
    """Where one secret comes from."""

    path: str = ""
    variable: str = ""

    def read(self) -> bytes:
        """Return it. Raises ImageError, which says nothing of it."""
        if self.variable:
            if self.variable not in os.environ:
                raise ImageError(f"--secret: the variable {self.variable} is not set", status=1)
            data = os.environb[os.fsencode(self.variable)]
        else:
            try:
                with open(self.path, "rb") as file:
                    data = file.read(LIMIT + 1)
            except OSError as error:
                text = f"--secret: {self.path}: {reason(error)}"
                raise ImageError(text, status=1) from None
        if len(data) > LIMIT:
            where = self.variable or self.path
            raise ImageError(f"--secret: {where}: more than {LIMIT} bytes", status=1)
        return data


class Secrets(NamedTuple):
    """What the command line gives."""

    files: Mapping[str, Secret] = {}
    """Id → where it comes from."""
    agents: Mapping[str, str] = {}
    """Id → the path of an agent's socket."""

    def read(self, row: Mapping[str, str]) -> bytes | None:
        """Return the secret that a mount asks for; None if it is not given.

        Raises ImageError: it is required, or cannot be read.
        """
        found = self.files.get(row["id"])
        if not found and row.get("required"):
            raise ImageError(f"secret {row['id']}: not found", _MISSING.format(row["id"]))
        return found.read() if found else None

    def agent(self, row: Mapping[str, str]) -> str:
        """Return the socket of the agent that a mount asks for; "" if it is not given.

        Raises ImageError: it is required.
        """
        found = self.agents.get(row["id"], "")
        if not found and row.get("required"):
            name = row["id"]
            raise ImageError(f"ssh agent {name}: not forwarded", f"minirun build --ssh {name}")
        return found


def of_flags(given: list[str], sockets: list[str]) -> Secrets:
    """Return what --secret and --ssh say. Raises ImageError."""
    return Secrets(dict(map(_secret, given)), dict(map(_agent, sockets)))


@contextmanager
def in_memory(value: bytes, row: Mapping[str, str]) -> Iterator[str]:
    """Yield the path of a file with a secret, in memory. Raises ImageError, OSError."""
    with _folder() as folder:
        path = f"{folder}/secret"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        with open(fd, "wb") as file:
            file.write(value)
        _own(path, row, 0o400)
        yield path


@contextmanager
def forwarded(agent: str, row: Mapping[str, str]) -> Iterator[str]:
    """Yield the path of a socket that leads to an agent's. Raises OSError.

    A process passes on what is said; it dies with the build.
    """
    with _folder() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = f"{folder}/agent"
        listening.bind(path)
        listening.listen()
        _own(path, row, 0o600)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                _serve(listening, agent, parent)
            os._exit(0)
        try:
            yield path
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _serve(listening: socket.socket, agent: str, parent: int) -> None:
    process.prctl(process.PR_SET_PDEATHSIG, 9, why="the way to the agent ends with the build")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == parent:
        one, _ = listening.accept()
        other = socket.socket(socket.AF_UNIX)
        try:
            other.connect(agent)
        except OSError:
            one.close()
            continue
        for source, target in ((one, other), (other, one)):
            threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def _folder() -> Iterator[str]:
    """Yield a folder in memory; what a killed build has left there is removed first."""
    with beside(MEMORY) as folder:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if files.filesystem_magic(fd) != _TMPFS:
                raise ImageError(f"--secret, --ssh: {MEMORY} is no memory (tmpfs)")
        finally:
            os.close(fd)
        yield folder


def _own(path: str, row: Mapping[str, str], mode: int) -> None:
    """Give a file the owner and the mode that a mount says."""
    if not unprivileged():
        os.chown(path, *(id_of(row.get(key, "0"), key) for key in ("uid", "gid")))
    os.chmod(path, octal(row["mode"], "mode") if row.get("mode") else mode)


def _secret(text: str) -> tuple[str, Secret]:
    """Return what --secret says: id=ID, and src=FILE or env=VARIABLE. Raises ImageError."""
    found = dict(part.partition("=")[::2] for part in text.split(","))
    name, kind = found.pop("id", ""), found.pop("type", "")
    variable = found.pop("env", "")
    path = found.pop("src", "") or found.pop("source", "")
    if found or not name or kind not in ("", "file", "env") or (variable and path):
        hint = "id=ID,src=FILE or id=ID,env=NAME"
        raise ImageError(f"--secret {text:.80}: not understood", hint, 1)
    if kind == "env":
        variable, path = variable or path or name, ""
    elif not variable and not path and name in os.environ and kind != "file":
        variable = name
    return name, Secret("", variable) if variable else Secret(path or name)


def _agent(text: str) -> tuple[str, str]:
    """Return what --ssh says: ID, or ID=SOCKET. Raises ImageError."""
    name, _, path = text.partition("=")
    path = path or os.environ.get("SSH_AUTH_SOCK", "")
    if not path:
        raise ImageError("--ssh: no agent: $SSH_AUTH_SOCK is not set", "--ssh ID=SOCKET", 1)
    if not _is_socket(path):
        text = f"--ssh: {path}: not the socket of an agent"
        raise ImageError(text, "keys are not read: ssh-add them", 1)
    return name or "default", os.path.abspath(path)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def id_of(text: str, name: str) -> int:
    """Return the user or group that an option says, which is a number. Raises ImageError."""
    number = whole(text, 0, ID_LIMIT)
    if number is None:
        raise ImageError(f"{name}={text:.40}: not a number from 0 to {ID_LIMIT}")
    return number
