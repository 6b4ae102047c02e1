"""The last step of init: a program of about 200 bytes that executes the container's command.

What happens: init does not execute the command itself. It executes this tiny ELF program, which
lies in a sealed memory file, and that executes the command. In words it is

    fcntl(FD, F_SETFD, FD_CLOEXEC) == 0 && execve(argv[0], argv + 1, envp);
    write(FD, &errno, 4);
    exit_group(errno == ENOENT ? 127 : 126);

Because: while init is the Python interpreter, its /proc/PID/exe is the host's python3. A container
whose command is a link to /proc/self/exe, or a script that begins with ``#!/proc/self/exe``, would
run the host's interpreter, and could then reopen it for writing and wait for the next container
(CVE-2019-5736). Here /proc/self/exe is the memory file, which no process can write, and which
no other container uses. The interpreter's memory goes too: the environment, the arguments and the
secrets of the host.

FD is the write end of a pipe that init leaves open across its execve. When the command starts,
FD_CLOEXEC closes it and the runtime reads the end of the file; when it cannot start, the runtime
reads errno, 4 bytes little-endian. When fcntl fails (a seccomp filter that refuses it, or an
attack that comes here a second time, with FD closed) nothing is executed: status 126.

What the man pages say: execve(2), memfd_create(2), fcntl(2) "file sealing", elf(5); the stack at
the start of a program, argc argv… NULL envp… NULL, is in the psABI of each processor.

What the real stack does: runc is a static Go program and copied itself into a sealed memory file
(10 MB for each container), later put a read-only overlay over itself; crun seals itself too.

Where we simplify: a security label for "the next execve" (AppArmor, SELinux) would be spent on the
trampoline; minirun sets none.
"""

import fcntl
import os
import struct

from minirun.core.errors import MinirunError
from minirun.core.kernel.architecture import NATIVE, Architecture, of_machine

LOAD_ADDRESS = 0x400000
"""Above vm.mmap_min_addr, and a multiple of every page size (4, 16 and 64 KiB)."""

MFD_EXEC = 0x10
"""linux/memfd.h, Linux 6.3: the file is meant to be executed (sysctl vm.memfd_noexec)."""

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_F_SEAL_FUTURE_WRITE, _F_SEAL_EXEC = 0x10, 0x20  # Linux 5.1, Linux 6.3

X86_64 = """
LOAD_FD         | mov edi, FD            | FD
6a 02 5e        | push 2; pop rsi        | F_SETFD
6a 01 5a        | push 1; pop rdx        | FD_CLOEXEC
6a 48 58        | push 72; pop rax       | SYS_fcntl
0f 05           | syscall                |
85 c0           | test eax, eax          | failed?
75 16           | jnz report             | then 22 bytes forward
48 8b 7c 24 08  | mov rdi, [rsp+8]       | argv[0], above argc
48 8d 74 24 10  | lea rsi, [rsp+16]      | argv + 1
8b 04 24        | mov eax, [rsp]         | argc
48 8d 14 c6     | lea rdx, [rsi+rax*8]   | envp, behind argv's NULL
6a 3b 58        | push 59; pop rax       | SYS_execve
0f 05           | syscall                | comes back only when it failed
f7 d8           | report: neg eax        | errno
50              | push rax               | into memory, little-endian
LOAD_FD         | mov edi, FD            | FD
48 89 e6        | mov rsi, rsp           | where errno lies
6a 04 5a        | push 4; pop rdx        | its size
6a 01 58        | push 1; pop rax        | SYS_write
0f 05           | syscall                |
58              | pop rax                | errno again
31 ff           | xor edi, edi           | 0
83 f8 02        | cmp eax, 2             | ENOENT?
40 0f 94 c7     | sete dil               | then 1
83 c7 7e        | add edi, 126           | 126 or 127
b8 e7 00 00 00  | mov eax, 231           | SYS_exit_group
0f 05           | syscall                | does not come back
"""
"""The program for x86_64: bytes, instructions in Intel's syntax, and what for.

System calls: number in rax, arguments in rdi, rsi, rdx; the result comes in rax, -errno for a
failure; rcx and r11 are lost. "push n; pop r" loads a small number in 3 bytes instead of 5.
"""

I686 = """
LOAD_FD         | mov ebx, FD            | FD
6a 02 59        | push 2; pop ecx        | F_SETFD
6a 01 5a        | push 1; pop edx        | FD_CLOEXEC
6a 37 58        | push 55; pop eax       | SYS_fcntl
cd 80           | int 0x80               |
85 c0           | test eax, eax          | failed?
75 13           | jnz report             | then 19 bytes forward
8b 5c 24 04     | mov ebx, [esp+4]       | argv[0], above argc
8d 4c 24 08     | lea ecx, [esp+8]       | argv + 1
8b 04 24        | mov eax, [esp]         | argc
8d 14 81        | lea edx, [ecx+eax*4]   | envp, behind argv's NULL
6a 0b 58        | push 11; pop eax       | SYS_execve
cd 80           | int 0x80               | comes back only when it failed
f7 d8           | report: neg eax        | errno
50              | push eax               | into memory, little-endian
LOAD_FD         | mov ebx, FD            | FD
89 e1           | mov ecx, esp           | where errno lies
6a 04 5a        | push 4; pop edx        | its size
6a 04 58        | push 4; pop eax        | SYS_write
cd 80           | int 0x80               |
58              | pop eax                | errno again
31 db           | xor ebx, ebx           | 0
83 f8 02        | cmp eax, 2             | ENOENT?
0f 94 c3        | sete bl                | then 1
83 c3 7e        | add ebx, 126           | 126 or 127
b8 fc 00 00 00  | mov eax, 252           | SYS_exit_group
cd 80           | int 0x80               | does not come back
"""
"""The same for i686, in 32 bits. System calls: number in eax, arguments in ebx, ecx, edx; the
result comes in eax. int 0x80 is the way that every x86 has, and a kernel of 64 bits too.
"""

AARCH64 = """
LOAD_FD         | mov x0, #FD            | FD
41 00 80 d2     | mov x1, #2             | F_SETFD
22 00 80 d2     | mov x2, #1             | FD_CLOEXEC
28 03 80 d2     | mov x8, #25            | SYS_fcntl
01 00 00 d4     | svc #0                 |
e0 00 00 b5     | cbnz x0, report        | failed? then on 28 bytes from here
e9 03 40 f9     | ldr x9, [sp]           | argc
e0 07 40 f9     | ldr x0, [sp, #8]       | argv[0], above argc
e1 43 00 91     | add x1, sp, #16        | argv + 1
22 0c 09 8b     | add x2, x1, x9, lsl #3 | envp, behind argv's NULL
a8 1b 80 d2     | mov x8, #221           | SYS_execve
01 00 00 d4     | svc #0                 | comes back only when it failed
f3 03 00 4b     | report: neg w19, w0    | errno
f3 03 00 b9     | str w19, [sp]          | into memory, over argc, little-endian
LOAD_FD         | mov x0, #FD            | FD
e1 03 00 91     | mov x1, sp             | where errno lies
82 00 80 d2     | mov x2, #4             | its size
08 08 80 d2     | mov x8, #64            | SYS_write
01 00 00 d4     | svc #0                 |
c0 0f 80 52     | mov w0, #126           |
7f 0a 00 71     | cmp w19, #2            | ENOENT?
00 14 80 1a     | cinc w0, w0, eq        | then 127
c8 0b 80 d2     | mov x8, #94            | SYS_exit_group
01 00 00 d4     | svc #0                 | does not come back
"""
"""The same for aarch64. System calls: number in x8, arguments in x0, x1, x2; the result comes
in x0. Every instruction is 4 bytes; movz carries its number in bits 5 to 20.
"""


def build(fd: int, machine: str = "") -> bytes:
    """Return the trampoline as a static ELF file that reports on descriptor `fd` (0 to 65535).

    `machine` is as uname(2) names it, this one's by default. Raises MinirunError for a processor
    that there is no listing for.
    """
    architecture = of_machine(machine) if machine else NATIVE
    if architecture.machine == "x86_64":
        listing, load_fd = X86_64, b"\xbf" + fd.to_bytes(4, "little")
    elif architecture.machine == "i686":
        listing, load_fd = I686, b"\xbb" + fd.to_bytes(4, "little")
    elif architecture.machine == "aarch64":
        listing, load_fd = AARCH64, (0xD2800000 | fd << 5).to_bytes(4, "little")
    else:
        hint = "minirun runs on x86_64, i686 and aarch64"
        raise MinirunError(f"no trampoline for {architecture.machine}", hint)
    columns = " ".join(line.partition("|")[0] for line in listing.splitlines())
    code = bytes.fromhex(columns.replace("LOAD_FD", load_fd.hex()))
    return _elf(architecture, code)


def _elf(architecture: Architecture, code: bytes) -> bytes:
    """Return the smallest executable around `code`: elf(5), one header and one segment.

    The header: little-endian, ET_EXEC, no sections. The segment: PT_LOAD, PF_R|PF_X; in 32 bits its
    fields have another order.
    """
    wide = architecture.bits == 64
    word, header_size, segment_size = ("Q", 64, 56) if wide else ("I", 52, 32)
    start = header_size + segment_size
    size = start + len(code)
    if wide:
        segment = (1, 5, 0, LOAD_ADDRESS, LOAD_ADDRESS, size, size, 0x10000)
    else:
        segment = (1, 0, LOAD_ADDRESS, LOAD_ADDRESS, size, size, 5, 0x10000)
    return b"".join(
        (
            struct.pack("<4s12B", b"\x7fELF", 2 if wide else 1, 1, 1, *bytes(9)),
            struct.pack("<HHI", 2, architecture.elf, 1),
            struct.pack(f"<3{word}", LOAD_ADDRESS + start, header_size, 0),
            struct.pack("<IHHHHHH", 0, header_size, segment_size, 1, 0, 0, 0),
            struct.pack(f"<II6{word}", *segment),
            code,
        )
    )


def open_sealed(fd: int) -> int:
    """Return a descriptor (close-on-exec) of a memory file that holds build(fd), sealed.

    No process can write, grow, shrink or unseal it: fcntl(2), F_ADD_SEALS. init executes it with
    ``os.execve(memfd, [path, argv0, argv1, …], env)``. Raises OSError, MinirunError.
    """
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        memfd = os.memfd_create("minirun:exec", flags | MFD_EXEC)
    except OSError:  # EINVAL: before Linux 6.3 every memory file could be executed
        memfd = os.memfd_create("minirun:exec", flags)
    try:
        os.write(memfd, build(fd))
        os.fchmod(memfd, 0o555)
        try:
            fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, _SEALS | _F_SEAL_FUTURE_WRITE | _F_SEAL_EXEC)
        except OSError:  # EINVAL: before Linux 6.3 there was no seal on the mode
            fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(memfd)
        raise
    return memfd
