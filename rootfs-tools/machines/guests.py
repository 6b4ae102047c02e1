"""The processors of which QEMU makes a machine here, a row for each, by Debian's name.

A release with an architecture is written as in bare.py: trixie, or trixie:arm64. An architecture
that this kernel does not execute is translated by QEMU's user mode while a disk is made
(foreign.py), and by its system mode in the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from minirun.core.kernel import architecture

SUBSET = "busybox-static strace iproute2 runc crun uidmap util-linux-extra zstd procps"
"""Of the Makefile's TESTED, what the tests of a foreign processor have."""


class Guest(NamedTuple):
    """One processor, and the machine that QEMU builds around it."""

    program: str
    package: str
    """Debian's, that has the program."""
    board: tuple[str, ...]
    """QEMU's flags for the machine itself."""
    cpu: str
    """The processor that is translated, without KVM."""
    any_cpu: str
    """For a line that may find KVM or the like, and may not."""
    console: str
    """As Linux calls its serial line."""
    kernels: dict[str, str]
    """Distribution or release → package of a kernel; "" is Debian's for clouds."""
    variables: tuple[str, ...]
    """For make tested, in the tests' disk."""

    def kernel(self, release: str) -> str:
        """Return the package of a release's kernel."""
        return self.kernels.get(release) or self.kernels[""]


GUESTS = {
    "amd64": Guest(
        "qemu-system-x86_64", "qemu-system-x86", (),
        # QEMU 7.2's cmpxchg16b leaves garbage in the flags: kernels with CX16 die within seconds;
        # with its "max" Debian 13's programs end with an error of glibc's before there is a root
        "qemu64,-svm,-cx16", "qemu64,-svm,-cx16", "ttyS0",
        {"": "linux-image-cloud-amd64", "noble": "linux-image-virtual"}, (),
    ),
    "arm64": Guest(
        "qemu-system-aarch64", "qemu-system-arm", ("-machine", "virt"), "cortex-a72", "max",
        "ttyAMA0",
        {"": "linux-image-cloud-arm64", "noble": "linux-image-virtual"},
        (f"TESTED={SUBSET}", "EXTRAS=test"),
    ),
}  # fmt: skip


def of(suite: str) -> Guest:
    """Return the row of a release, such as trixie:arm64. Raises KeyError."""
    return GUESTS[suite.partition(":")[2] or architecture.NATIVE.debian]


def has_kvm(guest: Guest) -> bool:
    """Return True if this processor can run the guest, and the kernel lets us.

    An x86 processor says so in its flags: /dev/kvm may be there without, in a virtual machine, and
    QEMU then ends with an error. Of another processor /dev/kvm is believed.
    """
    native = architecture.NATIVE.debian
    flags = Path("/proc/cpuinfo").read_text()
    able = native != "amd64" or any(f" {word}" in flags for word in ("vmx", "svm"))
    return able and guest == GUESTS.get(native) and os.access("/dev/kvm", os.W_OK)


def write_disk(root: Path, target: Path, gibibytes: int) -> None:
    """Write `disk`, an ext4 of a directory of Debian, and its `vmlinuz` and `initrd.img`."""
    for name in ("vmlinuz", "initrd.img"):
        (found,) = (root / "boot").glob(f"{name}-*")
        shutil.copy(found, target / name)
    argv = ["mkfs.ext4", "-q", "-d", str(root), str(target / "disk"), f"{gibibytes}G"]
    subprocess.run(argv, check=True)
