"""Where a case runs: a memory cgroup, a time limit, a decoy tree, and a look at what is left.

Whatever a hostile input does, it does it below one memory limit: the runtime's processes and the
container's cgroup both lie in it. The caller becomes a subreaper, so that a process which outlives
its case is seen, and ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from minirun.core.keeping.record import Record
from minirun.core.kernel import mountinfo
from minirun.core.kernel.process import prctl
from minirun.core.rootfs import tree

LIMIT = 600 << 20
"""Bytes of memory that a case may use, with all its processes and files in memory."""
SECONDS = 20.0
MOST_LINES = 6
LONGEST_LINE = 600
_CGROUPS = Path("/sys/fs/cgroup")
_PR_SET_CHILD_SUBREAPER = 36
_SETTINGS = (
    "kernel/hostname", "kernel/domainname", "kernel/msgmax", "kernel/shmmax", "kernel/core_pattern",
    "kernel/panic", "net/ipv4/ip_forward", "net/ipv4/ping_group_range", "fs/mqueue/msg_max",
    "vm/overcommit_memory",
)  # fmt: skip
_CRASH = re.compile(
    r"Traceback|^  File \"|\b[A-Z]\w*(Error|Exception)\b|Fatal Python|object has no attribute"
    r"|codec can't|is not subscriptable|NoneType",
    re.MULTILINE,
)


class Outcome(Record):
    """What one command did: exit status, both its outputs, seconds, and its peak memory."""

    status: int
    stdout: str
    stderr: str
    seconds: float
    memory: int


def _cgroup_dirs(name: str) -> list[Path]:
    return [base / name for base in (_CGROUPS / "memory", _CGROUPS) if _memory_file(base)]


def _memory_file(base: Path) -> str:
    for file in ("memory.limit_in_bytes", "cgroup.controllers"):
        if (base / file).exists():
            return file
    return ""


class Cage:
    """Runs commands, and says what was wrong with what they did."""

    def __init__(self, folder: Path, program: list[str]) -> None:
        self.folder = folder
        self.program = program
        self.name = f"minirun-fuzz-{os.getpid()}"
        self.cgroup = next(iter(_cgroup_dirs(self.name)), None)
        if self.cgroup:
            self.cgroup.mkdir(exist_ok=True)
            self._limit("memory.limit_in_bytes", "memory.max")
        self.others = _children()  # engines of other tests, which live on
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self.decoy = Decoy(folder / "decoy")
        self.settings = _settings()

    def _limit(self, *names: str) -> None:
        for name in names:
            if self.cgroup and (self.cgroup / name).exists():
                (self.cgroup / name).write_text(str(LIMIT))

    def close(self) -> None:
        """End and remove everything of the cage."""
        self.reap()
        prctl(_PR_SET_CHILD_SUBREAPER, 0)
        for path in _below(self.name):
            with contextlib.suppress(OSError):
                path.rmdir()

    def run(self, *args: str, cwd: Path | None = None, seconds: float = SECONDS,
            env: dict[str, str] | None = None) -> Outcome:  # fmt: skip
        """Run the program with `args`; a command that takes too long is killed: status 124."""
        self._forget_peak()
        began = time.monotonic()
        process = subprocess.Popen(
            [*self.program, *args], cwd=cwd or self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=self._enter,
            env={"PATH": os.environ["PATH"], "HOME": "/root"} | (env or {}), start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=seconds)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            status = 124
        return Outcome(
            status, out.decode(errors="replace"), err.decode(errors="surrogateescape"),
            time.monotonic() - began, self._peak(),
        )  # fmt: skip

    def _enter(self) -> None:
        if self.cgroup:
            (self.cgroup / "cgroup.procs").write_text("0")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def _forget_peak(self) -> None:
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            with contextlib.suppress(OSError, AttributeError):
                (self.cgroup / name).write_text("0")  # type: ignore[operator]

    def _peak(self) -> int:
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            if self.cgroup and (self.cgroup / name).exists():
                return int((self.cgroup / name).read_text())
        return 0

    def faults(self, outcome: Outcome) -> list[str]:
        """What is wrong with how a command ended, or with what it left behind."""
        return [*self.manners(outcome), *self.left(), *self.harm()]

    def manners(self, outcome: Outcome) -> list[str]:
        """What is wrong with how a command ended: statuses, texts, time and memory."""
        return _manners(outcome)

    def harm(self) -> list[str]:
        """What of the host is not as it was."""
        changed = [f"the host's {k} changed" for k, v in _settings().items()
                   if v != self.settings[k]]  # fmt: skip
        return changed + self.decoy.changes()

    def left(self) -> list[str]:
        """What is left of a case: processes, mounts, cgroups. All of it is ended."""
        found = [f"process left: {each}" for each in self.reap()]
        mounts = [m.mount_point for m in mountinfo.read() if str(self.folder) in m.mount_point]
        for path in reversed(mounts):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)
        found += [f"mount left: {path}" for path in mounts]
        for path in _below(self.name):
            if path.name != self.name:
                found.append(f"cgroup left: {path}")
            if path != self.cgroup:
                with contextlib.suppress(OSError):
                    path.rmdir()
        return found

    def reap(self) -> list[str]:
        """End what has outlived its parent; return the names of those that still ran."""
        found = []
        for _ in range(100):
            pids = _children() - self.others
            if not pids:
                break
            for pid in pids:
                found += _end(pid)
        return found


def _children() -> set[int]:
    """The pids of this process's children."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in text.split()}


def _end(pid: int) -> list[str]:
    """Reap a child; one that runs after a second is killed, and named."""
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    for _ in range(100):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return []
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return [name]


def _below(name: str) -> Iterator[Path]:
    """The cgroups `name` of each hierarchy with what is below, innermost first."""
    for base in (_CGROUPS, *_CGROUPS.iterdir()):
        for top, _, _ in os.walk(base / name, topdown=False):
            yield Path(top)


def _settings() -> dict[str, str]:
    """What of this machine no container may change."""
    found = {name: Path("/proc/sys", name).read_text() for name in _SETTINGS}
    found["limits"] = Path("/proc/self/limits").read_text()
    found["cgroup"] = Path("/proc/self/cgroup").read_text()
    return found


def _manners(outcome: Outcome) -> list[str]:
    """What is wrong with how a command ended: statuses, texts, time and memory."""
    found = []
    lines = outcome.stderr.splitlines()
    if outcome.status == 124:
        found.append("it hangs")
    elif outcome.status < 0:
        found.append(f"killed by signal {-outcome.status}")
    if _CRASH.search(outcome.stderr):
        found.append("an exception of Python's")
    if len(lines) > MOST_LINES or any(len(line) > LONGEST_LINE for line in lines):
        found.append(f"{len(lines)} lines, the longest of {max(map(len, lines))}")
    if any((ord(sign) < 32 and sign != "\n") or 127 <= ord(sign) < 160 for sign in outcome.stderr):
        found.append("control characters on stderr")
    if outcome.memory > LIMIT * 0.98:
        found.append(f"{outcome.memory >> 20} MiB of memory")
    return found


class Decoy:
    """A tree that stands for the host: what hostile paths lead to, and nothing may change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("etc/ld.so.conf.d", "dev", "proc/self", "sys", "lib", "usr/lib", "root", "bin",
                     "var/lib", "tmp", "deep/a/b/c"):  # fmt: skip
            (path / name).mkdir(parents=True)
        for name in ("secret", "etc/passwd", "etc/group", "etc/hosts", "etc/ld.so.conf",
                     "etc/ld.so.cache", "etc/resolv.conf", "etc/mtab", "dev/console", "dev/shm",
                     "proc/self/attr", "lib/libc.so.6", "root/.ssh", "etc/hostname"):  # fmt: skip
            (path / name).write_text(f"the host's own {name}\n")
        for name, minor in (("dev/null", 3), ("dev/zero", 5), ("dev/full", 7)):
            os.mknod(path / name, stat.S_IFCHR | 0o600, os.makedev(1, minor))
        os.mkfifo(path / "fifo", 0o600)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path / "socket"))
        listener.close()
        os.link(path / "secret", path / "hard")
        (path / "secret").chmod(0o400)
        (path / "link").symlink_to("secret")
        shutil.copy("/bin/busybox", path / "bin/busybox")
        (path / "bin/busybox").chmod(0o4755)
        os.setxattr(path / "etc/passwd", "trusted.decoy", b"1")
        self.before = self._look()

    def _look(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for top, folders, files in os.walk(self.path):
            for name in (".", *folders, *files):
                path = Path(top, name)
                info = path.lstat()
                content = path.read_bytes() if stat.S_ISREG(info.st_mode) and info.st_size < 99 \
                    else b""  # fmt: skip
                marks = os.listxattr(path, follow_symlinks=False)
                found[str(path.relative_to(self.path))] = (
                    info.st_ino, info.st_dev, info.st_mode, info.st_uid, info.st_gid, info.st_size,
                    info.st_rdev, info.st_nlink, info.st_mtime_ns, info.st_ctime_ns, content, marks,
                )  # fmt: skip
        return found

    def changes(self) -> list[str]:
        """What is not as it was; it is told once."""
        now, before = self._look(), self.before
        self.before = now
        names = now.keys() | before.keys()
        return [f"decoy changed: {n}: {before.get(n)} → {now.get(n)}" for n in sorted(names)
                if now.get(n) != before.get(n)]  # fmt: skip


def small_root(path: Path) -> Path:
    """A root filesystem with busybox, two users, and the usual empty folders."""
    for name in ("bin", "dev", "proc", "sys", "etc", "tmp", "root", "usr/lib", "lib", "run"):
        (path / name).mkdir(parents=True)
    os.link(_busybox(path.parent), path / "bin/busybox")
    for name in ("sh", "true", "cat", "id", "ls", "sleep", "head", "tail"):
        (path / "bin" / name).symlink_to("busybox")
    (path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home:\n")
    (path / "etc/group").write_text("root:x:0:\nann:x:1000:\nwheel:x:10:ann\n")
    return path


def _busybox(folder: Path) -> Path:
    path = folder / ".busybox"
    if not path.exists():
        shutil.copy("/bin/busybox", path)
    return path


def remove(path: Path) -> None:
    """Remove a tree that a case has spoilt; never across a mount."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        tree.remove_tree(str(path))
