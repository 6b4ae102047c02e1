"""$NOTIFY_SOCKET, as systemd gives it to a service: sd_notify(3), sd_notify_barrier(3)."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.columns import Runtime
from conftest import Program, wait_until

INSIDE = "/run/notify/notify.sock"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "systemd.sock"))
        manager.settimeout(20)
        yield manager


def _environment(manager: socket.socket) -> dict[str, str]:
    return os.environ | {"NOTIFY_SOCKET": str(manager.getsockname())}


@contextmanager
def _begun(
    runtime: Runtime, manager: socket.socket, *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Let it run beside the test, to its end."""
    argv = [*runtime.argv, *words]
    null = subprocess.DEVNULL  # the container keeps it too
    with subprocess.Popen(
        argv, env=_environment(manager), cwd=runtime.bundle, stdout=null, stderr=null
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _say(runtime: Runtime, text: bytes) -> int:
    """Send what the command of a running container would; return its pid."""
    wait_until(lambda: '"running"' in runtime("state", "ID").stdout)
    pid = int(json.loads(runtime("state", "ID").stdout)["pid"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as command:
        command.sendto(text, f"/proc/{pid}/root{INSIDE}")
    return pid


def _hear(runtime: Runtime, manager: socket.socket, main: int) -> None:
    """What a manager is told: READY, whom to watch, and a pipe that it closes when it has read.

    runc sends the pipe from version 1.2 on.
    """
    assert manager.recv(100) == b"READY=1\n"
    assert manager.recv(100) == b"MAINPID=%d\n" % main
    if runtime.argv[0] == "runc":
        version = subprocess.check_output(["runc", "--version"], text=True)
        if " version 1.1." in version:
            return
    said, pipes, _, _ = socket.recv_fds(manager, 100, 1)
    assert said == b"BARRIER=1"
    for pipe in pipes:
        os.close(pipe)


def test_start_waits_until_the_command_is_ready(runtime: Runtime, systemd: socket.socket) -> None:
    runtime.config(args=["sleep", "100"])
    done = runtime("create", "-b", ".", "ID", env=_environment(systemd))
    assert done.returncode == 0, done.stdout
    with _begun(runtime, systemd, "start", runtime.name) as start:
        _say(runtime, b"STATUS=half way")
        pid = _say(runtime, b"READY=1")
        _hear(runtime, systemd, pid)
        assert start.wait(20) == 0


def test_start_does_not_wait_for_a_command_that_has_ended(
    runtime: Runtime, systemd: socket.socket
) -> None:
    runtime.config(args=["true"])
    assert runtime("create", "-b", ".", "ID", env=_environment(systemd)).returncode == 0
    assert runtime("start", "ID", env=_environment(systemd)).returncode == 0


def test_run_detached_waits_too(runtime: Runtime, systemd: socket.socket) -> None:
    runtime.config(args=["sleep", "100"], user={"uid": 1000, "gid": 1000})
    with _begun(runtime, systemd, "run", "-d", "-b", ".", runtime.name) as run:
        _hear(runtime, systemd, _say(runtime, b"READY=1"))
        assert run.wait(20) == 0


def test_run_hands_it_on_while_it_runs(runtime: Runtime, systemd: socket.socket) -> None:
    """The process to watch is the runtime: it lives as long as the command."""
    runtime.config(args=["sleep", "100"])
    with _begun(runtime, systemd, "run", "-b", ".", runtime.name) as run:
        _say(runtime, b"READY=1")
        _hear(runtime, systemd, run.pid)
        runtime("kill", "ID", "KILL")
        assert run.wait(20) == 137


def test_run_has_one_thread_when_it_makes_a_process(
    runtime: Runtime, systemd: socket.socket, tmp_path: Path
) -> None:
    """A copy of one of two threads may wait for ever for the interpreter's lock."""
    if runtime.argv[0] == "runc":
        pytest.skip("runc is written in Go, and always has several")
    threads, file = tmp_path / "threads", runtime.bundle / "config.json"
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"ls /proc/$PPID/task > {threads}"]}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"hooks": {"poststop": [hook]}}))
    with _begun(runtime, systemd, "run", "-b", ".", runtime.name) as run:
        _say(runtime, b"READY=1")
        wait_until(lambda: systemd.recv(100) == b"MAINPID=%d\n" % run.pid)
        runtime("kill", "ID", "KILL")
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(0.5)  # the manager has not read BARRIER=1 yet
        _, pipes, _, _ = socket.recv_fds(systemd, 100, 1)
        os.close(pipes[0])
        assert run.wait(20) == 137
    assert threads.read_text().split() == [str(run.pid)]


def test_start_after_one_that_was_killed(
    runtime: Runtime, systemd: socket.socket, minirun: Program
) -> None:
    """It had made the socket, and had not let the command run yet."""
    if runtime.argv[0] == "runc":
        pytest.skip("runc has its files elsewhere")
    runtime.config(args=["true"])
    assert runtime("create", "-b", ".", "ID", env=_environment(systemd)).returncode == 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        folder = os.open(minirun.directory(runtime.name) / "notify", os.O_PATH)
        left.bind(f"/proc/self/fd/{folder}/notify.sock")  # a path has at most 108 bytes: unix(7)
        os.close(folder)
    done = runtime("start", "ID", env=_environment(systemd))
    assert done.returncode == 0, done.stdout


def test_the_commands_variable(runtime: Runtime, systemd: socket.socket) -> None:
    """It is the container's socket, in a directory where nothing else can be put."""
    runtime.config(args=["sleep", "100"])
    with _begun(runtime, systemd, "run", "-d", "-b", ".", runtime.name):
        pid = _say(runtime, b"READY=1")
        _hear(runtime, systemd, pid)
    assert f"NOTIFY_SOCKET={INSIDE}" in Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert "Read-only" in runtime("exec", "ID", "touch", "/run/notify/x").stdout


def test_without_a_manager_there_is_none(runtime: Runtime) -> None:
    runtime.config(args=["sh", "-c", "echo ${NOTIFY_SOCKET-none}"])
    done = runtime("run", "-b", ".", "ID")
    assert done.stdout.startswith("none\n")
