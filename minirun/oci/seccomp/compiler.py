"""seccomp(2): which system calls a process may still make; and libseccomp, which compiles that.

The kernel takes a program of classic BPF, 8 bytes an instruction. Writing one for hundreds of
calls on three processors needs their numbers, and care: libseccomp(3) has both.
It is opened here directly: its Python wrappers search for it by running ldconfig, twice.
"""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import c_char_p, c_int, c_uint, c_uint64, c_void_p

from minirun.core.errors import os_error
from minirun.core.kernel import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SECCOMP_SET_MODE_FILTER = 1
FLAGS = {
    "SECCOMP_FILTER_FLAG_TSYNC": 1,
    "SECCOMP_FILTER_FLAG_LOG": 2,
    "SECCOMP_FILTER_FLAG_SPEC_ALLOW": 4,
    "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV": 32,
}
"""linux/seccomp.h; those that config.json may ask for."""
TSYNC, NEW_LISTENER, TSYNC_ESRCH = 1, 8, 16
_SHOWN = {
    **FLAGS, "SECCOMP_FILTER_FLAG_NEW_LISTENER": NEW_LISTENER,
    "SECCOMP_FILTER_FLAG_TSYNC_ESRCH": TSYNC_ESRCH,
}  # fmt: skip

_NO_SUCH_CALL = -1  # __NR_SCMP_ERROR
_ALLOW = 0x7FFF0000  # SECCOMP_RET_ALLOW

seccomp_call = libc.bind_syscall(c_uint, c_uint, c_void_p)


class SockFprog(ctypes.Structure):
    """struct sock_fprog of seccomp(2): a count of instructions, and where they lie."""

    _fields_ = [("count", ctypes.c_ushort), ("code", c_void_p)]


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp of seccomp_rule_add(3): a condition on one argument of a call."""

    _fields_ = [("index", c_uint), ("op", c_int), ("value", c_uint64), ("value_two", c_uint64)]


def install(bpf: bytes, flags: int = 0, *, why: str = "") -> int:
    """Put this process, for good, under the filter `bpf`: seccomp(2).

    With NEW_LISTENER the result is a descriptor (close-on-exec) on which calls are announced:
    seccomp_unotify(2).

    Needs no_new_privs or CAP_SYS_ADMIN. Raises OSError: EACCES without either, EINVAL for a
    program that is empty, too long (4096 instructions) or wrong.
    """
    buffer = ctypes.create_string_buffer(bpf, len(bpf))
    program = SockFprog(len(bpf) // 8, ctypes.addressof(buffer))
    args = {
        "operation": "SECCOMP_SET_MODE_FILTER",
        "flags": libc.flag_names(flags, _SHOWN),
        "instructions": len(bpf) // 8,
    }
    number = libc.number("seccomp")
    raw = (number, SECCOMP_SET_MODE_FILTER, flags, ctypes.addressof(program))
    return libc.logged("seccomp", seccomp_call, raw, args, None, why)


class Compiler:
    """One filter in the making: seccomp_init(3) and its relatives. Raises OSError throughout.

    libseccomp can sort the calls into a binary tree (SCMP_FLTATR_CTL_OPTIMIZE), which takes 6 ms
    for a profile of 400 calls. Since Linux 5.11 the kernel remembers which calls a filter always
    allows, and does not ask it again: the tree would only help calls that are judged by arguments.
    """

    def __init__(self, default_action: int) -> None:
        """Load libseccomp. OSError if it is not installed, or the action is unknown to it."""
        library = ctypes.CDLL("libseccomp.so.2")
        self._init = _function(library, "seccomp_init", c_void_p, c_uint)
        self._release = _function(library, "seccomp_release", None, c_void_p)
        self._arch = _function(library, "seccomp_arch_resolve_name", c_uint, c_char_p)
        self._add_arch = _function(library, "seccomp_arch_add", c_int, c_void_p, c_uint)
        self._call = _function(library, "seccomp_syscall_resolve_name", c_int, c_char_p)
        self._call_on = _function(
            library, "seccomp_syscall_resolve_name_arch", c_int, c_uint, c_char_p
        )
        self._architectures = [_function(library, "seccomp_arch_native", c_uint)()]
        self._add_rule = _function(
            library, "seccomp_rule_add_array", c_int, c_void_p, c_uint, c_int, c_uint, c_void_p
        )
        self._export = _function(library, "seccomp_export_bpf", c_int, c_void_p, c_int)
        self.allowed: set[int] = set()
        """Numbers of this machine's calls that a rule lets through, if only with some arguments."""
        self._filter = self._init(default_action)
        if not self._filter:
            raise os_error(errno.EINVAL, hex(default_action))

    def add_architecture(self, name: str) -> bool:
        """Let calls of another architecture (x86, x32, …) in too; False for an unknown name.

        A call of an architecture that was not added ends the process.
        """
        token = self._arch(name.encode())
        if token:
            _check(self._add_arch(self._filter, token), name)
            self._architectures.append(token)
        return bool(token)

    def newest(self, calls: Sequence[str]) -> dict[int, int]:
        """Return the highest number among `calls`, per architecture, by its AUDIT_ARCH_* token."""
        raw = [call.encode() for call in calls]
        numbers = {t: [self._call_on(t, call) for call in raw] for t in self._architectures}
        return {token: max(found) for token, found in numbers.items() if max(found, default=-1) > 0}

    def add_rule(
        self, action: int, call: str, conditions: Sequence[tuple[int, int, int, int]] = ()
    ) -> None:
        """Add a rule: `call` gets `action` if all conditions hold.

        A condition is (index of the argument, operator, value, second value). A call that
        libseccomp does not know is skipped: it gets the default action.
        """
        number = self._call(call.encode())
        if number == _NO_SUCH_CALL:
            return
        if action == _ALLOW and number >= 0:
            self.allowed.add(number)
        array = (Comparison * len(conditions))(*(Comparison(*c) for c in conditions))
        address = ctypes.addressof(array)
        _check(self._add_rule(self._filter, action, number, len(conditions), address), call)

    def compile(self) -> bytes:
        """Return the program and let go of the filter."""
        memfd = os.memfd_create("minirun:seccomp")
        try:
            _check(self._export(self._filter, memfd), "seccomp_export_bpf")
            return os.pread(memfd, os.fstat(memfd).st_size, 0)
        finally:
            os.close(memfd)
            self._release(self._filter)


def _function(library: Any, name: str, result: Any, *argtypes: Any) -> Any:
    """Return a function of libseccomp, with the types of its result and arguments set."""
    function = library[name]
    function.restype, function.argtypes = result, argtypes
    return function


def _check(ret: int, culprit: str) -> None:
    """Raise OSError for libseccomp's -errno; a rule that is there already (EEXIST) is no harm."""
    if ret < 0 and ret != -17:
        raise os_error(-ret, culprit)
