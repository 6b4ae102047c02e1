"""The process that becomes ldconfig: alone with the container's root, and with little of anything.

In order: the container's cgroup; a mount namespace of its own, in which no device node can be
opened (MOUNT_ATTR_NODEV on every mount); pivot_root into the container; no capability but one;
limits. All of that is this process's alone, and goes with it.
"""

import os
import resource

from minirun.core import events
from minirun.core.errors import from_os
from minirun.core.kernel import files, mounts, namespaces, process
from minirun.core.record import Record
from minirun.core.rootfs.inroot import Root
from minirun.gpu.nvidia.cli.securebits import SECBIT_NOROOT, SECBIT_NOROOT_LOCKED, set_securebits
from minirun.gpu.owner import Owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

SECONDS = 10
"""Processor time."""
LIMITS = (
    ("RLIMIT_CPU", SECONDS),
    ("RLIMIT_DATA", 256 << 20),
    ("RLIMIT_AS", 4 << 30),
    ("RLIMIT_FSIZE", 64 << 20),
    ("RLIMIT_NOFILE", 256),
    ("RLIMIT_CORE", 0),
)
"""Seconds, bytes, descriptors. RLIMIT_DATA is what memory can be taken; RLIMIT_AS also counts the
library that is being read, which is mapped as a whole and may have some GiB. A configuration that
includes itself goes as deep as there are descriptors. nvidia-container-cli has 10 s, 2 GiB of
addresses, files of 1 MiB, 64 descriptors, and no limit of the memory itself."""
_CAP_DAC_OVERRIDE = 1
_SIGKILL = 9
_NAME = "ldconfig"
_TREE = mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NOEXEC
_COVER = mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


class LdconfigPlace(Record):
    """Where ldconfig works.

    `hidden` are folders to cover; `path` is that of `root` in this mount namespace; `join` moves
    the caller into the container's cgroups.
    """

    root: Root
    hidden: "tuple[str, ...]"
    owner: Owner
    path: str
    join: "Callable[[], None] | None"


def become(
    fd: int, folders: "tuple[str, ...]", place: LdconfigPlace, output: int, failed: int
) -> "NoReturn":
    """Become the program `fd`; write to the pipe `failed` why that cannot be."""
    try:
        events.become("cli", int(os.readlink("/proc/self")))  # the host's /proc: the pid out there
        why = "it does not outlive stage 5, which waits for it"
        process.prctl(process.PR_SET_PDEATHSIG, _SIGKILL, why=why)
        if place.join:
            place.join()
        _enter(place)
        for number in (0, 1, 2):
            os.dup2(output, number)
        _drop(place.owner)
        files.close_range_cloexec(3)
        argv = [_NAME, "-f", "/etc/ld.so.conf", "-C", "/etc/ld.so.cache", *folders]
        _limit()
        process.execve(fd, argv, {}, shown=_NAME, why="nothing of the image runs")
    except OSError as error:
        os.write(failed, from_os(error).line().encode(errors="replace"))
    finally:
        os._exit(1)


def _enter(place: LdconfigPlace) -> None:
    """Make the container's root the only file system there is. Raises OSError."""
    os.fchdir(place.root.fd)  # unshare() moves the working directory along
    namespaces.unshare(namespaces.CLONE_NEWNS, why="what follows changes no other process's mounts")
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    if not place.owner.is_root:
        _unlock(place.path)
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    why = "a device node of the image, at any path, cannot be opened"
    mounts.mount_setattr(here, _TREE, recursive=True, shown=place.path, why=why)
    os.close(here)
    mounts.pivot_root(".", ".", why="every path of the image now ends inside the image")
    mounts.umount2(".", mounts.MNT_DETACH, why="the host's tree is gone")
    os.chdir("/")
    for path in place.hidden:
        mounts.mount("tmpfs", path, "tmpfs", _COVER, why="hide it")


def _unlock(path: str) -> None:
    """Mount the root upon itself: mounts of another user namespace are locked to their places.

    mount_namespaces(7), "Restrictions on mount namespaces"; a copy may be moved.
    """
    why = "a copy that is not locked to its place"
    mounts.mount(path, path, None, mounts.MS_BIND | mounts.MS_REC, why=why)
    os.chdir(path)


def _drop(owner: Owner) -> None:
    """Become the user who owns the files, with one capability: files may belong to others.

    Raises OSError.
    """
    process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
    set_securebits(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, why="no capability comes back")
    if not owner.is_root:
        process.prctl(process.PR_SET_KEEPCAPS, 1, why="the capability survives until capset")
        process.setgid(owner.gid)
        process.setuid(owner.uid)
    mask = 1 << _CAP_DAC_OVERRIDE
    process.capset(mask, mask, mask, why="only CAP_DAC_OVERRIDE is left")
    process.prctl(process.PR_CAP_AMBIENT, process.PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)
    if not owner.is_root:
        process.prctl(process.PR_SET_PDEATHSIG, _SIGKILL, why="setuid has cleared it")


def _limit() -> None:
    """Lower the limits of this process, as far as they are not lower. Raises OSError."""
    for name, most in LIMITS:
        kind: int = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    why = "whatever the image has as configuration or library"
    events.emit("note", "ldconfig limited", dict(LIMITS), why=why)
