"""System calls that Python has no function for. Errors are OSError, with errno, call and path.

Each function is one call of its man page, in section 2 of the manual.
"""

import ctypes
import os
import platform
import signal
import struct
import warnings  # noqa: F401 (os.execvp imports it; after pivot_root, out of the image)

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# glibc has no function for these: their numbers, from <asm/unistd.h>
NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "capset": 126, "bpf": 321, "close_range": 436},
    "i686": {"clone": 120, "pivot_root": 217, "capset": 185, "bpf": 357, "close_range": 436},
    "aarch64": {"clone": 220, "pivot_root": 41, "capset": 91, "bpf": 280, "close_range": 436},
}[platform.machine()]

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP = 0x20000000, 0x40000000, 0x02000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE, MS_SHARED = 4096, 16384, 1 << 18, 1 << 19, 1 << 20
MNT_DETACH = 2
# the options of mount(8) that are flags of mount(2); all others are data for the file system
OPTIONS = {
    "ro": MS_RDONLY, "nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC, "bind": MS_BIND,
    "rbind": MS_BIND | MS_REC, "remount": MS_REMOUNT, "noatime": 1 << 10, "relatime": 1 << 21,
    "strictatime": 1 << 24, "rw": 0, "suid": 0, "dev": 0, "exec": 0, "private": 0, "rprivate": 0,
}  # fmt: skip


def checked(call, result, path=None):
    """Return what a call returned; raise its error if that is -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}", path)
    return result


def syscall(name, *arguments):
    """Make a system call by its number. Integers become as wide as a register: 64 or 32 bits."""
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(name, libc.syscall(ctypes.c_long(NUMBERS[name]), *wide))


def clone(flags):
    """Copy this process into new namespaces. Return 0 in the copy, the copy's pid in the caller."""
    return syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)


def mount(source, target, kind="", flags=0, data=""):
    """Mount, bind (MS_BIND), remount, or change how mounts propagate (MS_PRIVATE …)."""
    texts = [os.fsencode(each) for each in (source, target, kind)]
    result = libc.mount(*texts, ctypes.c_ulong(flags), data.encode())
    checked(f"mount {kind}".strip(), result, str(target))


def mount_options(options):
    """Return (flags, data) for :func:`mount` of a list of options, as mount(8) reads them."""
    flags = 0
    for option in options:
        flags |= OPTIONS.get(option, 0)
    return flags, ",".join(option for option in options if option not in OPTIONS)


def umount(target, flags=0):
    """Unmount; with MNT_DETACH now, even if it is in use."""
    checked("umount", libc.umount2(os.fsencode(target), flags), str(target))


def pivot_root(new_root, put_old):
    """Make `new_root` the root of this mount namespace; the old root goes to `put_old`."""
    syscall("pivot_root", os.fsencode(new_root), os.fsencode(put_old))


def setns(path, kind):
    """Enter the namespace that a file below /proc/PID/ns stands for; `kind` is its CLONE_NEW…"""
    with open(path) as namespace:
        checked("setns", libc.setns(namespace.fileno(), kind), path)


def unshare(flags):
    """Give this process new namespaces. (A new pid namespace is for its children only.)"""
    checked("unshare", libc.unshare(flags))


def capset(effective, permitted, inheritable):
    """Set the three sets of capabilities of this process: bit masks of 64 bits, low half first."""
    sets = effective, permitted, inheritable
    halves = [each & 0xFFFFFFFF for each in sets] + [each >> 32 for each in sets]
    syscall("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *halves))


def bpf(command, attributes):
    """Call bpf(2) with a packed `union bpf_attr`. Return a descriptor, or 0."""
    return syscall("bpf", command, attributes, len(attributes))
