"""Level 9: create, start, state, kill and delete, as engines call them."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from minirun.faces.teach.levels import facts, material, tried
from minirun.faces.teach.levels.material import HOME
from minirun.faces.teach.levels.tried import NotYet, TriedProgram, wait


def runtime_runs(program: TriedProgram) -> None:
    """`run --bundle DIR ID` gives the command's output and status."""
    script = ["/bin/sh", "-c", "echo x; exit 7"]
    done = program.call(program.in_bundle("r", material.config(args=script)))
    if done.out != "x\n":
        raise NotYet("command-not-run", done.said)
    if done.status != 7:
        raise NotYet("exit-status", str(done.status))


def created_waits(program: TriedProgram) -> None:
    """`create` returns while init waits; only `start` executes the command."""
    pid_file = HOME / "pid"
    pid_file.unlink(missing_ok=True)
    _create(program, "c", "--pid-file", str(pid_file))
    if tried.pid_of(("sleep", tried.SLEEP)):
        raise NotYet("started-by-create")
    state = facts.state(program.runtime("state", "c").out)
    if state.get("status") != "created":
        raise NotYet("state", f"{state.get('status')}, not created")
    pid = state.get("pid", 0)
    if tried.state(pid) in ("", "Z") or tried.namespace(pid, "mnt") == tried.namespace(
        "self", "mnt"
    ):
        raise NotYet("state-pid", str(pid))
    if not pid_file.exists() or pid_file.read_text().strip() != str(pid):
        raise NotYet("pid-file")
    again = program.runtime("create", "--bundle", state["bundle"], "c")
    if again.status == 0:
        raise NotYet("id-twice")
    if program.runtime("start", "c").status:
        raise NotYet("start")
    if wait(lambda: tried.pid_of(("sleep", tried.SLEEP))) != pid:
        raise NotYet("start", "the command does not run")
    state = facts.state(program.runtime("state", "c").out)
    if state.get("status") != "running":
        raise NotYet("state", f"{state.get('status')}, not running")
    if program.runtime("start", "c").status == 0:
        raise NotYet("start-twice")


def it_is_killed_and_deleted(program: TriedProgram) -> None:
    """kill sends a signal, delete removes what has stopped, and nothing else."""
    if program.runtime("delete", "c").status == 0:
        raise NotYet("deleted-while-running")
    if program.runtime("kill", "c", "KILL").status:
        raise NotYet("kill")
    if not wait(lambda: not tried.pid_of(("sleep", tried.SLEEP))):
        raise NotYet("kill")
    state = facts.state(program.runtime("state", "c").out)
    if state.get("status") != "stopped":
        raise NotYet("state", f"{state.get('status')}, not stopped")
    if program.runtime("kill", "c", "KILL").status == 0:
        raise NotYet("kill-of-stopped")
    if program.runtime("delete", "c").status:
        raise NotYet("delete")
    if program.runtime("state", "c").status == 0:
        raise NotYet("delete", "state still knows it")


def force_ends_it(program: TriedProgram) -> None:
    """delete --force ends what runs, and is content if there is nothing."""
    _create(program, "f")
    program.runtime("start", "f")
    wait(lambda: tried.pid_of(("sleep", tried.SLEEP)))
    if program.runtime("delete", "--force", "f").status or tried.pid_of(("sleep", tried.SLEEP)):
        raise NotYet("force")
    if program.runtime("delete", "--force", "f").status:
        raise NotYet("force-of-nothing")
    if left := facts.cgroups() - {""}:
        raise NotYet("cgroup-left", sorted(left)[0])


def terminal_is_sent(program: TriedProgram) -> None:
    """With process.terminal the terminal's other end comes over the console socket."""
    path = HOME / "console.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(tried.SECONDS)
        script = ["/bin/sh", "-c", "tty; test -t 0 && echo terminal"]
        directory = program.bundle("t", material.config(args=script, terminal=True))
        started = program.start(
            [*program.command, "--root", str(HOME / "root"), "create", "--bundle", str(directory),
             "--console-socket", str(path), "t"]
        )  # fmt: skip
        try:
            with suppress(OSError):
                connection, _ = server.accept()
                _, fds, _, _ = socket.recv_fds(connection, 100, 1)
                connection.close()
                started.wait()
                program.runtime("start", "t")
                text = _read_terminal(fds[0])
                os.close(fds[0])
                if "/dev/pts/0" in text and "terminal" in text:
                    return
                raise NotYet("no-terminal", text.strip())
            raise NotYet("no-terminal")
        finally:
            started.end()
            program.runtime("delete", "--force", "t")


def gpus_without_an_engine(program: TriedProgram) -> None:
    """NVIDIA_VISIBLE_DEVICES of the bundle is enough for two GPUs."""
    done = program.with_gpus("0,1", "nvidia-smi -L")
    if done.out.count("SIMULATED") != 2:
        raise NotYet("gpu-not-listed", done.said)


def _create(program: TriedProgram, name: str, *flags: str) -> None:
    """Create a container that will sleep. Raises NotYet if it is not there."""
    directory = program.bundle(name, material.config(args=["sleep", tried.SLEEP]))
    done = program.runtime("create", "--bundle", str(directory), *flags, name)
    if done.status:
        raise NotYet("create", done.said)


def _read_terminal(fd: int) -> str:
    """Return what a terminal prints until its last process has closed it."""
    text = b""
    with suppress(OSError):  # EIO: it is closed
        while chunk := os.read(fd, 4096):
            text += chunk
    return text.decode(errors="replace")
