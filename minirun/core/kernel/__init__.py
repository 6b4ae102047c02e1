"""System calls, through ctypes: one function for each. Rings bind their own with kernel.libc.

Every function raises ``OSError(errno, strerror, path)`` and carries the man page it was written
from. Those that make a container write themselves into the log, so that the log says what the
kernel was asked. This file itself needs no ctypes: `start` and `delete` do without it.
"""

from __future__ import annotations

from minirun.core import events
from minirun.core.errors import errno_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def name_call(error: OSError, call: str, path: str | None = None) -> OSError:
    """Mark an OSError with the name of the system call, and with its path; return it."""
    setattr(error, "call", call)  # noqa: B010  (OSError declares no such field)
    error.filename, error.filename2 = path, None
    return error


def logged_python(
    call: str, function: Callable[[], int | None], shown: dict[str, Any],
    path: str | None = None, why: str = "",
) -> None:  # fmt: skip
    """Call a function of :mod:`os` that is one system call, and write the event. Raises OSError."""
    start = events.now()
    try:
        ret = function()
    except OSError as error:
        log_failure(name_call(error, call, path), shown, start, why)
        raise
    events.emit("syscall", call, shown, ret=ret or 0, start=start, why=why)


def log_failure(error: OSError, shown: dict[str, Any], start: int, why: str) -> None:
    """Write the event of a call that failed; `start`: see events.emit."""
    name = getattr(error, "call", "")
    code = errno_name(error.errno or 0)
    events.emit("syscall", name, shown, ret=-1, errno=code, start=start, why=why)
