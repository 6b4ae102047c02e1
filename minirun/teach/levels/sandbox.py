"""Where a learner's program is tried: namespaces and limits of its own, which end with it.

    mounts     the host's files, but read-only; /run and /tmp take what is written, and go
    pid        a process that the program leaves ends with process 1 of the sandbox
    network    lo, and nothing else
    cgroup     /sys/fs/cgroup has the sandbox's own cgroup as its root, with limits

Mounts are shared inside, as systemd has them on a host: a program that does not keep its mounts to
itself is seen. What the man pages say: pid_namespaces(7), cgroup_namespaces(7),
mount_namespaces(7).
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from minirun import net
from minirun.core.errors import MinirunError
from minirun.core.kernel import mountinfo, mounts, namespaces, process

RUN = Path("/run")
PROC = RUN / "proc"
"""A /proc that no program under test covers with its own."""
CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("devices", "memory", "pids", "cpu")
_MEMORY, _PROCESSES = 1 << 30, 256
"""The most that everything in a sandbox may use: bytes and processes."""
_NAME = "minirun-level-"
"""What the names of the sandboxes' cgroups begin with."""
_NAMESPACES = (
    namespaces.CLONE_NEWNS | namespaces.CLONE_NEWPID | namespaces.CLONE_NEWNET
    | namespaces.CLONE_NEWIPC | namespaces.CLONE_NEWUTS
)  # fmt: skip
_ENDING_SECONDS = 10.0
_PACKAGES = {"ip": "iproute2"}
"""Program that a check calls → Debian's package, if it has another name."""


def run(work: Callable[[], dict[str, str]], seconds: float) -> dict[str, str]:
    """Call `work` as process 1 of a new sandbox, and return what it returned.

    Raises MinirunError if it takes longer than `seconds` or dies, OSError.
    """
    with ExitStack() as undone:
        cgroups = _make_cgroups(undone)
        read_fd, write_fd = os.pipe()
        undone.callback(os.close, read_fd)
        go_read, go_write = os.pipe()
        undone.callback(os.close, go_write)
        pid, pidfd = namespaces.clone3(_NAMESPACES)
        if pid == 0:
            process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(go_write)
            if os.read(go_read, 1):  # else the caller has died, and nothing will kill this process
                _inside(work, write_fd)
            os._exit(1)
        undone.callback(_kill, pid, pidfd)
        os.close(write_fd)
        os.close(go_read)
        for cgroup in cgroups:
            (cgroup / "cgroup.procs").write_text(str(pid))
        os.write(go_write, b"\n")
        answer = _read_all(read_fd, seconds)
    if not answer:
        raise MinirunError("the sandbox ended before the check did", "run it once more")
    found: dict[str, str] = json.loads(answer)
    if "missing" in found:
        name = found["missing"]
        hint = f"apt-get install {_PACKAGES.get(name, name)}"
        raise MinirunError(f"this check needs {name}, which is not installed", hint)
    if "crash" in found:
        raise MinirunError(f"the check itself failed: {found['crash']}")
    return found


def _kill(pid: int, pidfd: int) -> None:
    """Kill process 1 of a sandbox, and with it all others."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(pidfd)


def _read_all(fd: int, seconds: float) -> bytes:
    """Read until the end. Raises MinirunError if that has not come after `seconds`."""
    answer = b""
    end = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
        if not ready:
            raise MinirunError(f"the check did not end within {seconds:.0f} seconds")
        chunk = os.read(fd, 65536)
        if not chunk:
            return answer
        answer += chunk


def _inside(work: Callable[[], dict[str, str]], write_fd: int) -> None:
    """Be process 1 of the sandbox: build it, do the work, write what came of it. Never returns."""
    try:
        namespaces.unshare(namespaces.CLONE_NEWCGROUP)
        _make_files()
        answer = work()
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, FileNotFoundError) and "/" not in str(error.filename):
            answer = {"missing": str(error.filename)}
        else:
            name = f"{where.name}, line {where.lineno}"
            answer = {"crash": f"{type(error).__name__}: {error} ({name})"}
    os.write(write_fd, json.dumps(answer).encode())
    os._exit(0)


def _make_files() -> None:
    """Make the sandbox's view of files. Raises OSError."""
    here = mountinfo.read()
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    mounts.mount_setattr(root, mounts.MOUNT_ATTR_RDONLY, recursive=True)
    os.close(root)
    mounts.mount("proc", "/proc", "proc", mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC)
    mounts.mount("sandbox", str(RUN), "tmpfs", mounts.MS_NOSUID | mounts.MS_NODEV, "mode=755")
    _cover("/tmp")
    _mount_cgroups([mount for mount in here if mount.fs_type in ("cgroup", "cgroup2")])
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_SHARED)
    PROC.mkdir()
    mounts.mount("proc", str(PROC), "proc", mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC)
    mounts.mount(None, str(PROC), None, mounts.MS_PRIVATE)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")  # as on a host that is no router
    process.sethostname("sandbox")
    net.set_up("lo")


def _cover(path: str) -> None:
    """Mount an overlay over a directory: what is there can be read, what is written goes away."""
    top = RUN / "covered"
    for name in ("upper", "work"):
        (top / name).mkdir(parents=True, exist_ok=True)
    (top / "upper").chmod(os.stat(path).st_mode & 0o7777)
    data = f"lowerdir={path},upperdir={top}/upper,workdir={top}/work"
    try:
        mounts.mount("sandbox", path, "overlay", 0, data)
    except OSError:  # it is an overlay of too many already
        mounts.mount("sandbox", path, "tmpfs", 0, "mode=1777")


def _mount_cgroups(hierarchies: list[mountinfo.Mount]) -> None:
    """Mount the cgroup trees anew: in this cgroup namespace their root is the sandbox's cgroup."""
    trees = {tree for one in hierarchies if (tree := _tree(one))}
    # A file system is never mounted on itself (EBUSY), and the host's cgroup2 may lie here.
    mounts.mount("sandbox", str(CGROUPS), "tmpfs", 0, "mode=755")
    if not any(trees):
        mounts.mount("cgroup2", str(CGROUPS), "cgroup2")
        (CGROUPS / "check").mkdir()  # a cgroup with processes can hand no controller on
        (CGROUPS / "check/cgroup.procs").write_text("0")
        return
    for tree in sorted(filter(None, trees)):
        (CGROUPS / tree).mkdir()
        mounts.mount("cgroup", str(CGROUPS / tree), "cgroup", 0, tree)
        for part in tree.split(","):
            if part != tree:
                (CGROUPS / part).symlink_to(tree)


def _tree(mount: mountinfo.Mount) -> str:
    """Return the controllers of a tree of version 1 that a container may need; else ""."""
    names = [name for name in mount.super_options.split(",") if name not in ("rw", "ro", "xattr")]
    return ",".join(names) if mount.fs_type == "cgroup" and set(names) & {*CONTROLLERS} else ""


def _make_cgroups(undone: ExitStack) -> list[Path]:
    """Make the sandbox's cgroup in each tree, with its limits; `undone` removes it. Raises OSError.

    It is locked while its sandbox lives: one without a lock was left by a check that was killed.
    """
    made = []
    for mount in mountinfo.read(fs_type="cgroup"):
        if mount.fs_type == "cgroup2" or _tree(mount):
            for other in Path(mount.mount_point).glob(f"{_NAME}*"):
                _remove_if_left(other)
            if mount.fs_type == "cgroup2":
                _hand_down(Path(mount.mount_point))
            cgroup = Path(mount.mount_point, f"{_NAME}{os.getpid()}")
            fd = _make_locked(cgroup)
            undone.callback(os.close, fd)
            undone.callback(_remove, cgroup)
            made.append(cgroup)
            for file, most in (
                ("memory.limit_in_bytes", _MEMORY), ("memory.max", _MEMORY),
                ("pids.max", _PROCESSES),
            ):  # fmt: skip
                if (cgroup / file).exists():
                    (cgroup / file).write_text(str(most))
    return made


def _hand_down(root: Path) -> None:
    """Let the cgroups below version 2's root have the controllers, as far as they exist."""
    there = (root / "cgroup.controllers").read_text().split()
    names = [f"+{name}" for name in CONTROLLERS if name in there]
    with suppress(OSError):  # EBUSY below a container's root: a check that needs one says so
        (root / "cgroup.subtree_control").write_text(" ".join(names))


def _make_locked(cgroup: Path) -> int:
    """Make a cgroup and lock it; return the descriptor that has the lock. Raises OSError.

    Until it is locked another check may take it for one that was left, and remove it: once more.
    """
    while True:
        cgroup.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(fd, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.stat(cgroup)):
                    return fd
            os.close(fd)


def _remove_if_left(cgroup: Path) -> None:
    """Remove the cgroup of a sandbox whose check was killed. Raises OSError."""
    try:
        fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(cgroup)
    except BlockingIOError:
        pass  # its sandbox lives
    finally:
        os.close(fd)


def _remove(cgroup: Path) -> None:
    """Remove a cgroup with all below it, whose processes have been killed."""
    end = time.monotonic() + _ENDING_SECONDS
    for folder, _, _ in os.walk(cgroup, topdown=False):
        while True:
            try:
                os.rmdir(folder)
                break
            except FileNotFoundError:
                break
            except OSError:  # EBUSY: a killed process has not gone yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
