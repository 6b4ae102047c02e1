"""The container's command: finding it, and becoming it."""

from __future__ import annotations

import errno
import os
import stat

from minirun.core import events, handshake
from minirun.core.config import DEFAULT_PATH, Config
from minirun.core.errors import NOT_FOUND, REFUSED, CommandError, MinirunError, reason
from minirun.core.kernel import files
from minirun.core.process import trampoline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_ERRNO_END = 4096
"""The kernel returns errno as -1 to -4095: linux/err.h, MAX_ERRNO."""


def find(name: str, environment: dict[str, str]) -> str:
    """Return the path of the program `name`, as the container's user finds it.

    The words are runc's, since docker derives its exit status from them.
    Raises CommandError: status 127 if there is none, 126 if it may not be executed.
    """
    if "/" in name:
        _check(name)
        return name
    refused = None
    for directory in environment.get("PATH", DEFAULT_PATH).split(":") if name else ():
        path = f"{directory or '.'}/{name}"
        try:
            _check(path)
        except CommandError as error:
            refused = refused or (error if error.status == REFUSED else None)
        else:
            return path
    if refused:
        raise CommandError(f'exec: "{name}": permission denied', status=REFUSED)
    raise CommandError(f'exec: "{name}": executable file not found in $PATH', status=NOT_FOUND)


def _check(path: str) -> None:
    """Raise CommandError, with the shell's 126 or 127, if this file cannot be executed."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        text = reason(error)
        status = REFUSED if error.errno == errno.EACCES else NOT_FOUND
        raise CommandError(f'exec: "{path}": stat {path}: {text}', status=status) from None
    if stat.S_ISDIR(mode):
        raise CommandError(f'exec: "{path}": permission denied: is a directory', status=REFUSED)
    if not (mode & 0o111 and files.may_execute(path)):
        raise CommandError(f'exec: "{path}": permission denied', status=REFUSED)


def trampoline_for(preserve: int) -> int:
    """Return the trampoline, which will report on the descriptor after the preserved ones.

    Raises OSError, MinirunError.
    """
    status_fd = 3 + preserve
    memfd = trampoline.open_sealed(status_fd)
    return os.dup(memfd) if memfd == status_fd else memfd


def execute(
    config: Config, memfd: int, preserve: int, report_fd: int, target: str,
    stage: events.stage | None,
) -> NoReturn:  # fmt: skip
    """Become `target`, through the trampoline. Tell `report_fd` its path, and errno on failure.

    Descriptors 3 to 2 + `preserve` are handed on; privileges.drop has marked all others to close.
    """
    args, env = config.process["args"], config.environment
    status_fd = 3 + preserve
    why = "200 bytes in a sealed memfd: /proc/self/exe is no longer the host's interpreter"
    shown = {"path": "memfd:trampoline", "argv": [target, *args]}
    events.emit("exec", "execve", shown, ret=None, why=why)
    shown = {"path": target, "argv": args}
    events.emit("exec", "execve", shown, ret=None, why="the container's command")
    if stage:
        stage.end()
    try:
        os.dup2(report_fd, status_fd, inheritable=True)  # it may close the log: no event from now
        try:
            os.write(status_fd, target.encode(errors="surrogateescape") + b"\0")
        except BrokenPipeError:
            pass  # `start` was killed: the command runs all the same
        for fd in range(3, status_fd):
            os.set_inheritable(fd, True)
        os.execve(memfd, [target, *args], env)
    except Exception as error:  # ValueError: a NUL in what config.json or the image says
        os.write(status_fd, (getattr(error, "errno", 0) or errno.EINVAL).to_bytes(4, "little"))
    finally:
        os._exit(REFUSED)


def failure_from(report: bytes) -> MinirunError:
    """Return the error that a last message carries: PATH, NUL, errno of 4 bytes; or an ERROR.

    The container may have got hold of the FIFO: the number is not taken on trust.
    """
    path, nul, number = report.partition(b"\0")
    if not nul:
        return handshake.error_from(report.decode(errors="replace"))
    code = int.from_bytes(number, "little")
    if len(number) != 4 or not 0 < code < _ERRNO_END:
        return handshake.error_from(path.decode(errors="replace"))
    target = path.decode(errors="surrogateescape")
    error = refusal(code, target)
    events.emit("note", "execve failed", {"path": target, "errno": code}, ret=-1)
    return error


def refusal(code: int, target: str) -> CommandError:
    """Return the error for an execve of `target` that failed with errno `code`."""
    status = NOT_FOUND if code == errno.ENOENT else REFUSED
    return CommandError(f"exec {target}: {os.strerror(code).lower()}", status=status)
