"""How a process is scheduled: CPU time, disk time, memory nodes; and what kind of machine it sees.

Four system calls that few containers ask for, so that this module is imported for those alone.
What is set here stays over execve and goes along with fork.
"""

import ctypes
from ctypes import c_int, c_uint, c_ulong, c_void_p

from minirun.core.kernel import libc

IOPRIO_WHO_PGRP = 2
_IOPRIO_CLASS_SHIFT = 13

_sched_setattr = libc.bind_syscall(c_int, c_void_p, c_uint)
_ioprio_set = libc.bind_syscall(c_int, c_int, c_int)
_set_mempolicy = libc.bind_syscall(c_int, c_void_p, c_ulong)
_personality = libc.bind("personality", c_ulong)


class SchedAttr(ctypes.Structure):
    """struct sched_attr of sched_setattr(2), in its first version of 48 bytes."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    ]


def sched_setattr(attr: SchedAttr) -> None:
    """Set this process's scheduling policy: sched_setattr(2). Raises OSError."""
    attr.size = ctypes.sizeof(attr)
    number = libc.number("sched_setattr")
    libc.check("sched_setattr", _sched_setattr(number, 0, ctypes.addressof(attr), 0))


def ioprio_set(kind: int, priority: int) -> None:
    """Set the I/O class and priority of this process group: ioprio_set(2). Raises OSError."""
    value = kind << _IOPRIO_CLASS_SHIFT | priority
    number = libc.number("ioprio_set")
    libc.check("ioprio_set", _ioprio_set(number, IOPRIO_WHO_PGRP, 0, value))


def set_mempolicy(mode: int, nodes: int) -> None:
    """Set the memory nodes (a bit mask) that pages are allocated on: set_mempolicy(2).

    Raises OSError.
    """
    words = max(1, (nodes.bit_length() + 63) // 64)
    mask = (ctypes.c_uint64 * words)(*((nodes >> 64 * n) & (2**64 - 1) for n in range(words)))
    address, bits = (ctypes.addressof(mask), words * 64 + 1) if nodes else (None, 0)
    number = libc.number("set_mempolicy")
    libc.check("set_mempolicy", _set_mempolicy(number, mode, address, bits))


def personality(persona: int) -> None:
    """Set the execution domain: personality(2). Raises OSError."""
    libc.check("personality", _personality(persona))
