"""What a filter answers, without a kernel; and the filter that libseccomp itself would write."""

import ctypes
import os
from ctypes import c_char_p, c_int, c_uint, c_uint64, c_void_p

from minirun.process.filterprogram import Rule

_OPTIMIZE = 8  # SCMP_FLTATR_CTL_OPTIMIZE


class _Comparison(ctypes.Structure):
    _fields_ = [("index", c_uint), ("op", c_int), ("value", c_uint64), ("value_two", c_uint64)]


def compile(rules: list[Rule], default: int, architectures: list[str]) -> bytes:
    """Return libseccomp's program."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = c_void_p
    library.seccomp_release.argtypes = [c_void_p]
    library.seccomp_arch_resolve_name.argtypes = [c_char_p]
    library.seccomp_arch_add.argtypes = [c_void_p, c_uint]
    library.seccomp_rule_add_array.argtypes = [c_void_p, c_uint, c_int, c_uint, c_void_p]
    library.seccomp_export_bpf.argtypes = [c_void_p, c_int]
    made = library.seccomp_init(c_uint(default))
    for name in architectures:
        token = library.seccomp_arch_resolve_name(name.encode())
        assert library.seccomp_arch_add(made, token) in (0, -17)
    for rule in rules:
        rows = (_Comparison * len(rule.conditions))(*(_Comparison(*c) for c in rule.conditions))
        for call in rule.calls:
            number = library.seccomp_syscall_resolve_name(call.encode())
            if number != -1:
                done = library.seccomp_rule_add_array(made, rule.action, number, len(rows), rows)
                assert done in (0, -17), (call, done)
    memfd = os.memfd_create("libseccomp")
    assert library.seccomp_export_bpf(made, memfd) == 0
    library.seccomp_release(made)
    program = os.pread(memfd, 1 << 20, 0)
    os.close(memfd)
    return program


def answer(program: bytes, architecture: int, number: int, *args: int) -> int:
    """Return what `program` returns for a call: it is interpreted, as the kernel does."""
    registers = [*args, *[0] * (6 - len(args))]
    words = [number & 0xFFFFFFFF, architecture, 0, 0]
    for register in registers:
        words += [register & 0xFFFFFFFF, register >> 32 & 0xFFFFFFFF]
    at, accumulator = 0, 0
    while True:
        row = program[at * 8 : at * 8 + 8]
        code, yes, no = int.from_bytes(row[:2], "little"), row[2], row[3]
        value = int.from_bytes(row[4:], "little")
        at += 1
        if code == 0x20:
            accumulator = words[value // 4]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            at += value
        elif code == 0x06:
            return value
        else:
            tests = {0x15: accumulator == value, 0x25: accumulator > value}
            tests[0x35] = accumulator >= value
            at += yes if tests[code] else no
