"""Real cgroups, and a process that tries device nodes from inside of one."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minirun import cgroups
from minirun.cgroups import hierarchies, stopping
from minirun.cgroups.base import Cgroup
from minirun.core import events
from required import skip

PROBER = """
import json, os, sys
ACCESS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
def attempt(path, kind, major, minor, access):
    try:
        if access == "m":
            os.mknod(path + ".new", {"c": 0o020600, "b": 0o060600}[kind], os.makedev(major, minor))
            os.unlink(path + ".new")
        else:
            os.close(os.open(path, ACCESS[access] | os.O_NONBLOCK | os.O_NOCTTY))
    except OSError as error:
        return error.errno
    return 0
for line in sys.stdin:
    print(json.dumps([attempt(*request) for request in json.loads(line)]), flush=True)
"""
"""Opens nodes, or makes copies of them, and answers with errno numbers."""


def add(cgroup: Cgroup, pid: int) -> None:
    """Move another process into a cgroup; version 1 may have more directories than are joined."""
    for directory in cgroup.directories():
        Path(directory, "cgroup.procs").write_text(str(pid))


def require_mounted(version: str) -> None:
    """Skip the test where a version's hierarchies are missing."""
    found = hierarchies.mounted()
    if version == "v1" and not any("devices" in h.names for h in found):
        skip("no cgroup v1 hierarchy of the devices controller is mounted on this machine")
    if version == "v2" and not any(h.version == 2 for h in found):
        skip("no cgroup2 file system is mounted on this machine")


@pytest.fixture
def open_cgroup() -> Iterator[Callable[..., Cgroup]]:
    """Open cgroups under unique names; kill and remove them after the test."""
    opened: list[Cgroup] = []

    def open_(version: str, path: str = "", **more: Any) -> Cgroup:
        require_mounted(version)
        cgroup = cgroups.open_cgroup(path or f"/minirun/test-{uuid.uuid4().hex}", version, **more)
        opened.append(cgroup)
        return cgroup

    yield open_
    for cgroup in opened:
        stopping.kill(cgroup, 9)
        cgroup.remove()
        cgroup.close()


class Prober:
    """A process that tries device nodes on demand."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROBER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def node(self, kind: str, major: int, minor: int) -> str:
        """Make a node outside of the prober's cgroup; return its path."""
        path = self.directory / f"{kind}-{major}-{minor}"
        if not path.exists():
            mode = {"c": 0o020600, "b": 0o060600}[kind]
            os.mknod(path, mode, os.makedev(major, minor))
        return str(path)

    def try_all(self, requests: list[tuple[str, int, int, str]]) -> list[int]:
        """Return one errno (0: it worked) for each (kind, major, minor, access)."""
        assert self.process.stdin
        assert self.process.stdout
        lines = [(self.node(k, a, i), k, a, i, access) for k, a, i, access in requests]
        self.process.stdin.write(json.dumps(lines) + "\n")
        self.process.stdin.flush()
        return list(json.loads(self.process.stdout.readline()))

    def try_one(self, kind: str, major: int, minor: int, access: str) -> int:
        return self.try_all([(kind, major, minor, access)])[0]

    def stop(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def prober(nodes_path: Path) -> Iterator[Prober]:
    prober = Prober(nodes_path)
    yield prober
    prober.stop()


@pytest.fixture
def sleeper() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start processes that sleep, and end them after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(argv or ("sleep", "60")))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Write the event log to a file; return a function that reads it."""
    path = tmp_path / "events.jsonl"
    events.open_log(str(path), "test")
    yield lambda: [json.loads(line) for line in path.read_text().splitlines()]
    events.close_log()
