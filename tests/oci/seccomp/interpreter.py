"""What a seccomp filter answers: its program is interpreted, as the kernel does."""

import struct
from functools import cache


@cache
def _rows(program: bytes) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("<HBBI", program))


def answer(program: bytes, architecture: int, number: int, *args: int) -> int:
    """Return what `program` returns for a call: SECCOMP_RET_*, with an errno in it."""
    words = [number & 0xFFFFFFFF, architecture, 0, 0]
    for register in (*args, *[0] * (6 - len(args))):
        words += [register & 0xFFFFFFFF, register >> 32 & 0xFFFFFFFF]
    rows = _rows(program)
    at, accumulator = 0, 0
    while True:
        code, yes, no, value = rows[at]
        at += 1
        if code == 0x15:
            at += yes if accumulator == value else no
        elif code == 0x25:
            at += yes if accumulator > value else no
        elif code == 0x35:
            at += yes if accumulator >= value else no
        elif code == 0x20:
            accumulator = words[value // 4]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            at += value
        else:
            assert code == 0x06, hex(code)
            return value
