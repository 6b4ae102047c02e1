"""A shared object of 700 bytes, with nothing in it but its name.

nvidia-container-cli, ldconfig and the dynamic loader look at a library's ELF header, its class and
its DT_SONAME; none of them looks at code before it is called. So a stand-in for libcuda.so
needs a header, two program headers, a dynamic section and a string table: elf(5), and the System V
ABI's "Dynamic Section". The loader would even load it, and tell a program that looks for cuInit
that there is no such symbol.
"""

from __future__ import annotations

import struct

from minirun.core.kernel.architecture import of_machine

ET_DYN = 3
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB = 0, 1, 4, 5, 6
DT_STRSZ, DT_SYMENT, DT_SONAME = 10, 11, 14
PF_R, PF_W = 4, 2


def shared_object(soname: str, machine: str, needed: tuple[str, ...], remark: str) -> bytes:
    """Return an ELF shared object called `soname` for `machine`, as uname(2) names it.

    `needed` are its DT_NEEDED; `remark` is text that strings(1) shows.
    """
    made_for = of_machine(machine)
    wide = made_for.bits == 64
    word = "Q" if wide else "I"
    header_size, entry_size = (64, 56) if wide else (52, 32)
    strings, offsets = _string_table([soname, *needed, remark])

    start = header_size + 3 * entry_size
    hash_table = struct.pack("<4I", 1, 1, 0, 0)  # one bucket, one chain: only the reserved symbol
    symbols = bytes(24 if wide else 16)
    at_symbols = start + len(hash_table)
    at_strings = at_symbols + len(symbols)
    at_dynamic = -(-(at_strings + len(strings)) // 8) * 8
    tags = [
        (DT_SONAME, offsets[soname]),
        *((DT_NEEDED, offsets[name]) for name in needed),
        (DT_HASH, start),
        (DT_STRTAB, at_strings),
        (DT_SYMTAB, at_symbols),
        (DT_STRSZ, len(strings)),
        (DT_SYMENT, len(symbols)),
        (DT_NULL, 0),
    ]
    dynamic = b"".join(struct.pack(f"<2{word}", *tag) for tag in tags)
    size = at_dynamic + len(dynamic)

    segments = (
        _program_header(wide, PT_LOAD, PF_R | PF_W, 0, size, 0x1000),
        _program_header(wide, PT_DYNAMIC, PF_R | PF_W, at_dynamic, len(dynamic), 8),
        _program_header(wide, PT_GNU_STACK, PF_R | PF_W, 0, 0, 16),
    )
    body = _header(wide, made_for.elf, header_size, entry_size, len(segments))
    body += b"".join(segments) + hash_table + symbols + strings
    return body.ljust(at_dynamic, b"\0") + dynamic


def _string_table(names: list[str]) -> tuple[bytes, dict[str, int]]:
    """Return the names as a string table, and where in it each begins."""
    table = b"\0"
    offsets = {}
    for name in names:
        offsets[name] = len(table)
        table += name.encode() + b"\0"
    return table, offsets


def _header(wide: bool, machine: int, size: int, entry_size: int, count: int) -> bytes:
    """Elf64_Ehdr or Elf32_Ehdr: class, little endian, version 1, System V; no sections."""
    ident = bytes((0x7F, *b"ELF", 2 if wide else 1, 1, 1)).ljust(16, b"\0")
    form = "<16s2HI3QI6H" if wide else "<16s2HI3II6H"
    return struct.pack(
        form, ident, ET_DYN, machine, 1, 0, size, 0, 0, size, entry_size, count, 0, 0, 0
    )


def _program_header(wide: bool, kind: int, flags: int, offset: int, size: int, align: int) -> bytes:
    """Elf64_Phdr or Elf32_Phdr; the file is loaded as it lies, so addresses are offsets."""
    if wide:
        return struct.pack("<2I6Q", kind, flags, offset, offset, offset, size, size, align)
    return struct.pack("<8I", kind, offset, offset, offset, size, size, flags, align)
