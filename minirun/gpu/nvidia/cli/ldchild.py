"""The process that becomes ldconfig: alone with the container's root, and with little of anything.

In order: the container's cgroup; a mount namespace of its own, in which no device node can be
opened (MOUNT_ATTR_NODEV on every mount); pivot_root into the container; no capability but one;
limits. All of that is this process's alone, and goes with it.

A process of uid 0 that executes a program regains every capability of its bounding set. With
SECBIT_NOROOT it does not, and uid 0 is a user like any other: capabilities(7), "The securebits
flags".
"""

import os
import resource
from ctypes import c_int, c_ulong

from minirun.core import events
from minirun.core.errors import from_os
from minirun.core.kernel import files, libc, mounts, namespaces, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from minirun.gpu.apply import Target

SECONDS = 10
"""Processor time."""
LIMITS = (
    ("RLIMIT_CPU", SECONDS), ("RLIMIT_DATA", 256 << 20), ("RLIMIT_AS", 4 << 30),
    ("RLIMIT_FSIZE", 64 << 20), ("RLIMIT_NOFILE", 256), ("RLIMIT_CORE", 0),
)  # fmt: skip
"""Seconds, bytes, descriptors. RLIMIT_DATA is what memory can be taken; RLIMIT_AS also counts the
library that is being read, which is mapped as a whole and may have some GiB. A configuration that
includes itself goes as deep as there are descriptors. nvidia-container-cli has 10 s, 2 GiB of
addresses, files of 1 MiB, 64 descriptors, and no limit of the memory itself."""
_CAP_DAC_OVERRIDE = 1
_SIGKILL = 9
_PR_SET_SECUREBITS = 28
_SECUREBITS = {"SECBIT_NOROOT": 0x1, "SECBIT_NOROOT_LOCKED": 0x2}
_NAME = "ldconfig"
_TREE = mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NOEXEC
_COVER = mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


_prctl = libc.bind("prctl", c_int, *[c_ulong] * 4)


def become(
    target: "Target", folders: "tuple[str, ...]", hidden: "list[str]", output: int, failed: int
) -> "NoReturn":
    """Become the target's ldconfig, from which the folders `hidden` are covered.

    It prints into `output`. Write to the pipe `failed` why it cannot be.
    """
    try:
        events.become("cli", int(os.readlink("/proc/self")))  # the host's /proc: the pid out there
        why = "it does not outlive stage 5, which waits for it"
        process.prctl(process.PR_SET_PDEATHSIG, _SIGKILL, why=why)
        if target.join:
            target.join()
        _enter(target, hidden)
        for number in (0, 1, 2):
            os.dup2(output, number)
        _drop(target.owner)
        files.close_range_cloexec(3)
        argv = [_NAME, "-f", "/etc/ld.so.conf", "-C", "/etc/ld.so.cache", *folders]
        _limit()
        process.execve(target.ldconfig, argv, {}, shown=_NAME, why="nothing of the image runs")
    except OSError as error:
        os.write(failed, from_os(error).line().encode(errors="replace"))
    finally:
        os._exit(1)


def _enter(target: "Target", hidden: "list[str]") -> None:
    """Make the container's root the only file system there is. Raises OSError."""
    os.fchdir(target.root.fd)  # unshare() moves the working directory along
    namespaces.unshare(namespaces.CLONE_NEWNS, why="what follows changes no other process's mounts")
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    if target.owner != (0, 0):
        _unlock(target.rootfs)
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    why = "a device node of the image, at any path, cannot be opened"
    mounts.mount_setattr(here, _TREE, recursive=True, shown=target.rootfs, why=why)
    os.close(here)
    mounts.pivot_root(".", ".", why="every path of the image now ends inside the image")
    mounts.umount2(".", mounts.MNT_DETACH, why="the host's tree is gone")
    os.chdir("/")
    for path in hidden:
        mounts.mount("tmpfs", path, "tmpfs", _COVER, why="hide it")


def _unlock(path: str) -> None:
    """Mount the root upon itself: mounts of another user namespace are locked to their places.

    mount_namespaces(7), "Restrictions on mount namespaces"; a copy may be moved.
    """
    why = "a copy that is not locked to its place"
    mounts.mount(path, path, None, mounts.MS_BIND | mounts.MS_REC, why=why)
    os.chdir(path)


def _drop(owner: "tuple[int, int]") -> None:
    """Become the user who owns the files, with one capability: files may belong to others.

    Raises OSError.
    """
    process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
    _lock_securebits()
    if owner != (0, 0):
        process.prctl(process.PR_SET_KEEPCAPS, 1, why="the capability survives until capset")
        process.setgid(owner[1])
        process.setuid(owner[0])
    mask = 1 << _CAP_DAC_OVERRIDE
    process.capset(mask, mask, mask, why="only CAP_DAC_OVERRIDE is left")
    process.prctl(process.PR_CAP_AMBIENT, process.PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)
    if owner != (0, 0):
        process.prctl(process.PR_SET_PDEATHSIG, _SIGKILL, why="setuid has cleared it")


def _lock_securebits() -> None:
    """Let user 0 have no rights by its number: PR_SET_SECUREBITS(2const). Raises OSError."""
    shown = {"option": "PR_SET_SECUREBITS", "arg2": "|".join(_SECUREBITS)}
    raw = (_PR_SET_SECUREBITS, sum(_SECUREBITS.values()), 0, 0, 0)
    libc.logged("prctl", _prctl, raw, shown, None, "no capability comes back")


def _limit() -> None:
    """Lower the limits of this process, as far as they are not lower. Raises OSError."""
    for name, most in LIMITS:
        kind: int = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    why = "whatever the image has as configuration or library"
    events.emit("note", "ldconfig limited", dict(LIMITS), why=why)
