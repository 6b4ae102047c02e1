"""A cell: namespaces of their own for an engine, so that nothing of it outlives its tests.

An engine leaves much behind: shims that outlive their daemon, bridges, leases, mounts below /run.
In a cell (mount, network, pid, ipc and uts namespaces) all of it ends with one SIGKILL of the
cell's first process. Only cgroups lie outside: they are below one parent, removed at the end.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import STORE, wait_until
from required import FOLDERS

REAPER = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print(1, flush=True)"
UNSHARE = ("unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
FRESH = ("/run", "/var/lib/cni", "/var/log", f"{STORE}/networks", f"{STORE}/roots")
"""Directories that begin empty in a cell. A pid of this machine's says nothing in there: leases of
its containers would be taken for those of dead ones, and taken back."""
COUNTER = iter(range(10_000))


class Cell:
    """Processes, links and mounts apart from this machine's; `home` is its own directory."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="mrc-"))  # short: podman's runroot is limited
        os.chmod(self.home, 0o755)
        self.parent = f"/minirun-cell-{os.getpid()}-{next(COUNTER)}"
        """The cgroup that everything in the cell is to be below."""
        script = f"{REAPER}; signal.pause()\nwhile 1: signal.pause()"
        self._started: list[subprocess.Popen[str]] = []
        self._holder = subprocess.Popen(
            [*UNSHARE, "--mount-proc", sys.executable, "-ISc", script],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._holder.stdout and self._holder.stdout.readline() == b"1\n"
        self.pid = child(self._holder.pid)
        mounts = "; ".join(f"mkdir -p {d} && mount -t tmpfs none {d}" for d in FRESH)
        self.run("sh", "-ec", f"{mounts}; ip link set lo up", check=True)

    def argv(self, *args: str) -> list[str]:
        """The command line that runs `args` inside."""
        flags = ("--mount", "--net", "--pid", "--ipc", "--uts", f"--wd={self.home}")
        return ["nsenter", f"--target={self.pid}", *flags, "--", *args]

    def run(
        self,
        *args: str,
        input: str = "",
        env: dict[str, str] | None = None,
        check: bool = False,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside to its end."""
        return subprocess.run(
            self.argv(*args), input=input, env=os.environ | (env or {}), timeout=timeout,
            capture_output=True, text=True, check=check, errors="replace",
        )  # fmt: skip

    def start(
        self, *args: str, log: str = "", env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program inside; what it says goes to the file `log` in the cell's home."""
        with open(self.home / (log or "log"), "ab") as file:
            started = subprocess.Popen(
                self.argv(*args), stdin=subprocess.DEVNULL, stdout=file, stderr=file, text=True,
                env=os.environ | (env or {}),
            )  # fmt: skip
        self._started.append(started)
        return started

    def wait_for(self, ready: Callable[[], bool], log: str) -> None:
        """Wait for a daemon; where it never comes, say what it said. Raises AssertionError."""
        deadline = time.monotonic() + 30
        while not ready():
            said = (self.home / log).read_text()[-2000:]
            assert time.monotonic() < deadline, f"{log} did not start: {said}"
            time.sleep(0.05)

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Hide a program from all in the cell, if this machine has it."""
        path = shutil.which(name, path=FOLDERS)
        if path:
            self.run("mount", "--bind", "/dev/null", path, check=True)
        try:
            yield
        finally:
            if path:
                self.run("umount", path, check=True)

    def close(self) -> None:
        """End everything in it, and remove its cgroups and its files."""
        os.kill(self.pid, signal.SIGKILL)
        for started in (self._holder, *self._started):
            started.wait()
        assert self._holder.stdout
        self._holder.stdout.close()
        remove_cgroups(self.parent)
        deadline = time.monotonic() + 10
        while True:
            try:
                shutil.rmtree(self.home)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def child(pid: int) -> int:
    """The first child of a process; nsenter and unshare fork to enter a pid namespace."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def remove_cgroups(parent: str) -> None:
    """Remove a cgroup and all below it in every hierarchy, once it has no process.

    Where a controller is not mounted podman makes plain folders and files of these names.
    """
    for hierarchy in ("", *os.listdir("/sys/fs/cgroup")):
        top = Path("/sys/fs/cgroup", hierarchy, parent.lstrip("/"))
        if hierarchy and not os.path.ismount(os.path.realpath(top.parents[parent.count("/") - 1])):
            shutil.rmtree(top, ignore_errors=True)
        for folder, _, _ in os.walk(top, topdown=False):
            wait_until(lambda folder=folder: _rmdir(folder))


def _rmdir(folder: str) -> bool:
    """Remove a cgroup; False while somebody (conmon, which outlives its podman) is in it."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
