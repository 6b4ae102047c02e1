"""A lab's folder: everything that a lab makes is in it, or is found through it.

    ROOT/.labs/NAME/        in the state root, 0700
        lab.env, bin/       what each script reads first: which minirun, where its containers are
        run.sh, …           copied from broken/NAME; what make.sh has made lies beside them
        output              what the last script has printed
        prediction          what the learner believes
        state/              a state root of the lab's own
    ROOT/.labs/.NAME.graded its solution is not shown: an assignment has started it

Nothing else is written down: whatever the moment at which a command was killed, the containers are
those in state/, the mounts those below the folder, and the processes those whose environment has
MINIRUN_LAB with the folder and the state root's device and inode: in another mount namespace the
same path may be another folder. :meth:`LabFolder.stop` ends them from what the kernel says of them.
"""

from __future__ import annotations

import os
import re
import resource
import select
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from minirun import net
from minirun.common import called
from minirun.common.processes import pids
from minirun.core.config import DEFAULT_PATH
from minirun.core.errors import MinirunError, UsageError
from minirun.core.keeping.settings import Settings
from minirun.core.kernel import mountinfo, mounts, namespaces
from minirun.engines import roots
from minirun.faces.teach.lab.places import LABS, graded_mark
from minirun.image import split, workshop
from minirun.image import store as image_store

MARK = "MINIRUN_LAB"
_BROKEN = Path(__file__).parent / "broken"
_KEPT_BACK = "solution.sh"
_IMAGES = ("busybox", "ubuntu")
"""The images that scripts of labs run."""
_ENDING_SECONDS = 5.0
_LARGEST_FILE, _SHOWN_BYTES = 256 << 20, 1 << 16
"""What a file may hold that run.sh and its children write; how much of its output is read."""
_TABLE = re.compile(r"^table (\w+ lab_\w+) \{", re.MULTILINE)
"""A table of nftables in a file of a lab's: they are named so, and no others are."""


class LabFolder:
    """One lab on this machine, started or not."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.path = Path(os.path.realpath(settings.root)) / LABS / name
        self.state = self.path / "state"
        self._settings = settings

    @property
    def mark(self) -> str:
        """Return what MINIRUN_LAB is in each of the lab's processes. Raises OSError."""
        root = self.path.parents[1].stat()
        return f"{self.path} {root.st_dev}:{root.st_ino}"

    @property
    def is_started(self) -> bool:
        """True from the first step of `start` until `reset`."""
        return self.path.is_dir()

    @property
    def is_graded(self) -> bool:
        """True from the start of an assignment until `reset`."""
        return graded_mark(self.path).exists()

    def make(self, *, graded: bool = False) -> None:
        """Make the folder with all that is to be mended. Raises MinirunError, OSError."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            hint = f"minirun lab reset {self.name} forgets it"
            raise UsageError(f"the lab {self.name} is started already", hint, status=1) from None
        if graded:
            graded_mark(self.path).touch()
        source = _BROKEN / self.name
        leave = shutil.ignore_patterns(_KEPT_BACK)
        shutil.copytree(source, self.path, ignore=leave, dirs_exist_ok=True)
        self.path.chmod(0o700)
        (self.path / "bin").mkdir()
        _script(self.path / "bin/minirun", called.program())
        _script(self.path / "bin/python3", [sys.executable])
        (self.path / "lab.env").write_text(self._exports())
        if (self.path / "make.sh").exists():
            self._prepare()

    def _prepare(self) -> None:
        try:
            self._fetch_images()
            self._must("make.sh", self.path / "make.sh")
        except BaseException:
            self.remove()
            raise

    def _exports(self) -> str:
        """Return lab.env. A shell that a person types into is none of the lab's processes."""
        mark = f"case $- in *i*) ;; *) export {MARK}={shlex.quote(self.mark)} ;; esac\n"
        said = {"MINIRUN_ROOT": str(self.state), "MINIRUN_STORE": self._settings.store,
                "MINIRUN_NETWORK": "none"}  # fmt: skip
        path = f"export PATH={shlex.quote(str(self.path / 'bin'))}:$PATH\n"
        return path + mark + "".join(f"export {k}={shlex.quote(v)}\n" for k, v in said.items())

    def run(self, seconds: float) -> int | None:
        """Stop what runs, and start it anew; return run.sh's exit status, None if it never ends.

        An image that is not here is fetched, or made, before its time begins.
        """
        self.stop()
        self._fetch_images()
        try:
            return self._sh(self.path / "run.sh", seconds, _without_network)
        except BaseException:
            self.stop()
            raise

    def _fetch_images(self) -> None:
        """Put what the lab's scripts run into the store. Raises ImageError."""
        said = " ".join(path.read_text() for path in (_BROKEN / self.name).rglob("*.sh")).split()
        for name in _IMAGES:
            if name in said and not image_store.find(self._settings.store, split(name)):
                workshop.call("find")(name, self._settings)

    def has_own_make(self) -> bool:
        """Return True if the learner has changed make.sh, which is run at the start alone."""
        path = self.path / "make.sh"
        original = _BROKEN / self.name / "make.sh"
        return original.exists() and (
            not path.exists() or path.read_bytes() != original.read_bytes()
        )

    def solve(self) -> None:
        """Mend it, as solution.sh has it. Raises MinirunError."""
        self._must(_KEPT_BACK, self.solution())

    def solution(self) -> Path:
        """Return the path of solution.sh."""
        return _BROKEN / self.name / _KEPT_BACK

    def output(self) -> str:
        """Return the end of what the last script has printed."""
        with suppress(FileNotFoundError), open(self.path / "output", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _SHOWN_BYTES))
            return file.read(_SHOWN_BYTES).decode(errors="replace")
        return ""

    def _must(self, name: str, script: Path) -> None:
        status = self._sh(script, 60)
        if status:
            raise MinirunError(f"lab {self.name}: {name}: {self.output().strip()}", status=1)

    def _sh(
        self, script: Path, seconds: float, before: Callable[[], None] | None = None
    ) -> int | None:
        """Run a script; return its exit status, None if it does not end in time.

        `before` is called in the process that becomes the shell.
        """
        environment = {"PATH": f"{self.path}/bin:{DEFAULT_PATH}", "LC_ALL": "C.UTF-8",
                       MARK: self.mark}  # fmt: skip
        with open(self.path / "output", "wb") as output:
            shell = subprocess.Popen(
                ["/bin/sh", str(script)], cwd=self.path, env=environment, stdout=output,
                stderr=output, stdin=subprocess.DEVNULL, start_new_session=True,
                preexec_fn=before,
            )  # fmt: skip
        try:
            return shell.wait(seconds)
        except subprocess.TimeoutExpired:
            shell.kill()  # those that it has started are stopped later, and can be looked at
            shell.wait()
            return None

    def processes(self) -> Iterator[int]:
        """Yield the processes that the lab's scripts have started, on the host."""
        mark = f"{MARK}={self.mark}".encode()
        for pid in pids():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    yield pid

    def stop(self) -> None:
        """End the lab's processes, containers and mounts. Raises MinirunError, OSError."""
        self._kill()
        if self.state.is_dir():
            names = [each.name for each in self.state.iterdir() if each.name[0] != "."]
            for name in names:
                self.minirun("delete", "--force", name)
            self.minirun("gc")
        self._kill()  # what a hook of theirs had begun
        for mount in reversed(mountinfo.read()):
            if Path(mount.mount_point).is_relative_to(self.path):
                mounts.detach(mount.mount_point)

    def _kill(self) -> None:
        """Kill what the scripts have started. A process that began them, as this one, is spared."""
        above = set(_ancestors())
        for pid in self.processes():
            if pid not in above:
                with suppress(ProcessLookupError):
                    fd = os.pidfd_open(pid)
                    try:
                        if pid in set(self.processes()):  # not another one of that number
                            signal.pidfd_send_signal(fd, signal.SIGKILL)
                            _await(fd)
                    finally:
                        os.close(fd)

    def minirun(self, *words: str) -> None:
        """Call minirun with the lab's own state. Raises MinirunError if it fails."""
        where = ["--root", str(self.state), "--store", self._settings.store]
        argv = [*called.program(), *where, *words]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise MinirunError(f"lab {self.name}: {done.stderr.strip()}", status=1)

    def remove(self) -> None:
        """Stop all, and remove the folder. Raises MinirunError, OSError."""
        if self.path.is_symlink():
            hint = "it is none of minirun's: remove the link yourself"
            raise UsageError(f"lab {self.name}: {self.path} is a link", hint, status=1)
        self.stop()
        self._remove_tables()
        with suppress(FileNotFoundError):
            os.unlink(roots.entry_of(self._settings.store, str(self.state)))
        try:
            shutil.rmtree(self.path)
        except OSError as error:  # it names the file alone
            raise OSError(error.errno, error.strerror, f"{self.path}/{error.filename}") from None
        graded_mark(self.path).unlink(missing_ok=True)
        with suppress(OSError):
            self.path.parent.rmdir()

    def _remove_tables(self) -> None:
        """Remove the lab's tables from this machine's firewall, if a learner has put them there."""
        for file in (_BROKEN / self.name).glob("*.nft"):
            for name in _TABLE.findall(file.read_text()):
                with suppress(FileNotFoundError):  # nft is not installed, or the table not there
                    subprocess.run(["nft", "delete", "table", *name.split()],
                                   stderr=subprocess.DEVNULL)  # fmt: skip


def _script(path: Path, command: list[str]) -> None:
    """Write a program that is this command: the lab's scripts call the minirun that made it."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)


def _without_network() -> None:
    """Prepare a process for run.sh: a network namespace with lo alone, and files of a bounded size.

    So a rule that a learner takes from the lab's host to this machine's own firewall, and a loop
    that prints without an end, do no harm. Raises OSError.
    """
    namespaces.unshare(namespaces.CLONE_NEWNET)
    net.set_up("lo")
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))


def _ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid:
        yield pid
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat[stat.rindex(")") + 2 :].split()[1])


def _await(fd: int) -> None:
    select.select([fd], [], [], _ENDING_SECONDS)
