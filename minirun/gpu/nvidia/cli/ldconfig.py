"""ldconfig in a container: the host's program on the image's files, with nothing of the image run.

It makes the SONAME links of the libraries just mounted and writes /etc/ld.so.cache, both in the
container's own layer. Real nvidia-container-cli (nvc_ldcache.c) opens the host's ldconfig first,
then runs it after a pivot into the container's root, in new pid and ipc namespaces, with /sys and
/dev hidden, and with limits. So does minirun (minirun.gpu.nvidia.cli.ldchild), and more: the
program must be static (its loader would come from the image: minirun.gpu.nvidia.cli.ldprogram), it
has no capability except CAP_DAC_OVERRIDE, it can open no device, and it works in the container's
cgroup.

What this withstands: an image's own ldconfig is never executed (CVE-2024-0136, -0137); the host's
cannot be written to (CVE-2024-0135: it is held by a read-only descriptor and lives in no pid
namespace that the container sees); a link as ld.so.cache or ld.so.conf.d ends inside the pivoted
root (CVE-2025-23267); LD_PRELOAD means nothing to a static program with an empty environment; a
device node of the image cannot be opened, be it /dev/zero, a disk or a watchdog; memory, processor
time and the size of files are limited; a FIFO as ld.so.conf only costs PATIENCE.
"""

import os
import select

from minirun.core import events
from minirun.core.errors import GPUError
from minirun.core.kernel import namespaces, process
from minirun.core.record import Record
from minirun.core.rootfs.inroot import Root
from minirun.core.visible import clean
from minirun.gpu.nvidia.cli import ldchild
from minirun.gpu.nvidia.cli.ldprogram import HINT
from minirun.gpu.owner import ROOT, Owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT = 20
"""Seconds; a large image on a cold disk takes some."""
PATIENCE = 5
"""Seconds. A program that reads and writes files never sleeps; one that sleeps waits for a FIFO."""
_SIGKILL = 9
_SAID = 4096
_SHOWN = 500
"""Characters: what ldconfig prints may hold the content of any file of the image."""
_IMAGE = "something in /etc/ld.so.conf of the image"


class Running(Record):
    """ldconfig at work: its process, and two pipes that it holds.

    `failure` ends when the process is ldconfig; it brings the reason where that cannot be. `said`
    brings what ldconfig prints.
    """

    pid: int
    pidfd: int
    failure: int
    said: int

    def finish(self) -> None:
        """Wait for its end. Raises GPUError if it failed, slept for PATIENCE or took TIMEOUT."""
        failure = said = None
        try:
            failure = _drain(self.failure, None if events.observer else TIMEOUT)
            said = _drain(self.said, TIMEOUT, self.pidfd) if failure == b"" else None
        finally:
            status = self.stop()
        if failure:
            raise GPUError(_clean(failure))
        text = _clean(said or b"")
        events.emit("note", "ldconfig ended", {"status": status, "said": text})
        if said is None:
            text = f"it slept for {PATIENCE} s, or took longer than {TIMEOUT} s"
            raise GPUError(f"ldconfig did not end: {text}", f"{_IMAGE} blocks it")
        if status < 0:
            limits = f"{ldchild.SECONDS} s of processor time, or the container's memory limit"
            hint = f"{_IMAGE} needs more than {limits}"
            raise GPUError(f"ldconfig was killed by signal {-status}", hint)
        if status != 0:
            raise GPUError(f"ldconfig failed with error code: {status}: {text}", HINT)

    def stop(self) -> int:
        """Kill it, unless it has ended by itself; return its exit status, -n for signal n."""
        # If it has closed its output it is in exit_group(2), whose status no signal can change.
        process.pidfd_send_signal(self.pidfd, _SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        for fd in (self.pidfd, self.failure, self.said):
            os.close(fd)
        return status


def start(
    fd: int,
    root: Root,
    folders: "tuple[str, ...]",
    owner: Owner = ROOT,
    path: str = "",
    join: "Callable[[], None] | None" = None,
) -> Running:
    """Start the program `fd` in the container's root on its configuration and on `folders`.

    It writes as `owner`. Where that is not user 0, `path` is the root's in this mount namespace.
    Its process calls `join` first, which moves it into the container's cgroups.

    The caller is in the container's mount namespace, before pivot_root. The program sees what is
    mounted there now, nothing that comes later. Raises OSError.
    """
    _configuration(root)
    place = ldchild.LdconfigPlace(root, _to_hide(root), owner, path, join)
    failure, failed = os.pipe2(os.O_CLOEXEC)
    said, output = os.pipe2(os.O_CLOEXEC)
    try:
        flags = namespaces.CLONE_NEWPID | namespaces.CLONE_NEWIPC
        why = "ldconfig reads files of the image: it sees no other process"
        pid, pidfd = namespaces.clone3(flags, why=why)
        if pid == 0:
            ldchild.become(fd, folders, place, output, failed)
    except OSError:
        os.close(failure)
        os.close(said)
        raise
    finally:
        os.close(failed)
        os.close(output)
    return Running(pid, pidfd, failure, said)


def _configuration(root: Root) -> None:
    """Make /etc for the cache; an image of a single program, or of busybox, lacks more."""
    os.close(root.make_dir("/etc"))
    try:
        os.close(root.open("/etc/ld.so.conf"))
    except OSError:
        why = "the image has none: only the driver's and the standard folders are looked through"
        events.emit("note", "ld.so.conf absent", {"path": "/etc/ld.so.conf"}, why=why)


def _to_hide(root: Root) -> "tuple[str, ...]":
    """Return which of /proc, /sys and /dev the container has; nothing changes them meanwhile."""
    found = []
    for path in ("/proc", "/sys", "/dev"):
        try:
            os.close(root.open(path, os.O_PATH | os.O_DIRECTORY))
        except OSError:
            continue  # not there, or not a folder: nothing to hide
        found.append(path)
    return tuple(found)


def _drain(fd: int, seconds: "float | None", pidfd: int = -1) -> "bytes | None":
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
    """Return True if the process waits for something else than a disk: proc_pid_stat(5), state."""
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
