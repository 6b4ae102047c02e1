"""seccomp(2): which system calls a process may still make; and libseccomp, which has their names.

The kernel takes a program of classic BPF, 8 bytes an instruction (minirun.process.filterprogram
writes it). A call has another number on each architecture: libseccomp(3) knows them all. It is
opened here directly: its Python wrappers search for it by running ldconfig, twice.
"""

import ctypes

from minirun.kernel import libc
from minirun.kernel.libc import c_char_p, c_int, c_uint, c_void_p

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

_EFAULT = 14

_seccomp = libc.bind_syscall(c_uint, c_uint, c_void_p)
_pidfd_getfd = libc.bind_syscall(c_int, c_int, c_uint)


class Program(ctypes.Structure):
    """struct sock_fprog of seccomp(2): a count of instructions, and where they lie."""

    _fields_ = [("count", ctypes.c_ushort), ("code", c_void_p)]


def install(bpf: bytes, flags: int = 0, *, why: str = "") -> int:
    """Put this process, for good, under the filter `bpf`: seccomp(2).

    With NEW_LISTENER the result is a descriptor (close-on-exec) on which calls are announced:
    seccomp_unotify(2).

    Needs no_new_privs or CAP_SYS_ADMIN. Raises OSError: EACCES without either, EINVAL for a
    program that is empty, too long (4096 instructions) or wrong.
    """
    buffer = ctypes.create_string_buffer(bpf, len(bpf))
    program = Program(len(bpf) // 8, ctypes.addressof(buffer))
    args = {
        "operation": "SECCOMP_SET_MODE_FILTER",
        "flags": libc.flag_names(flags, _SHOWN),
        "instructions": len(bpf) // 8,
    }
    number = libc.number(317, 277)
    raw = (number, SECCOMP_SET_MODE_FILTER, flags, ctypes.addressof(program))
    return libc.logged("seccomp", _seccomp, raw, args, None, why)


def has_flag(name: str) -> bool:
    """Whether this kernel knows the flag: asked with a program at address 0, which it refuses.

    First it looks at the flags (EINVAL), and then at the program (EFAULT).
    """
    flag = FLAGS[name]
    if flag == FLAGS["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]:
        flag |= NEW_LISTENER  # without it, it means nothing
    ret = _seccomp(libc.number(317, 277), SECCOMP_SET_MODE_FILTER, flag, None)
    return bool(ret == -1 and ctypes.get_errno() == _EFAULT)


def pidfd_getfd(pidfd: int, number: int) -> int:
    """Return a copy of descriptor `number` of another process: pidfd_getfd(2); Linux 5.6."""
    return libc.check("pidfd_getfd", _pidfd_getfd(438, pidfd, number, 0))


class Names:
    """The names of system calls, and their numbers on every architecture: libseccomp's tables."""

    def __init__(self) -> None:
        """Load libseccomp. Raises OSError where it is not installed."""
        library = ctypes.CDLL("libseccomp.so.2")
        self._token = _function(library, "seccomp_arch_resolve_name", c_uint, c_char_p)
        self._number = _function(
            library, "seccomp_syscall_resolve_name_arch", c_int, c_uint, c_char_p
        )
        self.native: int = _function(library, "seccomp_arch_native", c_uint)()
        """This machine's architecture, as SCMP_ARCH_* of seccomp.h: mostly AUDIT_ARCH_*."""

    def architecture(self, name: str) -> int:
        """Return the token of an architecture (x86, x32, arm, …); 0 for an unknown name."""
        token: int = self._token(name.encode())
        return token

    def numbers(self, token: int, calls: "Sequence[bytes]") -> "list[int]":
        """Return the number of each call on an architecture.

        -1 stands for a name that libseccomp does not know at all, a lower one for a call that this
        architecture lacks, or has only behind another call: seccomp_syscall_resolve_name(3).
        """
        number = self._number
        return [number(token, call) for call in calls]


def _function(library: "Any", name: str, result: "Any", *argtypes: "Any") -> "Any":
    function = library[name]
    function.restype, function.argtypes = result, argtypes
    return function
