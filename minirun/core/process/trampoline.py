"""The last step of init: a program of about 200 bytes that executes the container's command.

What happens: init does not execute the command itself. It executes this tiny ELF program, which
lies in a sealed memory file, and that executes the command. In words it is

    fcntl(FD, F_SETFD, FD_CLOEXEC) == 0 && execve(argv[0], argv + 1, envp);
    write(FD, &errno, 4);
    exit_group(errno == ENOENT ? 127 : 126);

Because: while init is the Python interpreter, its /proc/PID/exe is the host's python3. A container
whose command is a link to /proc/self/exe, or a script that begins with ``#!/proc/self/exe``, would
run the host's interpreter, and could then reopen it for writing and wait for the next container
(CVE-2019-5736). Here /proc/self/exe is a copy that no process can write, and that no other
container uses. And with the interpreter its memory goes: the environment, the arguments and the
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

from minirun.core.errors import MinirunError

EM_X86_64, EM_AARCH64 = 62, 183
LOAD_ADDRESS = 0x400000
"""Above vm.mmap_min_addr, and a multiple of every page size (4, 16 and 64 KiB)."""

MFD_EXEC = 0x10
"""linux/memfd.h, Linux 6.3: the file is meant to be executed (sysctl vm.memfd_noexec)."""

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_F_SEAL_FUTURE_WRITE, _F_SEAL_EXEC = 0x10, 0x20  # Linux 5.1, Linux 6.3

TYPE_CHECKING = False
if TYPE_CHECKING:
    Listing = tuple[tuple[str, str, str], ...]


def x86_64(fd: int) -> "Listing":
    """Return the program for x86_64: (bytes, instruction in Intel's syntax, what for).

    System calls: number in rax, arguments in rdi, rsi, rdx; the result comes in rax, -errno for a
    failure; rcx and r11 are lost. "push n, pop r" loads a small number in 3 bytes instead of 5.
    """
    number = fd.to_bytes(4, "little").hex(" ")
    return (
        # fcntl(FD, F_SETFD, FD_CLOEXEC)
        (f"bf {number}", f"mov edi, {fd}", "FD"),
        ("6a 02", "push 2", "F_SETFD"),
        ("5e", "pop rsi", ""),
        ("6a 01", "push 1", "FD_CLOEXEC"),
        ("5a", "pop rdx", ""),
        ("6a 48", "push 72", "SYS_fcntl"),
        ("58", "pop rax", ""),
        ("0f 05", "syscall", ""),
        ("85 c0", "test eax, eax", "failed?"),
        ("75 16", "jnz report", "then 22 bytes forward"),
        # execve(argv[0], argv + 1, envp)
        ("48 8b 7c 24 08", "mov rdi, [rsp+8]", "argv[0], above argc"),
        ("48 8d 74 24 10", "lea rsi, [rsp+16]", "argv + 1"),
        ("8b 04 24", "mov eax, [rsp]", "argc"),
        ("48 8d 14 c6", "lea rdx, [rsi+rax*8]", "envp, behind argv's NULL"),
        ("6a 3b", "push 59", "SYS_execve"),
        ("58", "pop rax", ""),
        ("0f 05", "syscall", "comes back only when it failed"),
        # write(FD, &errno, 4)
        ("f7 d8", "report: neg eax", "errno"),
        ("50", "push rax", "into memory, little-endian"),
        (f"bf {number}", f"mov edi, {fd}", "FD"),
        ("48 89 e6", "mov rsi, rsp", "where errno lies"),
        ("6a 04", "push 4", "its size"),
        ("5a", "pop rdx", ""),
        ("6a 01", "push 1", "SYS_write"),
        ("58", "pop rax", ""),
        ("0f 05", "syscall", ""),
        # exit_group(errno == ENOENT ? 127 : 126)
        ("58", "pop rax", "errno again"),
        ("31 ff", "xor edi, edi", "0"),
        ("83 f8 02", "cmp eax, 2", "ENOENT?"),
        ("40 0f 94 c7", "sete dil", "then 1"),
        ("83 c7 7e", "add edi, 126", "126 or 127"),
        ("b8 e7 00 00 00", "mov eax, 231", "SYS_exit_group"),
        ("0f 05", "syscall", "does not come back"),
    )


def aarch64(fd: int) -> "Listing":
    """Return the program for aarch64: (bytes, instruction, what for).

    System calls: number in x8, arguments in x0, x1, x2; the result comes in x0. Every instruction
    is 4 bytes; movz carries its number in bits 5 to 20.
    """
    load_fd = (0xD2800000 | fd << 5).to_bytes(4, "little").hex(" ")
    return (
        # fcntl(FD, F_SETFD, FD_CLOEXEC)
        (load_fd, f"mov x0, #{fd}", "FD"),
        ("41 00 80 d2", "mov x1, #2", "F_SETFD"),
        ("22 00 80 d2", "mov x2, #1", "FD_CLOEXEC"),
        ("28 03 80 d2", "mov x8, #25", "SYS_fcntl"),
        ("01 00 00 d4", "svc #0", ""),
        ("e0 00 00 b5", "cbnz x0, report", "failed? then on 28 bytes from here"),
        # execve(argv[0], argv + 1, envp)
        ("e9 03 40 f9", "ldr x9, [sp]", "argc"),
        ("e0 07 40 f9", "ldr x0, [sp, #8]", "argv[0], above argc"),
        ("e1 43 00 91", "add x1, sp, #16", "argv + 1"),
        ("22 0c 09 8b", "add x2, x1, x9, lsl #3", "envp, behind argv's NULL"),
        ("a8 1b 80 d2", "mov x8, #221", "SYS_execve"),
        ("01 00 00 d4", "svc #0", "comes back only when it failed"),
        # write(FD, &errno, 4)
        ("f3 03 00 4b", "report: neg w19, w0", "errno"),
        ("f3 03 00 b9", "str w19, [sp]", "into memory, over argc, little-endian"),
        (load_fd, f"mov x0, #{fd}", "FD"),
        ("e1 03 00 91", "mov x1, sp", "where errno lies"),
        ("82 00 80 d2", "mov x2, #4", "its size"),
        ("08 08 80 d2", "mov x8, #64", "SYS_write"),
        ("01 00 00 d4", "svc #0", ""),
        # exit_group(errno == ENOENT ? 127 : 126)
        ("c0 0f 80 52", "mov w0, #126", ""),
        ("7f 0a 00 71", "cmp w19, #2", "ENOENT?"),
        ("00 14 80 1a", "cinc w0, w0, eq", "then 127"),
        ("c8 0b 80 d2", "mov x8, #94", "SYS_exit_group"),
        ("01 00 00 d4", "svc #0", "does not come back"),
    )


def build(fd: int, machine: str = "") -> bytes:
    """Return the trampoline as a static ELF file that reports on descriptor `fd` (0 to 65535).

    `machine` is as uname(2) names it, this one's by default. Raises MinirunError for a processor
    that there is no listing for.
    """
    machine = machine or os.uname().machine
    if machine == "x86_64":
        kind, listing = EM_X86_64, x86_64(fd)
    elif machine == "aarch64":
        kind, listing = EM_AARCH64, aarch64(fd)
    else:
        raise MinirunError(f"no trampoline for {machine}", "minirun runs on x86_64 and aarch64")
    code = bytes.fromhex(" ".join(row[0] for row in listing))
    return _elf(kind, code)


def _elf(machine: int, code: bytes) -> bytes:
    """Return the smallest executable around `code`: elf(5), one header and one segment."""
    header_size, segment_size = 64, 56
    start = header_size + segment_size
    ident = b"\x7fELF" + bytes((2, 1, 1, 0)) + bytes(8)  # 64 bits, little-endian, version 1
    header = ident + b"".join(
        value.to_bytes(size, "little")
        for value, size in (
            (2, 2), (machine, 2), (1, 4),                # e_type ET_EXEC, e_machine, e_version
            (LOAD_ADDRESS + start, 8),                   # e_entry
            (header_size, 8), (0, 8), (0, 4),            # e_phoff, e_shoff, e_flags
            (header_size, 2), (segment_size, 2), (1, 2), # e_ehsize, e_phentsize, e_phnum
            (0, 2), (0, 2), (0, 2),                      # no sections
        )
    )  # fmt: skip
    size = start + len(code)
    segment = b"".join(
        value.to_bytes(width, "little")
        for value, width in (
            (1, 4), (5, 4), (0, 8),                      # PT_LOAD, PF_R|PF_X, p_offset
            (LOAD_ADDRESS, 8), (LOAD_ADDRESS, 8),        # p_vaddr, p_paddr
            (size, 8), (size, 8), (0x10000, 8),          # p_filesz, p_memsz, p_align
        )
    )  # fmt: skip
    return header + segment + code


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
