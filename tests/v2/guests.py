"""The processors of which QEMU makes a machine here, a row for each, by Debian's name.

A release with an architecture is written as in bare.py: trixie, or trixie:arm64. An architecture
that this kernel does not execute is translated twice: while the disk is made by QEMU's user mode
(foreign.py), and in the machine by its system mode.
"""

from typing import NamedTuple

from minirun.core.kernel import architecture

SUBSET = (
    "busybox-static gcc libc6-dev strace iproute2 runc crun uidmap util-linux-extra zstd e2fsprogs"
    " tmux openssl passt iptables procps"
)


class Guest(NamedTuple):
    """One processor, and the machine that QEMU builds around it."""

    program: str
    package: str
    """Debian's, that has the program."""
    board: tuple[str, ...]
    """QEMU's flags for the machine itself."""
    cpu: str
    """The processor that is translated, without KVM."""
    console: str
    """As Linux calls its serial line."""
    kernels: dict[str, str]
    """Distribution or release → package of a kernel; "" is Debian's for clouds."""
    variables: tuple[str, ...]
    """For make tested, in the disk."""
    images: str


GUESTS = {
    "amd64": Guest(
        "qemu-system-x86_64", "qemu-system-x86", (),
        # QEMU 7.2's cmpxchg16b leaves garbage in the flags: kernels with CX16 die within seconds
        "qemu64,-svm,-cx16", "ttyS0",
        {"": "linux-image-cloud-amd64", "noble": "linux-image-virtual"}, (),
        "busybox debian ubuntu",
    ),
    "arm64": Guest(
        "qemu-system-aarch64", "qemu-system-arm", ("-machine", "virt"), "cortex-a72", "ttyAMA0",
        {"": "linux-image-cloud-arm64", "noble": "linux-image-virtual"},
        (f"TESTED={SUBSET}", "EXTRAS=test"), "busybox debian ubuntu",
    ),
}  # fmt: skip


def of(suite: str) -> Guest:
    """Return the row of a release, such as trixie:arm64. Raises KeyError."""
    return GUESTS[suite.partition(":")[2] or architecture.NATIVE.debian]
