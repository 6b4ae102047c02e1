"""ldconfig in a container: the host's program on the image's files, with nothing of the image run.

It makes the SONAME links of the libraries just mounted and writes /etc/ld.so.cache, both in the
container's own layer. Real nvidia-container-cli (nvc_ldcache.c) opens the host's ldconfig first,
then runs it after a pivot into the container's root, in new pid and ipc namespaces, with /sys and
/dev hidden, and with limits. So does minirun, and more: the program must be static (its loader
would come from the image), it has no capability except CAP_DAC_OVERRIDE, it can open no device, and
it works in the container's cgroup. A process of uid 0 that executes a program regains every
capability of its bounding set. With SECBIT_NOROOT it does not, and uid 0 is a user like any other:
capabilities(7), "The securebits flags".

What this withstands: an image's own ldconfig is never executed (CVE-2024-0136, -0137); the host's
cannot be written to (CVE-2024-0135: it is held by a read-only descriptor and lives in no pid
namespace that the container sees); a link as ld.so.cache or ld.so.conf.d ends inside the pivoted
root (CVE-2025-23267); LD_PRELOAD means nothing to a static program with an empty environment; a
device node of the image (/dev/zero, a disk, a watchdog) cannot be opened; memory, processor
time and the size of files are limited; a FIFO as ld.so.conf only costs PATIENCE.
"""

from __future__ import annotations

import os
import resource
import select
import stat

from minirun.core import events
from minirun.core.errors import GPUError, from_os
from minirun.core.keeping.visible import clean, warn
from minirun.core.kernel import files, mounts, namespaces, process, signals
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import OwnRoot, has, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from minirun.gpu.target import Target

_HINT = 'choose another with ldconfig = "@PATH" in the nvidia toolkit\'s config.toml'
_PT_INTERP = 3
TIMEOUT = 20
"""Seconds; a large image on a cold disk takes some."""
PATIENCE = 5
"""Seconds. A program that reads and writes files never sleeps; one that sleeps waits for a FIFO."""
_SAID = 4096
_SHOWN = 500
"""Characters: what ldconfig prints may hold the content of any file of the image."""
_IMAGE = "something in /etc/ld.so.conf of the image"
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
_SECUREBITS = {"SECBIT_NOROOT": 0x1, "SECBIT_NOROOT_LOCKED": 0x2}
_NAME = "ldconfig"
_CACHE = "/etc/ld.so.cache"
_TREE = mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NOEXEC
_COVER = mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


def open_host(ldconfig: str) -> int:
    """Open the host's program that `@PATH` names; return -1, with a note, if there is none to run.

    On Ubuntu /sbin/ldconfig is a script and the program is ldconfig.real beside it.
    Raises GPUError for a program that would load code of the image.
    """
    if not ldconfig.startswith("@"):
        why = "the container's own ldconfig is code of the image: it is never run"
        events.emit("note", "ldconfig absent", {"ldconfig": ldconfig}, why=why)
        if ldconfig:
            warn(f"{ldconfig} is code of the image and is not run (@{ldconfig} is the host's)")
        return -1
    for path in (f"{ldconfig[1:]}.real", ldconfig[1:]):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if _is_static(fd):
            return fd
        os.close(fd)
        raise GPUError(f"ldconfig error: {path} is no static program", _HINT)
    why = "this host has none: the libraries get no SONAME links"
    events.emit("note", "ldconfig absent", {"ldconfig": ldconfig}, why=why)
    return -1


def _is_static(fd: int) -> bool:
    """Return True if this is an ELF program without PT_INTERP: elf(5)."""
    header = os.pread(fd, 4096, 0)
    offsets = {b"\x7fELF\x01": (28, 32, 42), b"\x7fELF\x02": (32, 40, 54)}.get(header[:5])
    if not stat.S_ISREG(os.fstat(fd).st_mode) or not offsets:
        return False
    first, end, at = offsets  # of e_phoff, whose width is the class's; of e_phentsize and e_phnum
    start = int.from_bytes(header[first:end], "little")
    size, count = (int.from_bytes(header[n : n + 2], "little") for n in (at, at + 2))
    kinds = (header[start + at * size : start + at * size + 4] for at in range(count))
    return all(int.from_bytes(kind, "little") != _PT_INTERP for kind in kinds)


def check(root: OwnRoot) -> None:
    """Raise MinirunError if the cache would be written to a folder of the host."""
    for path, flags in (("/etc", os.O_PATH), (_CACHE, os.O_PATH | os.O_NOFOLLOW)):
        try:
            fd = root.open(path, flags)
        except OSError:
            continue
        mount = root.of_host(fd)
        os.close(fd)
        if mount:
            raise refusal(_CACHE, mount.mount_point)


def run(target: Target, name: str, folders: tuple[str, ...]) -> None:
    """Run the target's ldconfig, called `name`, on its configuration and on `folders`.

    The program sees what is mounted there now, nothing that comes later. Raises OSError, and
    GPUError in the words of nvidia-container-cli if it fails, sleeps for PATIENCE or takes TIMEOUT.
    """
    _configuration(target.root)
    folder = os.O_PATH | os.O_DIRECTORY
    hidden = [path for path in ("/proc", "/sys", "/dev") if has(target.root, path, folder)]
    failure, failed = os.pipe2(os.O_CLOEXEC)
    said, output = os.pipe2(os.O_CLOEXEC)
    try:
        flags = namespaces.CLONE_NEWPID | namespaces.CLONE_NEWIPC
        why = "ldconfig reads files of the image: it sees no other process"
        try:
            clone3 = target.entrance.clone3 if target.entrance else namespaces.clone3
            pid, pidfd = clone3(flags, why=why)
            if pid == 0:
                _become(target, folders, hidden, output, failed)
        finally:
            os.close(failed)
            os.close(output)
        _wait(name, pid, pidfd, failure, said)
    finally:
        os.close(failure)
        os.close(said)


def _wait(name: str, pid: int, pidfd: int, failure: int, said: int) -> None:
    """Wait for the end of the process: `failure` and `said` are pipes from it.

    The first closes when the process has become ldconfig, or carries the reason why it could not;
    the second carries ldconfig's output.
    """
    text = None
    try:
        reason = _drain(failure, None if events.observer else TIMEOUT)
        text = _drain(said, TIMEOUT, pidfd) if reason == b"" else None
    finally:
        # If it has closed its output it is in exit_group(2), whose status no signal can change.
        signals.pidfd_send_signal(pidfd, signals.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(pidfd)
    if reason:
        raise GPUError(f"ldcache error: {_clean(reason)}")
    shown = _clean(text or b"")
    events.emit("note", "ldconfig ended", {"status": status, "said": shown})
    if text is None:
        what = f"it slept for {PATIENCE} s, or took longer than {TIMEOUT} s"
        raise GPUError(f"ldcache error: ldconfig did not end: {what}", f"{_IMAGE} blocks it")
    ended = f"ldcache error: process {name.lstrip('@')}"
    if status < 0:
        limits = f"{SECONDS} s of processor time, or the container's memory limit"
        what = f"{ended} terminated with signal {-status}"
        raise GPUError(what, f"{_IMAGE} needs more than {limits}")
    if status != 0:
        raise GPUError(f"{ended} failed with error code: {status}", f"it said: {shown}; {_HINT}")


def _configuration(root: Root) -> None:
    """Make /etc for the cache; an image of a single program, or of busybox, lacks more."""
    os.close(root.make_dir("/etc"))
    if not has(root, "/etc/ld.so.conf"):
        why = "the image has none: only the driver's and the standard folders are looked through"
        events.emit("note", "ld.so.conf absent", {"path": "/etc/ld.so.conf"}, why=why)


def _drain(fd: int, seconds: float | None, pidfd: int = -1) -> bytes | None:
    """Read from a pipe until its end; return the last bytes.

    None if that takes longer than `seconds`, or if the process `pidfd` sleeps for PATIENCE.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    start = awake = events.now()
    said = b""
    while seconds is None or events.now() < start + seconds * 1e9:
        if poll.poll(None if seconds is None else min(seconds, 1) * 1000):
            chunk = os.read(fd, _SAID)
            if not chunk:
                return said
            said = (said + chunk)[-_SAID:]
        if pidfd < 0 or not _sleeps(pidfd):
            awake = events.now()
        elif events.now() > awake + PATIENCE * 1e9:
            return None
    return None


def _sleeps(pidfd: int) -> bool:
    """Return True if the process is in state S (a wait for a disk is D): proc_pid_stat(5)."""
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:
            pid = int(file.read().partition(b"\nPid:")[2].split()[0])
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].startswith(b"S")
    except (OSError, IndexError, ValueError):
        return False  # it has ended, or this /proc does not show it


def _clean(said: bytes) -> str:
    """Return the end of a text as one line that a terminal can show."""
    return clean(" ".join(said.decode(errors="replace").split()))[-_SHOWN:]


# --- in the process that becomes ldconfig: all that it changes ends with it -----------------------


def _become(
    target: Target, folders: tuple[str, ...], hidden: list[str], output: int, failed: int
) -> NoReturn:
    """Become the target's ldconfig, which cannot see the folders `hidden`.

    It prints into `output`. If that fails, write the reason to the pipe `failed`.
    """
    try:
        events.become("cli", int(os.readlink("/proc/self")))  # the host's /proc: the pid out there
        why = "it does not outlive stage 5, which waits for it"
        process.prctl(process.PR_SET_PDEATHSIG, signals.SIGKILL, why=why)
        if target.entrance:
            target.entrance.join()
        _enter(target, hidden)
        for number in (0, 1, 2):
            os.dup2(output, number)
        _drop(target.owner)
        files.close_range_cloexec(3)
        argv = [_NAME, "-f", "/etc/ld.so.conf", "-C", _CACHE, *folders]
        _limit()
        process.execve(target.ldconfig, argv, {}, shown=_NAME, why="nothing of the image runs")
    except OSError as error:
        os.write(failed, from_os(error).line().encode(errors="replace"))
    finally:
        os._exit(1)


def _enter(target: Target, hidden: list[str]) -> None:
    """Make the container's root the only file system there is. Raises OSError."""
    os.fchdir(target.root.fd)  # unshare() moves the working directory along
    namespaces.unshare(namespaces.CLONE_NEWNS, why="what follows changes no other process's mounts")
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    if target.owner != (0, 0):
        _unlock(target.rootfs)
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    why = "a device node of the image, at any path, cannot be opened"
    mounts.mount_setattr(here, _TREE, recursive=True, shown=target.rootfs, why=why)
    for mount in target.root.host_mounts.values():
        _protect(here, mount.mount_point)
    os.close(here)
    mounts.pivot_root(".", ".", why="every path of the image now ends inside the image")
    mounts.umount2(".", mounts.MNT_DETACH, why="the host's tree is gone")
    os.chdir("/")
    for path in hidden:
        mounts.mount("tmpfs", path, "tmpfs", _COVER, why="hide it")


def _protect(root: int, path: str) -> None:
    """Make a mount of the host's files read-only for this process. Raises OSError."""
    try:
        resolve = files.RESOLVE_IN_ROOT | files.RESOLVE_NO_SYMLINKS
        fd = files.openat2(root, path.lstrip("/"), os.O_PATH, resolve)
    except OSError:
        return  # hidden by a later mount
    why = "the host's files: ldconfig makes no link among them"
    mounts.mount_setattr(fd, mounts.MOUNT_ATTR_RDONLY, shown=path, why=why)
    os.close(fd)


def _unlock(path: str) -> None:
    """Mount the root upon itself: a mount of another user namespace is locked to its place.

    mount_namespaces(7), "Restrictions on mount namespaces"; a copy may be moved.
    """
    why = "a copy that is not locked to its place"
    mounts.mount(path, path, None, mounts.MS_BIND | mounts.MS_REC, why=why)
    os.chdir(path)


def _drop(owner: tuple[int, int]) -> None:
    """Become the files' owner, with CAP_DAC_OVERRIDE for files of others. Raises OSError."""
    process.prctl(process.PR_SET_NO_NEW_PRIVS, 1)
    bits, names = sum(_SECUREBITS.values()), "|".join(_SECUREBITS)
    why = "no capability comes back"
    process.prctl(process.PR_SET_SECUREBITS, bits, shown=names, why=why)
    if owner != (0, 0):
        process.prctl(process.PR_SET_KEEPCAPS, 1, why="the capability survives until capset")
        process.setgid(owner[1])
        process.setuid(owner[0])
    mask = 1 << _CAP_DAC_OVERRIDE
    process.capset(mask, mask, mask, why="only CAP_DAC_OVERRIDE is left")
    process.prctl(process.PR_CAP_AMBIENT, process.PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)
    if owner != (0, 0):
        process.prctl(process.PR_SET_PDEATHSIG, signals.SIGKILL, why="setuid has cleared it")


def _limit() -> None:
    """Lower the limits of this process, as far as they are not lower. Raises OSError."""
    for name, most in LIMITS:
        kind: int = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    why = "whatever the image has as configuration or library"
    events.emit("note", "ldconfig limited", dict(LIMITS), why=why)
