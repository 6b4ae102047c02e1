"""ldconfig in a container: the host's program on the image's files, with nothing of the image run.

It makes the SONAME links of the libraries just mounted and writes /etc/ld.so.cache, both in the
container's own layer. Real nvidia-container-cli (nvc_ldcache.c) opens the host's ldconfig first,
then runs it after a pivot into the container's root, in new pid and ipc namespaces, with /sys and
/dev hidden. So does minirun, with two things more: the program must be static (its loader would
come from the image: minirun.gpu.ldprogram), and it has no capability except CAP_DAC_OVERRIDE.

What this withstands: an image's own ldconfig is never executed (CVE-2024-0136, -0137); the host's
cannot be written to (CVE-2024-0135: it is held by a read-only descriptor and lives in no pid
namespace that the container sees); a link as ld.so.cache or ld.so.conf.d ends inside the pivoted
root (CVE-2025-23267); LD_PRELOAD means nothing to a static program with an empty environment; a
FIFO as ld.so.conf only costs TIMEOUT.
"""

import os
import select

from minirun import events
from minirun.errors import GPUError
from minirun.gpu.ldprogram import HINT
from minirun.gpu.owner import ROOT, Owner
from minirun.kernel import mounts, namespaces, process, steps, vfork
from minirun.kernel.securebits import SECBIT_NOROOT, SECBIT_NOROOT_LOCKED
from minirun.record import Record
from minirun.rootfs.inroot import Root

TIMEOUT = 20
"""Seconds; a large image on a cold disk takes some."""
_CAP_DAC_OVERRIDE = 1
_SIGKILL = 9
_SAID = 4096
_NAME = "ldconfig"
_HIDDEN = ("/proc", "/sys", "/dev")
_COVER = mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


class Running(Record):
    """ldconfig at work: its process, and the pipe that it writes to."""

    pid: int
    pidfd: int
    said: int

    def finish(self) -> None:
        """Wait for its end. Raises GPUError where it failed or took longer than TIMEOUT."""
        text, ended = "", False
        try:
            text, ended = _drain(self.said)
        finally:
            status = self.stop()
        events.emit("note", "ldconfig ended", {"status": status, "said": text})
        if not ended:
            hint = "something in /etc/ld.so.conf of the image blocks it"
            raise GPUError(f"ldconfig took longer than {TIMEOUT} s", hint)
        if status != 0:
            raise GPUError(f"ldconfig failed with error code: {status}: {text}", HINT)

    def stop(self) -> int:
        """Kill it, unless it has ended by itself; return its exit status."""
        # Where it has closed its output it is in exit_group(2), whose status no signal can change.
        process.pidfd_send_signal(self.pidfd, _SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.pidfd)
        os.close(self.said)
        return status


def start(
    fd: int, root: Root, folders: "tuple[str, ...]", owner: Owner = ROOT, path: str = ""
) -> Running:
    """Start the program `fd` in the container's root on its configuration and on `folders`.

    It writes as `owner`. Where that is not user 0, `path` is the root's in this mount namespace.

    The caller is in the container's mount namespace, before pivot_root. The program sees what is
    mounted there now, nothing that comes later. Raises OSError.
    """
    _configuration(root)
    argv = [_NAME, "-f", "/etc/ld.so.conf", "-C", "/etc/ld.so.cache", *folders]
    said, write_fd = os.pipe2(os.O_CLOEXEC)
    try:
        flags = namespaces.CLONE_NEWPID | namespaces.CLONE_NEWIPC
        why = "ldconfig reads files of the image: it sees nobody"
        todo = _steps(fd, root, argv, write_fd, owner, path)
        pid, pidfd = vfork.spawn(flags, todo, actor="cli", why=why)
    except OSError:
        os.close(said)
        raise
    finally:
        os.close(write_fd)
    return Running(pid, pidfd, said)


def _configuration(root: Root) -> None:
    """Make /etc for the cache; an image of a single program, or of busybox, lacks more."""
    os.close(root.make_dir("/etc"))
    try:
        os.close(root.open("/etc/ld.so.conf"))
    except OSError:
        why = "the image has none: only the driver's and the standard folders are looked through"
        events.emit("note", "ld.so.conf absent", {"path": "/etc/ld.so.conf"}, why=why)


def _drain(fd: int) -> "tuple[str, bool]":
    """Read what the child says until it ends; return (the end of that, True if it did end)."""
    deadline = events.now() + TIMEOUT * 1_000_000_000
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    said = b""
    while poll.poll(max(0, deadline - events.now()) // 1_000_000):
        chunk = os.read(fd, _SAID)
        if not chunk:
            return " ".join(said.decode(errors="replace").split()), True
        said = (said + chunk)[-_SAID:]
    return "", False


def _steps(
    fd: int, root: Root, argv: "list[str]", said: int, owner: Owner, path: str
) -> "list[vfork.Step]":
    """Return what the child does to become ldconfig, alone with the container's root."""
    return [
        *steps.leave_processor(),  # what is left of stage 5 is done meanwhile
        steps.prctl(process.PR_SET_PDEATHSIG, _SIGKILL, why="nobody waits for it then"),
        *(steps.dup3(said, number) for number in (0, 1, 2)),
        # the container's root becomes the only file system there is
        steps.fchdir(root.fd),  # unshare() moves the working directory along
        steps.unshare(namespaces.CLONE_NEWNS, why="what follows is seen by nobody else"),
        steps.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE),
        *([] if owner.is_root else _unlock(path)),
        steps.pivot_root(".", ".", why="every path of the image now ends inside the image"),
        steps.umount2(".", mounts.MNT_DETACH, why="the host's tree is gone"),
        steps.chdir("/"),
        *(steps.mount("tmpfs", path, "tmpfs", _COVER, why="hide it") for path in _to_hide(root)),
        # the user who owns the files, and one capability: files may belong to others
        steps.prctl(process.PR_SET_NO_NEW_PRIVS, 1),
        steps.set_securebits(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, why="no capability comes back"),
        *_become(owner),
        steps.capset(1 << _CAP_DAC_OVERRIDE, why="only CAP_DAC_OVERRIDE is left"),
        steps.prctl(process.PR_CAP_AMBIENT, process.PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE),
        steps.close_range_cloexec(3),
        steps.execveat(fd, argv, shown=_NAME, why="nothing of the image runs"),
    ]


def _unlock(path: str) -> "list[vfork.Step]":
    """Mount the root upon itself: mounts of another user namespace are locked to their places.

    mount_namespaces(7), "Restrictions on mount namespaces"; a copy may be moved.
    """
    why = "a copy that is not locked to its place"
    flags = mounts.MS_BIND | mounts.MS_REC
    return [steps.mount(path, path, None, flags, why=why), steps.chdir(path)]


def _become(owner: Owner) -> "list[vfork.Step]":
    if owner.is_root:
        return []
    why = "the capability survives until capset"
    keep = steps.prctl(process.PR_SET_KEEPCAPS, 1, why=why)
    return [keep, steps.setgid(owner.gid), steps.setuid(owner.uid)]


def _to_hide(root: Root) -> "list[str]":
    """Return which of /proc, /sys and /dev the container has; nothing changes them meanwhile."""
    found = []
    for path in _HIDDEN:
        try:
            os.close(root.open(path, os.O_PATH | os.O_DIRECTORY))
        except OSError:
            continue  # not there, or not a folder: nothing to hide
        found.append(path)
    return found
