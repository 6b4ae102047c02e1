"""The kernel's settings in /proc/sys: only those of the sandbox's own namespaces may be written.

Most of the 900 settings exist once: a new mount of proc in a new namespace shows the host's. The
kernel asks an eBPF program of type BPF_PROG_TYPE_CGROUP_SYSCTL at each access by a process of the
cgroup that the program is attached to. It returns 1 (go on) or 0 (EPERM):

    struct bpf_sysctl {             r1 points here
        __u32 write;                0: the access reads
        __u32 file_pos;
    };

bpf_sysctl_get_name, helper 101, copies the name into a buffer: "net/ipv4/ip_forward". The program
compares its first bytes with the names below. The kernel's documentation: prog_cgroup_sysctl.rst.
"""

from __future__ import annotations

import os
from pathlib import Path

from minirun.cgroups import bpf
from minirun.cgroups.devicefilter import LDX_W, NO, YES, insn

OWN = (b"net/", b"kernel/hostname\0", b"kernel/domainname\0", b"kernel/shm", b"kernel/msg",
       b"kernel/sem\0", b"fs/mqueue/")  # fmt: skip
"""The settings that a network, UTS or IPC namespace has of its own: how their names begin."""
_NAME = 101
_BUFFER = 64
_STORE_DW, _MOV_X64, _ADD_K64, _MOV_K64, _CALL = 0x7A, 0xBF, 0x07, 0xB7, 0x85
_LOADS = {4: 0x61, 2: 0x69, 1: 0x71}
_JNE_K32 = 0x56
_FRAME = 10  # the register that points to the end of the stack


def protect(cgroup: Path) -> None:
    """Let no process of a cgroup of version 2 write another setting. Raises OSError."""
    program = bpf.load(bpf.SYSCTL, _program(), "level_sysctl")
    directory = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        bpf.attach(bpf.SYSCTL, directory, program)
    finally:
        os.close(directory)
        os.close(program)


def _program() -> bytes:
    """Return the instructions, packed."""
    zeroed = b"".join(insn(_STORE_DW, _FRAME, 0, -at, 0) for at in range(8, _BUFFER + 1, 8))
    return b"".join((
        insn(LDX_W, 2, 1, 0), insn(_JNE_K32, 2, 0, 2, 0), YES,  # a read
        zeroed,
        insn(_MOV_X64, 2, _FRAME), insn(_ADD_K64, 2, 0, 0, -_BUFFER),
        insn(_MOV_K64, 3, 0, 0, _BUFFER), insn(_MOV_K64, 4, 0, 0, 0),
        insn(_CALL, 0, 0, 0, _NAME),
        *(_allowed(name) for name in OWN),
        NO,
    ))  # fmt: skip


def _allowed(name: bytes) -> bytes:
    """Return the instructions that end with "yes" if the buffer begins with `name`."""
    parts, at = [], 0
    while at < len(name):
        size = next(size for size in _LOADS if at + size <= len(name))
        parts.append((at, size, int.from_bytes(name[at : at + size], "little")))
        at += size
    found = b""
    for number, (at, size, value) in enumerate(parts):
        after = 2 * (len(parts) - number - 1) + len(YES) // 8
        found += insn(_LOADS[size], 2, _FRAME, at - _BUFFER)
        found += insn(_JNE_K32, 2, 0, after, value)
    return found + YES
