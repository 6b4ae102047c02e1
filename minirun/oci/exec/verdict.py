"""What a compiled filter decides about one system call, before it is installed.

A seccomp filter is a program in classic BPF that reads struct seccomp_data (the call's number, the
processor, six arguments) and returns an action: seccomp(2). This is that machine, as far as
libseccomp uses it; at any other instruction the answer is that the call may be refused.
"""

from __future__ import annotations

import struct

from minirun.core.kernel.architecture import NATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LET_THROUGH = (0x7FFF0000, 0x7FFC0000)  # SECCOMP_RET_ALLOW, SECCOMP_RET_LOG
_ACTION = 0xFFFF0000
_JUMPS: dict[int, Callable[[int, int], bool]] = {
    0x15: lambda value, k: value == k,
    0x25: lambda value, k: value > k,
    0x35: lambda value, k: value >= k,
    0x45: lambda value, k: bool(value & k),
}
"""BPF_JMP | BPF_K with JEQ, JGT, JGE, JSET: linux/bpf_common.h."""
_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06


def lets_through(bpf: bytes, number: int, *args: int) -> bool:
    """Return True if the filter `bpf` certainly allows the call `number` with these arguments."""
    data = struct.pack("<IIQ6Q", number, NATIVE.audit, 0, *args, *(0,) * (6 - len(args)))
    program = list(struct.iter_unpack("<HBBI", bpf))
    at, value = 0, 0
    while at < len(program):
        code, if_true, if_false, k = program[at]
        at += 1
        if code == _LOAD:
            value = int.from_bytes(data[k : k + 4], "little")
        elif code == _AND:
            value &= k
        elif code == _JUMP:
            at += k
        elif code in _JUMPS:
            at += if_true if _JUMPS[code](value, k) else if_false
        else:
            return bool(code == _RETURN and k & _ACTION in _LET_THROUGH)
    return False
