"""The processors that minirun knows, a row for each; and the numbers of system calls there.

A processor has another name in each place: uname(2), ELF, seccomp, Go and so docker, Debian. All of
them stand here, and no other file tells one processor from another by a list of its own, except
core/process/trampoline, which has a program for each. A new processor is a row here and a listing
there.

What the sources say: linux/elf-em.h has ELF's numbers, linux/audit.h makes those of seccomp of
them; the names are those of the runtime-spec (config-linux.md, "Seccomp"), of Go's GOARCH, which
OCI's image-spec takes (image-index.md, "platform"), and of Debian (dpkg-architecture(1)).

Where we simplify: only processors of little-endian order are here.
"""

from __future__ import annotations

import os
import sys

from minirun.core.keeping.record import Record

_64_BITS, _LITTLE_ENDIAN = 0x80000000, 0x40000000
"""linux/audit.h, __AUDIT_ARCH_64BIT and __AUDIT_ARCH_LE."""


class Architecture(Record):
    """One processor, as programs of one width see it."""

    machine: str
    """As uname(2) names it."""
    elf: int
    """e_machine of its programs: elf(5)."""
    bits: int
    """64 or 32, the width of an address, and so the class of its ELF files."""
    other: str
    """Machine of the other width, whose programs its kernel mostly executes too; "" if none."""
    scmp: str
    """OCI's name in config.json, linux.seccomp.architectures; libseccomp's constant."""
    go: str
    """GOARCH: in an image's platform, and where docker names an architecture."""
    variant: str
    """That of an image's platform; "" if it has none."""
    debian: str
    """As dpkg(1) names it."""
    triplet: str
    """Debian's folder of libraries, below /usr/lib."""
    qemu: str
    """As QEMU names it: qemu-NAME runs its programs."""
    loader: str
    """glibc's dynamic loader, a name that is part of its interface."""
    musl: str
    """As musl names it, in ld-musl-NAME.so.1, its loader."""
    cache: tuple[int, ...]
    """What glibc's ldconfig notes of its libraries in ld.so.cache: bits of FLAG_REQUIRED_MASK."""
    calls: int | None
    """Which number of CALLS is its own; None if minirun does not know its numbers."""

    @property
    def audit(self) -> int:
        """AUDIT_ARCH_*, by which the kernel tells a seccomp filter what a call is of."""
        return self.elf | _LITTLE_ENDIAN | (_64_BITS if self.bits == 64 else 0)

    @property
    def profile_name(self) -> str:
        """Its name in docker's seccomp profiles: Go's, but for x86."""
        return "x86" if self.go == "386" else self.go

    def number(self, call: str) -> int:
        """Return a system call's number; -1, which is no call (ENOSYS), if it is not known."""
        return -1 if self.calls is None else CALLS[call][self.calls]


ROWS = (
    Architecture(
        machine="x86_64", elf=62, bits=64, other="i686", scmp="SCMP_ARCH_X86_64",
        go="amd64", variant="", debian="amd64", triplet="x86_64-linux-gnu", qemu="x86_64",
        loader="/lib64/ld-linux-x86-64.so.2", musl="x86_64", cache=(0x0300,), calls=0,
    ),
    Architecture(
        machine="i686", elf=3, bits=32, other="x86_64", scmp="SCMP_ARCH_X86",
        go="386", variant="", debian="i386", triplet="i386-linux-gnu", qemu="i386",
        loader="/lib/ld-linux.so.2", musl="i386", cache=(0x0000,), calls=1,
    ),
    Architecture(
        machine="aarch64", elf=183, bits=64, other="armv7l", scmp="SCMP_ARCH_AARCH64",
        go="arm64", variant="v8", debian="arm64", triplet="aarch64-linux-gnu", qemu="aarch64",
        loader="/lib/ld-linux-aarch64.so.1", musl="aarch64", cache=(0x0A00,), calls=2,
    ),
    Architecture(
        machine="armv7l", elf=40, bits=32, other="aarch64", scmp="SCMP_ARCH_ARM",
        go="arm", variant="v7", debian="armhf", triplet="arm-linux-gnueabihf", qemu="arm",
        loader="/lib/ld-linux-armhf.so.3", musl="armhf", cache=(0x0900, 0x0B00), calls=None,
    ),
)  # fmt: skip
"""minirun runs on the first three. Of armv7l it knows the names, which occur beside aarch64's."""

CALLS = {
    "bpf": (321, 357, 280),
    "clone": (56, 120, 220),
    "close": (3, 6, 57),
    "ioctl": (16, 54, 29),
    "ioprio_set": (251, 289, 30),
    "keyctl": (250, 288, 219),
    "mount": (165, 21, 40),
    "prlimit64": (302, 340, 261),
    "read": (0, 3, 63),
    "rt_sigaction": (13, 174, 134),
    "sched_setattr": (314, 351, 274),
    "seccomp": (317, 354, 277),
    "set_mempolicy": (238, 276, 237),
    "setsid": (112, 66, 157),
}
"""System call → its numbers: Linux, arch/x86/entry/syscalls/syscall_64.tbl, syscall_32.tbl beside
it, and include/uapi/asm-generic/unistd.h. From 424 on all processors have the same.
"""

_OTHER_NAMES = {"i386": "i686", "i486": "i686", "i586": "i686", "armv8l": "armv7l"}
"""What else uname(2) says: of older processors, and of aarch64's under a personality of 32 bits."""


def of_machine(machine: str) -> Architecture:
    """Return the row of uname(2)'s name; for another processor one that knows its name alone."""
    machine = _OTHER_NAMES.get(machine, machine)
    for row in ROWS:
        if row.machine == machine:
            return row
    return _unknown(machine)


def _unknown(machine: str) -> Architecture:
    """Return a row for a processor that has none here: most names are those of uname(2)."""
    return Architecture(
        machine=machine, elf=0, bits=64, other="", scmp="", go=machine, variant="",
        debian=machine, triplet=f"{machine}-linux-gnu", qemu=machine, loader="/", musl=machine,
        cache=(), calls=None,
    )  # fmt: skip


def of_process(machine: str, bits: int) -> Architecture:
    """Return what a process is made for, by uname(2)'s name and by the width of its addresses.

    The name is the kernel's, and both widths run on one kernel: a Debian of 32 bits in a chroot
    sees x86_64, and a 64-bit interpreter below `setarch i686` sees i686.
    """
    row = of_machine(machine)
    return of_machine(row.other) if row.other and row.bits != bits else row


NATIVE = of_process(os.uname().machine, 64 if sys.maxsize > 2**32 else 32)
"""What this interpreter is made for."""

NARROW = of_machine(NATIVE.other) if NATIVE.bits == 64 and NATIVE.other else None
"""That of 32 bits whose libraries lie beside its own; None if there is none."""
