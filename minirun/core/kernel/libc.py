"""libc, loaded once, and the two ways of calling into it: logged and unlogged."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_long

from minirun.core import events
from minirun.core.errors import os_error
from minirun.core.kernel import log_failure, name_call
from minirun.core.kernel.architecture import NATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_libc = ctypes.PyDLL(None, use_errno=True)
# PyDLL keeps the interpreter's lock during a call: there is one thread, and clone must not
# wake up in a child in which no thread holds the lock.


def bind(symbol: str, *argtypes: Any) -> Any:
    """Return libc's function `symbol` with its argument types set once; it returns an int."""
    return _typed(symbol, c_int, argtypes)


def bind_syscall(*argtypes: Any) -> Any:
    """Return syscall(2) for a call with these argument types; the number comes first."""
    return _typed("syscall", c_long, (c_long, *argtypes))


def _typed(symbol: str, result: Any, argtypes: tuple[Any, ...]) -> Any:
    """Return a function of libc's with the types of its result and arguments set."""
    function = _libc[symbol]
    function.argtypes = argtypes
    function.restype = result
    return function


def number(call: str) -> int:
    """Return a system call's number on this machine, for a call of architecture.CALLS."""
    return NATIVE.number(call)


def failure(call: str, path: str | None = None) -> OSError:
    """Return the OSError for the errno that the last call left, marked with the call's name."""
    code = ctypes.get_errno()
    return name_call(os_error(code), call, path)


def check(call: str, ret: int, path: str | None = None) -> int:
    """Return `ret`, or raise OSError if it is -1."""
    if ret == -1:
        raise failure(call, path)
    return ret


def logged(
    call: str, function: Any, args: tuple[Any, ...], shown: dict[str, Any],
    path: str | None = None, why: str = "",
) -> int:  # fmt: skip
    """Call `function`, write the event, return its result. Raises OSError."""
    start = events.now()
    ret: int = function(*args)
    if ret != -1:
        events.emit("syscall", call, shown, ret=ret, start=start, why=why)
        return ret
    error = failure(call, path)
    log_failure(error, shown, start, why)
    raise error


def flag_names(value: int, names: dict[str, int]) -> str:
    """Return MS_BIND|MS_REC for 0x5000, as strace prints it; 0 if no flag is set."""
    return "|".join(name for name, bit in names.items() if bit and value & bit == bit) or "0"


def table(module: dict[str, Any], *prefixes: str) -> dict[str, int]:
    """Return the constants of a module, its globals(), whose names begin with a prefix."""
    return {name: value for name, value in module.items() if name.startswith(prefixes)}
