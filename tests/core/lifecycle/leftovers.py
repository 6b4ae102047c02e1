"""What a killed run could leave behind, and the proof that it left nothing."""

import glob
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from conftest import Program, processes, wait_until
from minirun.core.kernel import mountinfo
from minirun.running import own_cgroup

_STATE, _PARENT, _STARTED = 0, 1, 19
"""Where the fields 3, 4 and 22 of proc_pid_stat(5) are in what `processes` yields."""


class Family:
    """A process, all its descendants, and all that share a pid namespace of theirs.

    The namespaces are held open: the number of one that has ended may soon be another's.
    """

    def __init__(self, pid: int) -> None:
        self._held: list[int] = []  # __del__ asks for it, whatever fails here
        table = {pid: fields for pid, _, fields in processes()}
        members = [pid]
        for member in members:
            members += [child for child, row in table.items() if int(row[_PARENT]) == member]
        self.members = {pid: table[pid][_STARTED] for pid in members if pid in table}
        self._held += [fd for member in members if (fd := self._open(member)) >= 0]
        self.namespaces = {self._namespace(member) for member in members}
        self.namespaces -= {self._namespace(os.getpid()), ""}

    def __del__(self) -> None:
        for fd in self._held:
            os.close(fd)

    @staticmethod
    def _open(pid: int) -> int:
        try:
            return os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return -1

    @staticmethod
    def _namespace(pid: int) -> str:
        try:
            return os.readlink(f"/proc/{pid}/ns/pid")
        except OSError:
            return ""

    def alive(self) -> list[int]:
        """Return the pids of those that still run."""
        return [
            pid
            for pid, _, fields in processes()
            if fields[_STATE] not in "ZX"
            and (
                self.members.get(pid) == fields[_STARTED] or self._namespace(pid) in self.namespaces
            )
        ]


def cgroups(minirun: Program) -> list[str]:
    """Return the cgroups of the containers of a state root that was named, in every hierarchy."""
    named = own_cgroup(str(minirun.root), "*", systemd=False)
    return in_hierarchies(named) if minirun.named else []


def in_hierarchies(cgroup: str) -> list[str]:
    """Return where there is a cgroup of this path, which may have marks of glob(7).

    A hierarchy is mounted below /sys/fs/cgroup; if there is version 2 alone, it is mounted there.
    """
    places = ("/sys/fs/cgroup", "/sys/fs/cgroup/*")
    return [path for place in places for path in glob.glob(place + cgroup)]


def mounts(root: Path) -> list[str]:
    """Return the mounts below `root` in our mount namespace."""
    places = {m.mount_point for m in mountinfo.read()}
    return [place for place in places if place.startswith(f"{root}/")]


def assert_nothing(minirun: Program, name: str, family: Family | None = None) -> None:
    """Fail where anything of the container `name` is left."""
    assert minirun.left() == []
    assert cgroups(minirun) == []
    assert mounts(minirun.root) == []
    if family:
        wait_until(lambda: not family.alive())


def assert_collected(minirun: Program, name: str, family: Family) -> bool:
    """Call `gc` after a run was killed; fail if more is left than is to be kept.

    Returns True if its start was complete: then the container is stopped, and has its files.
    """
    try:
        record = json.loads((minirun.directory(name) / "state.json").read_text())
    except FileNotFoundError:  # killed before there was one
        record = {"complete": False}
    kept = bool(record["complete"] and not record.get("auto_remove"))
    assert minirun("gc").returncode == 0
    if kept:
        assert minirun.left() == [name]
        assert json.loads(minirun("state", name).stdout)["status"] == "stopped"
        assert mounts(minirun.root) == [] and cgroups(minirun) == [] and not family.alive()
        assert minirun("rm", name).returncode == 0
    assert_nothing(minirun, name, family)
    return kept


def together(
    minirun: Program, count: int, *args: str, preexec_fn: Callable[[], object] | None = None
) -> list[tuple[int, str]]:
    """Start the same command `count` times at once; return each one's status and what it said.

    What is said goes to a file and not to a pipe, which a container that lives on would hold open.
    """
    started = []
    with open(os.devnull) as stdin:
        for _ in range(count):
            said = tempfile.TemporaryFile("w+")
            argv = minirun.argv(*args)
            process = subprocess.Popen(
                argv, stdin=stdin, stdout=said, stderr=said, preexec_fn=preexec_fn
            )
            started.append((process, said))
    ends = []
    for process, said in started:
        status = process.wait(timeout=30)
        with said:
            said.seek(0)
            ends.append((status, said.read()))
    return ends


def call(
    minirun: Program, *args: str, preexec_fn: Callable[[], object] | None = None
) -> tuple[int, str]:
    """Run a command that leaves a process behind; return its status and what it said."""
    return together(minirun, 1, *args, preexec_fn=preexec_fn)[0]
