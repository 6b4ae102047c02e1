"""Running one hook of config.json: runtime-spec, config.md, "POSIX-platform Hooks".

A hook gets the container's state as JSON on its standard input, the environment that config.json
gives it and nothing else (an image's LD_PRELOAD once reached a hook: CVE-2025-23266), the bundle
as its working directory (createContainer: the root filesystem; startContainer: process.cwd), and a
process group of its own that is killed as a whole when its time is up.
"""

from __future__ import annotations

import os
import select

from minirun.core import events
from minirun.core.config import environment_of
from minirun.core.errors import NOT_FOUND, HookError, reason
from minirun.core.keeping import jsonlite
from minirun.core.kernel import files, namespaces, process, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    Json = dict[str, Any]
    Steps = Sequence[Callable[[], None]]

_LIMIT = 1 << 16
"""Bytes of a hook's output that are kept: the last ones."""
LONGEST_TEXT = 4096
"""Bytes of them that an error quotes."""
_LONGEST_POLL = 2**31 - 1  # milliseconds, an int


def run_all(hooks: list[Json], kind: str, state: Json, cwd: str, inside: Steps = ()) -> None:
    """Run the hooks of one kind in order. Raises HookError at the first that fails."""
    for index, hook in enumerate(hooks):
        run(kind, index, hook, state, cwd, inside)


def run(kind: str, index: int, hook: Json, state: Json, cwd: str, inside: Steps = ()) -> None:
    """Run one hook and wait for it. Raises HookError, in runc's words, with the end of its output.

    `inside`: for a hook after pivot_root, the steps before execve, the same as init's. The hook's
    process cannot know its pid on the host there, so it does not write to the log.
    """
    name = f"error running {kind} hook #{index}: {hook['path']}"
    running = clone(
        lambda stdin, stdout: _become(hook, cwd, stdin, stdout, inside), hook.get("timeout"),
        why=f"{kind} hook {index} ({hook['path']}): it gets the container's state on stdin",
    )  # fmt: skip
    try:
        status = running.converse(state, name)
    finally:
        running.close()
    events.emit("note", "hook ended", {"path": hook["path"], "status": status})
    if status != 0:
        text = running.output[-LONGEST_TEXT:].decode(errors="replace").strip() or "it said nothing"
        raise HookError(f"{name} failed with {ending(status)}: {' '.join(text.split())}")


def ending(status: int) -> str:
    """Return how a process ended, in words; `status` is -n for signal n."""
    signal = f"signal {-status} ({signals.strsignal(-status)})" if status < 0 else ""
    return signal.lower() or f"exit status {status}"


def clone(main: Callable[[int, int], NoReturn], timeout: int | None, *, why: str) -> HookProcess:
    """Clone a process that calls `main` with its ends of two pipes: the state, and its output.

    It gets `timeout` seconds, counted from :meth:`HookProcess.converse` on; None: no limit.
    Raises OSError.
    """
    stdin, input_fd = os.pipe2(os.O_CLOEXEC)
    output_fd, stdout = os.pipe2(os.O_CLOEXEC)
    pid, pidfd = namespaces.clone3(0, why=why)
    if pid == 0:
        os.close(input_fd)
        os.close(output_fd)
        main(stdin, stdout)
    os.close(stdin)
    os.close(stdout)
    return HookProcess(pid, pidfd, (input_fd, output_fd), timeout)


def _become(hook: Json, cwd: str, stdin: int, stdout: int, inside: Steps) -> NoReturn:
    """In the child: turn into the hook's program. Never returns."""
    try:
        os.setpgid(0, 0)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stdout, 2)
        if inside:  # it stays where init is: the container's user may not be let in again
            events.close_log()
        else:
            events.become("hook", int(os.readlink("/proc/self")))  # the host's /proc
            os.chdir(cwd)
        process.prctl(process.PR_SET_PDEATHSIG, signals.SIGKILL, why="no hook outlives the runtime")
        process.restore_signals()
        files.close_range_cloexec(3)
        env = environment_of(hook.get("env"))
        for step in inside:
            step()
        process.execve(hook["path"], hook.get("args") or [hook["path"]], env)
    except OSError as error:
        os.write(2, f"{error.filename or hook['path']}: {reason(error)}".encode())
    finally:
        os._exit(NOT_FOUND)


class HookProcess:
    """A hook that runs, and the runtime's ends of its pipes."""

    def __init__(self, pid: int, pidfd: int, pipes: tuple[int, int], timeout: int | None) -> None:
        self.pid = pid
        """0 when it has ended."""
        self.pidfd = pidfd
        self.input_fd, self.output_fd = pipes
        self.timeout = timeout
        self.output = b""
        """The last _LIMIT bytes that it wrote."""

    def converse(self, state: Json, name: str) -> int:
        """Send `state`, read the output until the hook ends; the caller calls :meth:`close` then.

        Return its exit status, -n for signal n. Writing and reading alternate: a hook may write
        first, or never read. The hook's end counts, not its output's: a child of it may hold the
        pipe open. Raises HookError by `name` if it takes longer than its timeout, OSError.
        """
        rest = jsonlite.dumps(state).encode()
        deadline = None if self.timeout is None else events.now() + self.timeout * 1_000_000_000
        os.set_blocking(self.input_fd, False)
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)  # first: after its end no more output comes
        poll.register(self.output_fd, select.POLLIN)
        poll.register(self.input_fd, select.POLLOUT)
        while True:
            left = None if deadline is None else (deadline - events.now()) // 1_000_000
            if left is not None and left <= 0:
                raise HookError(f"{name} took longer than its timeout of {self.timeout} s")
            ready = [fd for fd, _ in poll.poll(left and min(left, _LONGEST_POLL))]
            if self.input_fd in ready:
                rest = self._feed(rest)
                if not rest:
                    poll.unregister(self.input_fd)
                    os.close(self.input_fd)
                    self.input_fd = -1
            if self.output_fd in ready:
                chunk = os.read(self.output_fd, 65536)  # at most what a pipe holds
                self.output = (self.output + chunk)[-_LIMIT:]
                if not chunk:
                    poll.unregister(self.output_fd)
            if self.pidfd in ready:
                status = os.waitpid(self.pid, 0)[1]
                self.pid = 0
                return os.waitstatus_to_exitcode(status)

    def _feed(self, data: bytes) -> bytes:
        """Write what fits; return the rest: nothing if the hook has closed its end."""
        try:
            return data[os.write(self.input_fd, data) :]
        except BrokenPipeError:
            return b""

    def close(self) -> None:
        """Close its pipes; if it has not ended, end it and all of its process group."""
        for fd in (self.input_fd, self.output_fd, self.pidfd):
            if fd >= 0:
                os.close(fd)
        if not self.pid:
            return
        try:
            os.killpg(self.pid, signals.SIGKILL)
        except ProcessLookupError:  # it has not made its group yet
            os.kill(self.pid, signals.SIGKILL)
        os.waitpid(self.pid, 0)
