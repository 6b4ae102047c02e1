"""A learner's program: how it is called, and what became of it.

The words of each level are those of tutorials/levels, so the ladder can be climbed in any language:

    0, 1   run [FLAGS] COMMAND …
    2, 3   run [FLAGS] LOWERDIR COMMAND …
    4 …    the same, and run --bundle DIR
    9      run, create, start, state, kill, delete, with --root before them
    10     the same, and exec
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from minirun.common import processes
from minirun.common.waiting import until
from minirun.core.config import DEFAULT_PATH
from minirun.core.kernel import libc
from minirun.faces.teach.levels import material
from minirun.faces.teach.levels.material import PROC
from minirun.faces.teach.levels.programs import NOT_WRITTEN
from minirun.faces.teach.pace import pace
from minirun.oci.seccomp import compiler

Answer = TypeVar("Answer")
SECONDS = 8.0
"""What no single start may take, on a usual machine."""
SLEEP = "1234.5"
"""Seconds that the command of a check sleeps: by them it is found."""
_LONGEST = 1 << 20
"""What is read of a program's output, in characters."""
_ANSWER_SECONDS, _CLEARING_SECONDS = 3.0, 2.0
_GROUPS = (0, 4)
"""Groups of the program besides its own: a command is to have none of them."""
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000  # SECCOMP_RET_, linux/seccomp.h
_CRASH = re.compile(r"(?m)^(?:panic|fatal error|runtime): .*|^thread '.*' panicked .*")
"""The line of a Go or a Rust program that has crashed which says why; others have it last."""
_GAP = re.compile(rf"level \d+: (\S+) {NOT_WRITTEN}")


class NotYet(Exception):
    """The first thing that does not hold: the key of a finding, and what was seen."""

    def __init__(self, key: str, detail: str = "") -> None:
        super().__init__(key)
        self.key, self.detail = key, detail


class Done:
    """A program that has ended."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err
        """The exit status; 128 and the signal if one ended the program itself."""

    @property
    def said(self) -> str:
        """Return its last words, for the learner: what it has crashed of, or the last line."""
        lines = self.err.strip().splitlines()
        return self.crash or (lines[-1] if lines else f"exit status {self.status}")

    @property
    def crash(self) -> str:
        """Return the line that says of what it has crashed; "" if there is none."""
        found = _CRASH.search(self.err)
        return found[0] if found else ""


class TriedProgram:
    """The learner's program, which is started again and again."""

    def __init__(self, command: list[str], number: int, lower: str, env: dict[str, str]) -> None:
        self.command, self.number, self.lower = command, number, lower
        self.links = frozenset(os.listdir("/sys/class/net"))
        """The interfaces of the sandbox before the program was started for the first time."""
        self.env = {"PATH": DEFAULT_PATH, "LC_ALL": "C.UTF-8", "TERM": "dumb",
                    "PYTHONDONTWRITEBYTECODE": "1", **env}  # fmt: skip
        self._ids = itertools.count()

    def words(self, *command: str, flags: tuple[str, ...] = ()) -> list[str]:
        """Return the command line that runs `command`.

        From level 9 on there are no flags: the bundle says what they would.
        """
        if self.number >= 9:
            return self.in_bundle("words", material.with_flags(command, flags))
        root = [self.lower] if self.number >= 2 else []
        return [*self.command, "run", *flags, *root, *command]

    def run(self, *command: str, flags: tuple[str, ...] = (), text: str = "") -> Done:
        """Run a command to its end. Raises NotYet if it hangs, or if a part is not written yet."""
        return self.call(self.words(*command, flags=flags), text)

    def call(self, words: list[str], text: str = "") -> Done:
        """Run a command line to its end. Raises NotYet."""
        return self.start(words, text).wait()

    @contextmanager
    def running(
        self, *command: str, flags: tuple[str, ...] = (), words: list[str] | None = None,
        fds: tuple[int, ...] = (),
    ) -> Iterator[tuple[Started, int]]:  # fmt: skip
        """Run a command that goes on; yield (the program, the command's pid). It ends afterwards.

        `command` must be one that no other process has. Raises NotYet if it does not begin.
        """
        started = self.start(words or self.words(*command, flags=flags), fds=fds)
        try:
            pid = wait(lambda: pid_of(command), SECONDS)
            if not pid:
                raise NotYet("command-not-run", started.last_words())
            yield started, pid
        finally:
            started.end_with(pid) if pid else started.end()

    def in_bundle(self, name: str, document: dict[str, Any]) -> list[str]:
        """Write a bundle with this config.json; return the command line that runs it."""
        directory = self.bundle(name, document)
        own_id = [f"{name}-{next(self._ids)}"] if self.number >= 9 else []
        return [*self.command, "run", "--bundle", str(directory), *own_id]

    def bundle(self, name: str, document: dict[str, Any]) -> Path:
        """Write a bundle with this config.json, of a root filesystem with the layers."""
        return material.bundle(name, self.lower, document)

    def with_gpus(self, gpus: str, script: str) -> Done:
        """Run a script of sh with GPUs, as this level asks for them. Raises NotYet."""
        return self.run("/bin/sh", "-c", script, flags=("--gpus", gpus))

    def runtime(self, *words: str) -> Done:
        """Call a command of an engine's, with a state root in the sandbox. Raises NotYet."""
        return self.call([*self.command, "--root", str(material.HOME / "root"), *words])

    def start(
        self, words: list[str], text: str = "", before: Callable[[], None] | None = None,
        fds: tuple[int, ...] = (),
    ) -> Started:  # fmt: skip
        """Start a command line with this standard input, and return at once.

        `before` is called in the process that becomes the program, which inherits `fds`.
        """
        return Started(words, self.env, text, " ".join(words[len(self.command) :]), before, fds)


class Started:
    """A program that was started. It prints into files, which no process can keep open for us."""

    def __init__(
        self, words: list[str], env: dict[str, str], text: str, called: str,
        before: Callable[[], None] | None, fds: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.called = called
        """What it was called with, in words."""
        self._out, self._err, given = (tempfile.TemporaryFile("w+", errors="replace")
                                       for _ in range(3))  # fmt: skip
        with given:
            given.write(text)
            given.seek(0)
            self._process = subprocess.Popen(
                words, env=env, stdin=given, stdout=self._out, stderr=self._err,
                start_new_session=True, extra_groups=_GROUPS, preexec_fn=before, pass_fds=fds,
            )  # fmt: skip
        self.pid = self._process.pid

    def wait(self) -> Done:
        """Wait for its end. Raises NotYet if it hangs, or if a part of it is not written yet."""
        try:
            status = self._process.wait(seconds())
        except subprocess.TimeoutExpired:
            self.end()
            raise NotYet("hangs", self.called) from None
        out, err = self.printed()
        if gap := _GAP.search(err):
            raise NotYet("not-written", gap[1])
        return Done(status if status >= 0 else 128 - status, out, err)

    def printed(self) -> tuple[str, str]:
        """Return what was printed up to now, to standard output and to standard error."""
        self._out.seek(0)
        self._err.seek(0)
        return self._out.read(_LONGEST), self._err.read(_LONGEST)

    def last_words(self) -> str:
        """End it; return what it has said last. That it had to be killed is no status of its own.

        Raises NotYet if a part of it is not written yet.
        """
        is_late = self._process.poll() is None
        self.end()
        done = self.wait()
        silent = is_late and not done.err.strip()
        return f"it was not there after {seconds():.0f} s" if silent else done.said

    def end_with(self, pid: int) -> None:
        """Kill the command, so that the program can clear up; then end it."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLEARING_SECONDS * pace())
        self.end()

    def end(self) -> None:
        """Kill it, with all in its session and in the sandbox."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        kill_others()
        self._process.wait()


def kill_others() -> None:
    """Kill every process of the sandbox but this one, and wait for those that are ours now."""
    for pid in pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait(lambda: not living())


def pids() -> list[int]:
    """Return the pids of the sandbox's processes, but for its own."""
    return [pid for pid in processes.pids(str(PROC)) if pid != os.getpid()]


def living() -> list[int]:
    """Return those that are no zombies."""
    return [pid for pid in pids() if state(pid) not in ("", "Z", "X")]


def state(pid: int) -> str:
    """Return the letter of a process's state; "" if there is none: proc_pid_stat(5)."""
    try:
        return Path(f"{PROC}/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def command_of(pid: int) -> tuple[str, ...]:
    """Return the words of a process's command line."""
    try:
        return tuple(Path(f"{PROC}/{pid}/cmdline").read_text().split("\0")[:-1])
    except OSError:
        return ()


def pid_of(command: tuple[str, ...]) -> int:
    """Return the pid of the process that is this command, by its path or name; 0 if none is."""
    for pid in pids():
        if (words := command_of(pid)) and (os.path.basename(words[0]), *words[1:]) == command:
            return pid
    return 0


def namespace(pid: int | str, kind: str) -> str:
    """Return which namespace of a kind (mnt, pid …) a process is in."""
    return os.readlink(f"{PROC}/{pid}/ns/{kind}")


def status_field(pid: int, name: str) -> str:
    """Return a field of /proc/PID/status."""
    for line in Path(f"{PROC}/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    return ""


def no_mounts() -> None:
    """Let the kernel kill this process, or a child of it, at its first mount: seccomp(2).

    The filter loads the call's number, compares it with three, and ends the process or lets it
    through: instructions of classic BPF, linux/filter.h. Raises OSError.
    """
    numbers = [libc.number("mount"), 429, 442]  # mount, move_mount, mount_setattr
    load, jump, give = 0x20, 0x15, 0x06
    compared = [(jump, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    rows = [(load, 0, 0, 0), *compared, (give, 0, 0, _ALLOW), (give, 0, 0, _KILL_PROCESS)]
    compiler.install(b"".join(struct.pack("=HBBI", *row) for row in rows))


def seconds() -> float:
    """Return what no single start may take on this machine."""
    return SECONDS * pace()


def wait(ready: Callable[[], Answer], limit: float = _ANSWER_SECONDS) -> Answer:
    """Call `ready` until it returns something true, or the time is over. Return the last answer.

    `limit`: in seconds of a usual machine.
    """
    return until(ready, limit * pace())
