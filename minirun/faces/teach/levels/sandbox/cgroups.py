"""The cgroups of a sandbox: one in every tree that the kernel has, with limits.

A tree in which the sandbox had none could be mounted there, and changed, as a whole.

    minirun-level-PID/          locked while the check lives
        keeper/                 the keeper: beyond the limits
        limited/                has the limits, which the sandbox does not see
            inside/             the root of the tree in the sandbox: cgroup_namespaces(7)
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from minirun.cgroups import hierarchies
from minirun.common.waiting import until
from minirun.core.kernel import mounts
from minirun.faces.teach.levels.sandbox import sysctls

MEMORY, _PROCESSES = 1 << 30, 256
"""The most that everything in a sandbox may use: bytes, files of its tmpfs included; processes."""
_NAME = "minirun-level-"
_KEEPER, _LIMITED, _INSIDE = "keeper", "limited", "inside"
_CONTROLLERS = ("memory", "pids", "cpu")
_ENDING_SECONDS = 10.0


class SandboxCgroups(NamedTuple):
    """The cgroups of one sandbox."""

    path: str
    """The container's path in each tree that is mounted: there `minirun run` makes it."""
    keepers: list[Path]
    """The keeper's, one in each tree."""
    unseen: list[int]
    """Descriptors of cgroup.procs in the trees that are not mounted: one for each."""

    def enter_keeper(self, pid: int) -> None:
        """Move the keeper there. Raises OSError."""
        for cgroup in self.keepers:
            (cgroup / "cgroup.procs").write_text(str(pid))

    def enter_unseen(self) -> None:
        """Limit this process in the trees that `minirun run` does not see. Raises OSError."""
        for fd in self.unseen:
            os.write(fd, b"0")


def make(undone: ExitStack) -> SandboxCgroups:
    """Make the cgroups of a sandbox of this process; `undone` removes them. Raises OSError.

    One without a lock was left by a check that was killed: it is removed.
    """
    name = f"{_NAME}{os.getpid()}"
    own = SandboxCgroups(f"/{name}/{_LIMITED}/{_INSIDE}", [], [])
    for tree in _trees(undone):
        top = Path(tree.path)
        for other in top.glob(f"{_NAME}*"):
            _remove_if_left(other)
        cgroup = top / name
        fd = _make_locked(cgroup)
        undone.callback(os.close, fd)
        undone.callback(_remove, cgroup)
        keeper, limited = cgroup / _KEEPER, cgroup / _LIMITED
        if tree.version == 2:
            sysctls.protect(cgroup)
            for each in (top, cgroup):
                _hand_down(each)
        for each in (cgroup, keeper, limited):
            each.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):  # empty in a new cgroup of version 1
                if "cpuset" in tree.names:
                    (each / file).write_text((top / file).read_text())
        for file, most in (
            ("memory.limit_in_bytes", MEMORY), ("memory.max", MEMORY), ("pids.max", _PROCESSES)
        ):  # fmt: skip
            if (limited / file).exists():
                (limited / file).write_text(str(most))
        if tree.path.startswith("/proc/"):
            own.unseen.append(os.open(limited / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
            undone.callback(os.close, own.unseen[-1])
        own.keepers.append(keeper)
    return own


def _trees(undone: ExitStack) -> list[hierarchies.Hierarchy]:
    """Return all trees of cgroups that the kernel has, version 2's among them. Raises OSError.

    One that is not mounted in this mount namespace is mounted out of sight: a learner's program
    could mount it, too.
    """
    trees = hierarchies.mounted()
    known = {tree.names for tree in trees}
    for controllers in {"", *hierarchies.paths_of("self")}:
        names = tuple(controllers.split(",")) if controllers else ()
        if names not in known:
            named = {"none": "", "name": names[0][5:]} if controllers.startswith("name=") else {}
            options = named or dict.fromkeys(names, "")
            fd = mounts.new_filesystem("cgroup" if names else "cgroup2", options)
            undone.callback(os.close, fd)
            path = f"/proc/{os.getpid()}/fd/{fd}"
            trees.append(hierarchies.Hierarchy(path, 1 if names else 2, names))
    return trees


def _hand_down(cgroup: Path) -> None:
    """Let the cgroups below one of version 2 have the controllers, as far as they exist."""
    there = (cgroup / "cgroup.controllers").read_text().split()
    names = [f"+{name}" for name in _CONTROLLERS if name in there]
    with suppress(OSError):  # EBUSY below a container's root: a check that needs one says so
        (cgroup / "cgroup.subtree_control").write_text(" ".join(names))


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
    for folder, _, _ in os.walk(cgroup, topdown=False):
        if not until(partial(_removed, folder), _ENDING_SECONDS):
            os.rmdir(folder)  # and raise what is in the way


def _removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except OSError as error:  # EBUSY: a killed process has not gone yet
        return error.errno == errno.ENOENT
    return True
