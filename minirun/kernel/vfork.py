"""A child that shares our memory until it is another program: clone(2) with CLONE_VM|CLONE_VFORK.

    parent                          child, in the parent's memory, on a stack of its own
      │ clone ─────────────────────────▶ call, call, call … from a list made before
      │ (stands still)                   each result, and when, goes into the list
      │ ◀──────────────── execve (or the first call that failed: exit 127)
      ▼ reads the list, writes the log

fork copies the page tables of the interpreter, and then every page that either side touches:
3 ms where a page fault is dear. posix_spawn(3) avoids that with vfork, but knows only a handful of
things to do in between. Between a vfork and the execve no Python can run (it would run in the
parent's interpreter), so the calls are a table, and 90 bytes of machine code walk through it.

What the man pages say: clone(2), vfork(2), syscall(2) "Architecture calling conventions".
What the real stack does: nvidia-container-cli forks, and so copies, its small process.
"""

import ctypes
import os
import struct

from minirun import events
from minirun.errors import MinirunError, errno_name
from minirun.kernel import libc
from minirun.kernel.libc import c_int, c_long, c_size_t, c_void_p
from minirun.kernel.namespaces import (
    CLONE_PIDFD,
    CLONE_VFORK,
    CLONE_VM,
    SIGCHLD,
    clone_flag_names,
)
from minirun.record import Record

_PAGE = 65536  # a multiple of every page size
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_PRIVATE, _MAP_ANONYMOUS = 0x2, 0x20
_NOT_MADE = 1 << 62
_ROW = 10  # words: number, five arguments, result, unused, seconds, nanoseconds

_ROOM = 4096  # bytes for strings and arrays
_RESULT = struct.Struct("<qqqq")

_mmap = libc.bind_pointer("mmap", c_void_p, c_size_t, c_int, c_int, c_int, c_long)
_munmap = libc.bind("munmap", c_void_p, c_size_t)
_mprotect = libc.bind("mprotect", c_void_p, c_size_t, c_int)
_clone = libc.bind("clone", c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Listing = tuple[tuple[str, str, str], ...]


def _bytes(words: "list[int]") -> bytes:
    return struct.pack(f"<{len(words)}q", *words)


class Step(Record):
    """A system call of the child, and what its event says."""

    name: str
    numbers: "tuple[int, int]"
    """On x86_64, and on aarch64."""
    args: "tuple[Any, ...]"
    """At most five: int, bytes (a string), None, or a list of bytes or int (an array)."""
    shown: "dict[str, Any] | None" = None
    """The event's arguments; None for a call that the log does not tell."""
    path: str = ""
    why: str = ""


X86_64: "Listing" = (
    ("48 89 fb", "mov rbx, rdi", "the list"),
    ("48 8b 03", "again: mov rax, [rbx]", "the call's number"),
    ("48 8b 7b 08", "mov rdi, [rbx+8]", "its arguments"),
    ("48 8b 73 10", "mov rsi, [rbx+16]", ""),
    ("48 8b 53 18", "mov rdx, [rbx+24]", ""),
    ("4c 8b 53 20", "mov r10, [rbx+32]", ""),
    ("4c 8b 43 28", "mov r8, [rbx+40]", ""),
    ("0f 05", "syscall", ""),
    ("48 89 43 30", "mov [rbx+48], rax", "its result, or -errno"),
    ("b8 e4 00 00 00", "mov eax, 228", "SYS_clock_gettime"),
    ("6a 01", "push 1", "CLOCK_MONOTONIC"),
    ("5f", "pop rdi", ""),
    ("48 8d 73 40", "lea rsi, [rbx+64]", "when"),
    ("0f 05", "syscall", ""),
    ("48 83 7b 30 00", "cmp qword ptr [rbx+48], 0", "failed?"),
    ("7c 06", "jl stop", ""),
    ("48 83 c3 50", "add rbx, 80", "the next one"),
    ("eb c8", "jmp again", ""),
    ("6a 7f", "stop: push 127", "as a shell that finds no command"),
    ("5f", "pop rdi", ""),
    ("b8 e7 00 00 00", "mov eax, 231", "SYS_exit_group"),
    ("0f 05", "syscall", "does not come back"),
)

AARCH64: "Listing" = (
    ("f3 03 00 aa", "mov x19, x0", "the list"),
    ("68 02 40 f9", "again: ldr x8, [x19]", "the call's number"),
    ("60 06 40 f9", "ldr x0, [x19, #8]", "its arguments"),
    ("61 0a 40 f9", "ldr x1, [x19, #16]", ""),
    ("62 0e 40 f9", "ldr x2, [x19, #24]", ""),
    ("63 12 40 f9", "ldr x3, [x19, #32]", ""),
    ("64 16 40 f9", "ldr x4, [x19, #40]", ""),
    ("01 00 00 d4", "svc #0", ""),
    ("60 1a 00 f9", "str x0, [x19, #48]", "its result, or -errno"),
    ("28 0e 80 d2", "mov x8, #113", "SYS_clock_gettime"),
    ("20 00 80 d2", "mov x0, #1", "CLOCK_MONOTONIC"),
    ("61 02 01 91", "add x1, x19, #64", "when"),
    ("01 00 00 d4", "svc #0", ""),
    ("69 1a 40 f9", "ldr x9, [x19, #48]", ""),
    ("69 00 f8 b7", "tbnz x9, #63, stop", "failed?"),
    ("73 42 01 91", "add x19, x19, #80", "the next one"),
    ("f1 ff ff 17", "b again", ""),
    ("e0 0f 80 d2", "stop: mov x0, #127", "as a shell that finds no command"),
    ("c8 0b 80 d2", "mov x8, #94", "SYS_exit_group"),
    ("01 00 00 d4", "svc #0", "does not come back"),
)
LISTINGS = {"x86_64": X86_64, "aarch64": AARCH64}


def spawn(flags: int, steps: "list[Step]", *, actor: str, why: str = "") -> "tuple[int, int]":
    """Start a child that makes these calls, the last of which is execveat; return (pid, pidfd).

    `flags` are CLONE_NEW* for the child. Where a call fails the child has ended, with status 127,
    and is collected. Raises OSError of that call, MinirunError on another processor.
    """
    listing = LISTINGS.get(libc.MACHINE)
    if listing is None:
        raise MinirunError(f"no vfork for {libc.MACHINE}", "minirun runs on x86_64 and aarch64")
    code = bytes.fromhex(" ".join(row[0] for row in listing))
    table = _Table(steps)
    memory = _mmap(None, 2 * _PAGE, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1, 0)
    if memory in (None, ctypes.c_void_p(-1).value):
        raise libc.failure("mmap")
    try:
        ctypes.memmove(memory, code, len(code))
        libc.check("mprotect", _mprotect(memory, _PAGE, _PROT_READ | _PROT_EXEC))
        pid, pidfd = _clone_into(flags, memory, table.address, why)
    finally:
        _munmap(memory, 2 * _PAGE)
    failure = table.tell(pid, actor)
    if failure:
        os.close(pidfd)
        os.waitpid(pid, 0)
        raise failure
    return pid, pidfd


def _clone_into(flags: int, memory: int, table: int, why: str) -> "tuple[int, int]":
    pidfd = c_int(-1)
    flags |= CLONE_VM | CLONE_VFORK | CLONE_PIDFD
    shown = {"flags": clone_flag_names(flags), "exit_signal": "SIGCHLD"}
    start = events.now()
    stack = memory + 2 * _PAGE
    pid: int = _clone(memory, stack, flags | SIGCHLD, table, ctypes.addressof(pidfd), None, None)
    if pid == -1:
        error = libc.failure("clone")
        libc.log_failure(error, shown, events.now() - start, why)
        raise error
    events.emit("syscall", "clone", shown, ret=pid, dur=events.now() - start, why=why, at=start)
    os.set_inheritable(pidfd.value, False)
    return pid, pidfd.value


class _Table:
    """The list of calls in memory, and behind it all that its arguments point to."""

    def __init__(self, steps: "list[Step]") -> None:
        self.steps = steps
        self.words: "list[int]" = []
        self.rest = b""
        size = 8 * _ROW * len(steps) + _ROOM
        self.memory = ctypes.create_string_buffer(size)
        self.address = ctypes.addressof(self.memory)
        self.behind = self.address + size - _ROOM
        for step in steps:
            args = [self._word(value) for value in step.args]
            self.words += (libc.number(*step.numbers), *args, *(0,) * (5 - len(args)))
            self.words += (_NOT_MADE, 0, 0, 0)
        data = _bytes(self.words) + self.rest
        if len(data) > size:
            raise OSError(7, os.strerror(7))  # E2BIG
        ctypes.memmove(self.address, data, len(data))

    def _word(self, value: "Any") -> int:
        """Return an argument as the processor takes it: a number, or an address."""
        if value is None:
            return 0
        if isinstance(value, int):
            return value
        if isinstance(value, list):
            value = _bytes([self._word(item) for item in value])
        else:
            value += bytes(8 - len(value) % 8)
        address = self.behind + len(self.rest)
        self.rest += value
        return address

    def tell(self, pid: int, actor: str) -> "OSError | None":
        """Write the events of the calls that were made; return the error of the one that failed.

        The result of an execve that did not fail is nowhere: there is nobody to write it.
        """
        at = 0
        failure = None
        data = self.memory.raw
        for index, step in enumerate(self.steps):
            result, _, seconds, nanoseconds = _RESULT.unpack_from(data, (index * _ROW + 6) * 8)
            executed = step.name == "execve"
            if result == _NOT_MADE and not executed:
                break
            at = seconds * 1_000_000_000 + nanoseconds if seconds else at
            errno = -result if result < 0 else 0
            if errno:
                failure = OSError(errno, os.strerror(errno), step.path or None)
                setattr(failure, "call", step.name)  # noqa: B010
            if step.shown is None:
                continue
            told: "dict[str, Any]" = {"why": step.why, "at": at, "by": (actor, pid)}
            if executed:
                events.emit("exec", step.name, step.shown, ret=None, **told)
            if errno:
                code = errno_name(errno)
                events.emit("syscall", step.name, step.shown, ret=-1, errno=code, **told)
            elif not executed:
                events.emit("syscall", step.name, step.shown, ret=result, **told)
            if errno:
                break
        return failure
