"""System calls that are newer than a seccomp profile: they get ENOSYS, not the profile's refusal.

A profile lists the calls that its author knew. A program built for a later kernel asks for a later
call, and falls back to an older one if the answer is ENOSYS, "no such call"; at EPERM it gives
up (glibc's clone3, faccessat2 and fchmodat2 each broke containers so). What is no newer than the
newest call of the profile was known, and its author meant the refusal.

What the spec says: nothing. What the real stack does: runc puts the same few instructions of
classic BPF before libseccomp's program; here they are, for one architecture:

    ld  [4]                          the architecture
    jeq #0xc000003e, 0, next         x86_64?
    ld  [0]                          the number of the call
    jge #0x40000000, program         x32's numbers: libseccomp's program knows what to do
    jgt #451, 0, program             not newer
    ret #ERRNO | ENOSYS
"""

from __future__ import annotations

import errno
import struct

from minirun.core.kernel import architecture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LD_ABS, _JEQ, _JGT, _JGE, _RET = 0x20, 0x15, 0x25, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data: seccomp(2)
_ENOSYS = 0x00050000 | errno.ENOSYS
_X86_64 = architecture.of_machine("x86_64").audit
_X32, _X32_BIT = 0x4000003E, 0x40000000
"""libseccomp's own token for x32: to the kernel it is x86_64, with a bit in the call's number."""


def before(newest: Mapping[int, int]) -> bytes:
    """Return the instructions for {architecture's token: number of the profile's newest call}."""
    blocks = [_block(token, number) for token, number in newest.items() if token != _X32]
    left = sum(map(len, blocks))
    program = [(_LD_ABS, 0, 0, _ARCHITECTURE)]
    for block in blocks:
        for position, (code, yes, no, value) in enumerate(block):
            to_the_end = left - position - 1
            yes, no = (to_the_end if jump < 0 else jump for jump in (yes, no))
            program.append((code, yes, no, value))
        left -= len(block)
    # struct sock_filter: linux/filter.h
    return b"".join(struct.pack("<HBBI", *row) for row in program) if blocks else b""


def _block(token: int, newest: int) -> list[tuple[int, int, int, int]]:
    """Return one architecture's instructions; a jump of -1 leads to libseccomp's program."""
    x32 = [(_JGE, -1, 0, _X32_BIT)] if token == _X86_64 else []
    body = [
        (_LD_ABS, 0, 0, _NUMBER), *x32, (_JGT, 0, -1, newest), (_RET, 0, 0, _ENOSYS),
    ]  # fmt: skip
    return [(_JEQ, 0, len(body), token), *body]
