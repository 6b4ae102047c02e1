"""Running one hook of config.json: runtime-spec, config.md, "POSIX-platform Hooks".

A hook gets the container's state as JSON on its standard input, the environment that config.json
gives it and nothing else (an image's LD_PRELOAD once reached a hook: CVE-2025-23266), the bundle
as its working directory, and a process group of its own that is killed as a whole when its time
is up.
"""

import os
import select

from minirun import events, jsonlite
from minirun.errors import HookError
from minirun.kernel import files, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OUTPUT_LIMIT = 4096
_SIGKILL = 9


def run_all(hooks: "list[dict[str, Any]]", kind: str, state: "dict[str, Any]", cwd: str) -> None:
    """Run the hooks of one kind in order. Raises HookError at the first that fails."""
    for index, hook in enumerate(hooks):
        run(hook, f"{kind} hook {index} ({hook['path']})", state, cwd)


def run(hook: "dict[str, Any]", name: str, state: "dict[str, Any]", cwd: str) -> None:
    """Run one hook and wait for it. Raises HookError with the end of what it said."""
    stdin, feed = os.pipe2(os.O_CLOEXEC)
    said, stdout = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(hook, cwd, stdin, stdout)
    os.close(stdin)
    os.close(stdout)
    args = {"path": hook["path"], "pid": pid}
    events.emit("exec", "hook", args, ret=None, why="the hook gets the container's state on stdin")
    try:
        _feed(feed, jsonlite.dumps(state).encode())
        output, status = _wait(pid, said, hook.get("timeout"))
    finally:
        os.close(said)
    if status is None:
        raise HookError(f"{name} took longer than its timeout of {hook['timeout']} s")
    events.emit("note", "hook ended", {"path": hook["path"], "status": status})
    if status != 0:
        text = output.decode(errors="replace").strip() or "it said nothing"
        how = f"exit status {status}" if status > 0 else f"signal {-status}"
        raise HookError(f"{name} failed with {how}: {' '.join(text.split())}")


def _become(hook: "dict[str, Any]", cwd: str, stdin: int, stdout: int) -> None:
    """In the child: turn into the hook's program. Never returns."""
    try:
        os.setpgid(0, 0)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stdout, 2)
        process.restore_signals()
        files.close_range_cloexec(3)
        os.chdir(cwd)
        env = dict(entry.split("=", 1) for entry in hook.get("env") or [] if "=" in entry)
        os.execve(hook["path"], hook.get("args") or [hook["path"]], env)
    except OSError as error:
        os.write(2, f"{hook['path']}: {os.strerror(error.errno or 0)}".encode())
    finally:
        os._exit(127)


def _feed(fd: int, data: bytes) -> None:
    """Write the state to the hook's stdin; a hook that does not read it is free not to."""
    try:
        while data:
            data = data[os.write(fd, data) :]
    except BrokenPipeError:
        pass
    finally:
        os.close(fd)


def _wait(pid: int, said: int, timeout: "int | None") -> "tuple[bytes, int | None]":
    """Return (what the hook said, its status); status None when its time was up.

    The hook's own end counts, not the end of its output: a grandchild may hold the pipe open.
    """
    deadline = None if timeout is None else events.now() + timeout * 1_000_000_000
    pidfd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(said, select.POLLIN)
    output = b""
    try:
        while True:
            left = None if deadline is None else max(0, deadline - events.now()) // 1_000_000
            ready = dict(poll.poll(left))
            if not ready and left is not None:
                os.killpg(pid, _SIGKILL)
                os.waitpid(pid, 0)
                return output, None
            if said in ready:
                chunk = os.read(said, 65536)
                output = (output + chunk)[-OUTPUT_LIMIT:]
                if not chunk:
                    poll.unregister(said)
            if pidfd in ready and said not in ready:
                return output, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(pidfd)
