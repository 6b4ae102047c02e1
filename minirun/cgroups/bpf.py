"""eBPF programs on cgroups: bpf(2), as far as a device filter needs it.

bpf(2): one system call, a command number, and a union of structs whose unused rest must be zero
(linux/bpf.h). A program is loaded, checked by the kernel's verifier, held by a descriptor, and
attached to a cgroup, which keeps it alive from then on; BPF_F_REPLACE exchanges one attached
program for another with no moment in between in which neither decides. runc and crun use the same
commands; systemd pins its programs to a file system as well, which minirun has no need of.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from ctypes import c_int, c_uint, c_void_p

from minirun.core.keeping.record import Record
from minirun.core.kernel import libc

PROG_LOAD, PROG_ATTACH, PROG_GET_FD_BY_ID = 5, 8, 13
OBJ_GET_INFO_BY_FD, PROG_QUERY = 15, 16
F_ALLOW_MULTI, F_REPLACE = 2, 4

_COMMANDS = {
    PROG_LOAD: "BPF_PROG_LOAD", PROG_ATTACH: "BPF_PROG_ATTACH",
    PROG_GET_FD_BY_ID: "BPF_PROG_GET_FD_BY_ID", OBJ_GET_INFO_BY_FD: "BPF_OBJ_GET_INFO_BY_FD",
    PROG_QUERY: "BPF_PROG_QUERY",
}  # fmt: skip
_FLAGS = {"BPF_F_ALLOW_MULTI": F_ALLOW_MULTI, "BPF_F_REPLACE": F_REPLACE}
_INSTRUCTION = 8  # bytes
_MOST_PROGRAMS = 64  # that the kernel lets one cgroup have (BPF_CGROUP_MAX_PROGS)
_INFO_SIZE = 40  # struct bpf_prog_info up to and with xlated_prog_insns
_LOG_SIZE = 1 << 16


class ProgramType(Record):
    """A kind of program, and the place at a cgroup that it is attached to: linux/bpf.h."""

    name: str
    number: int
    attach_name: str
    attach_number: int


DEVICE = ProgramType("BPF_PROG_TYPE_CGROUP_DEVICE", 15, "BPF_CGROUP_DEVICE", 6)
SYSCTL = ProgramType("BPF_PROG_TYPE_CGROUP_SYSCTL", 23, "BPF_CGROUP_SYSCTL", 18)

_NUMBER = libc.number("bpf")
_bpf = libc.bind_syscall(c_int, c_void_p, c_uint)


def _call(command: int, attr: ctypes.Array[ctypes.c_char], shown: dict[str, object]) -> int:
    """Call bpf(2), and log it. Raises OSError."""
    shown = {"cmd": _COMMANDS[command], **shown}
    raw = (_NUMBER, command, ctypes.addressof(attr), ctypes.sizeof(attr))
    return libc.logged("bpf", _bpf, raw, shown, _COMMANDS[command])


def _attr(layout: str, *values: int | bytes) -> ctypes.Array[ctypes.c_char]:
    """Return union bpf_attr of bpf(2), with these values in it."""
    raw = struct.pack("<" + layout, *values)
    return ctypes.create_string_buffer(raw, len(raw))


def load(kind: ProgramType, instructions: bytes, name: str) -> int:
    """Load a program; return a descriptor of it.

    `instructions` are packed struct bpf_insn, 8 bytes each; `name` has at most 15 letters, digits
    and underscores. Raises OSError, whose strerror ends with what the verifier said; E2BIG if it
    has too many instructions, or more ways through them than the kernel goes.
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    # Any string will do for a licence: only GPL-only helpers ask for one, and none is called.
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    shown: dict[str, object] = {
        "prog_type": kind.name,
        "insn_cnt": len(instructions) // _INSTRUCTION,
        "prog_name": name,
    }

    def call(log: ctypes.Array[ctypes.c_char] | None) -> int:
        """Load it once, with or without a place for the verifier's words."""
        attr = _attr(
            "IIQQIIQII16s",
            kind.number, len(instructions) // _INSTRUCTION, ctypes.addressof(code),
            ctypes.addressof(licence), 1 if log else 0, len(log) if log else 0,
            ctypes.addressof(log) if log else 0, 0, 0, name.encode(),
        )  # fmt: skip
        return _call(PROG_LOAD, attr, shown)

    try:
        return call(None)
    except OSError as error:
        # EPERM: this process may not load one; E2BIG: too large; EACCES, EINVAL: an instruction
        if error.errno in (errno.EPERM, errno.E2BIG):
            raise
    log = ctypes.create_string_buffer(_LOG_SIZE)
    try:
        return call(log)
    except OSError as error:
        lines = [line.strip() for line in log.value.decode(errors="replace").splitlines()]
        # the last line but one: the last one counts the instructions it looked at
        reason = [line for line in lines if line and not line.startswith("processed ")][-1:]
        error.strerror = ": ".join([os.strerror(error.errno or 0), *reason])
        raise


def attach(kind: ProgramType, cgroup_fd: int, program_fd: int, replacing: int = -1) -> None:
    """Attach a program to a cgroup2 directory, or exchange it for the one `replacing` holds.

    BPF_F_ALLOW_MULTI: the programs of the ancestors go on deciding too, and so do those that are
    attached beside it; access needs the consent of all. Raises OSError.
    """
    flags = F_ALLOW_MULTI | (F_REPLACE if replacing >= 0 else 0)
    shown: dict[str, object] = {
        "target_fd": cgroup_fd, "attach_bpf_fd": program_fd, "attach_type": kind.attach_name,
        "attach_flags": libc.flag_names(flags, _FLAGS),
    }  # fmt: skip
    if replacing >= 0:
        shown["replace_bpf_fd"] = replacing
    attr = _attr("IIIII", cgroup_fd, program_fd, kind.attach_number, flags, max(replacing, 0))
    _call(PROG_ATTACH, attr, shown)


def attached(cgroup_fd: int) -> list[int]:
    """Return the ids of the device programs attached to this very cgroup. Raises OSError."""
    ids = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    attr = _attr(
        "IIIIQII", cgroup_fd, DEVICE.attach_number, 0, 0, ctypes.addressof(ids), len(ids), 0
    )
    _call(PROG_QUERY, attr, {"target_fd": cgroup_fd, "attach_type": DEVICE.attach_name})
    (count,) = struct.unpack_from("<I", attr.raw, 24)
    return list(ids[:count])


def open_program(program_id: int) -> int:
    """Return a descriptor of a loaded program, by its id. Raises OSError."""
    return _call(PROG_GET_FD_BY_ID, _attr("III", program_id, 0, 0), {"prog_id": program_id})


def program_name(program_fd: int) -> str:
    """Return the name that a program was loaded under. Raises OSError."""
    info = _attr("80s", b"")
    attr = _attr("IIQ", program_fd, len(info), ctypes.addressof(info))
    _call(OBJ_GET_INFO_BY_FD, attr, {"bpf_fd": program_fd})
    return info.raw[64:80].rstrip(b"\0").decode()


def program_instructions(program_fd: int) -> bytes:
    """Return the instructions of a program as the kernel holds them after verification.

    Empty if the kernel hides them (blinded constants: net.core.bpf_jit_harden without
    CAP_SYSLOG). Raises OSError.
    """
    buffer = ctypes.create_string_buffer(4096)
    while True:
        # type, id, tag, length of the machine code, length of the instructions, where to put them
        info = _attr("II8sIIQQ", 0, 0, b"", 0, len(buffer), 0, ctypes.addressof(buffer))
        attr = _attr("IIQ", program_fd, _INFO_SIZE, ctypes.addressof(info))
        _call(OBJ_GET_INFO_BY_FD, attr, {"bpf_fd": program_fd})
        size, where = struct.unpack_from("<I", info.raw, 20)[0], info.raw[32:40]
        if not any(where):
            return b""
        if size <= len(buffer):
            return buffer.raw[:size]
        buffer = ctypes.create_string_buffer(size)
