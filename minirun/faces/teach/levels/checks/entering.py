"""Level 10: exec, a second command in a container that runs."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from minirun.faces.teach.levels import material, tried
from minirun.faces.teach.levels.checks import process
from minirun.faces.teach.levels.material import HOME, PROC
from minirun.faces.teach.levels.tried import Done, NotYet, Started, TriedProgram, wait

_FIRST = ("sleep", tried.SLEEP)
_SECOND = ("sleep", "1234.25")
"""No other process sleeps that long: by it the second command is found."""
_KINDS = ("mnt", "pid", "uts", "ipc", "net", "cgroup")
_PRIVILEGES = (
    "CapBnd", "CapPrm", "CapEff", "CapInh", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups",
)  # fmt: skip
"""What of /proc/PID/status is the same of both commands."""


def it_is_executed(program: TriedProgram) -> None:
    """exec runs a command in the container: its words, streams and exit status."""
    with _container(program):
        script = 'cat; echo "$1"; exit 7'
        done = _exec(program, "/bin/sh", "-c", script, "sh", "a  b", text="from outside\n")
        if done.out == "a  b\n":
            raise NotYet("no-stdin")
        if done.out != "from outside\na  b\n":
            raise NotYet("words-changed" if done.out else "exec", done.out or done.said)
        process.gives_7(done)
        if _exec(program, "no-such-program").status == 0:
            raise NotYet("exec-of-nothing")


def it_is_in_the_namespaces(program: TriedProgram) -> None:
    """The second command is in each namespace of the container, and has its root."""
    document = material.config(args=[*_FIRST])
    document["linux"]["namespaces"] += [{"type": kind} for kind in ("network", "cgroup")]
    with _container(program, document) as first, _second(program) as (_, second):
        for kind in _KINDS:
            if tried.namespace(second, kind) != tried.namespace(first, kind):
                raise NotYet("not-entered", kind)
        roots = [os.stat(f"{PROC}/{pid}/root/.") for pid in (first, second)]
        if not os.path.samestat(*roots):
            raise NotYet("not-entered", "root")


def it_is_in_the_cgroups(program: TriedProgram) -> None:
    """It is in the container's cgroups: limits and device rules hold for it, too."""
    with _container(program) as first, _second(program) as (_, second):
        rows = [Path(f"{PROC}/{pid}/cgroup").read_text().splitlines() for pid in (first, second)]
        for line in rows[1]:
            if line not in rows[0]:
                raise NotYet("cgroup-not-entered", line)


def privileges_are_the_containers(program: TriedProgram) -> None:
    """Its capabilities, filter and limits are those of config.json, and its user.

    The limit is not that of open files: runc's exec, whose language raises that one for itself,
    has it raised now and then.
    """
    document = material.with_flags(_FIRST, ())
    document["process"]["rlimits"] = [{"type": "RLIMIT_MSGQUEUE", "soft": 123, "hard": 456}]
    document["linux"]["seccomp"]["syscalls"][0]["names"] = ["mkdir", "mkdirat"]
    with _container(program, document) as first, _second(program) as (_, second):
        for name in _PRIVILEGES:
            had, has = (tried.status_field(pid, name) for pid in (first, second))
            if had != has:
                raise NotYet("exec-has-more", f"{name} is {has}, not {had}")
        limits = [Path(f"{PROC}/{pid}/limits").read_text().splitlines() for pid in (first, second)]
        for had, has in zip(*limits, strict=True):
            if had != has and had.startswith("Max msgqueue"):
                raise NotYet("exec-has-more", " ".join(has.split()))
        if _exec(program, "mkdir", "/tmp/made").status == 0:
            raise NotYet("exec-has-more", "a call that the filter refuses was let through: mkdir")


def config_is_followed(program: TriedProgram) -> None:
    """Environment and directory are config.json's."""
    with _container(program):
        done = _exec(program, "/bin/sh", "-c", 'echo "$FROM_CONFIG"; pwd; env')
        said = [*done.out.splitlines(), "", ""]
        if said[0] != "yes":
            raise NotYet("environment", f"FROM_CONFIG is {said[0]!r}" if done.out else done.said)
        if said[1] != "/tmp":
            raise NotYet("cwd", said[1])
        if "NVIDIA_DRIVER_ROOT=" in done.out:
            raise NotYet("hosts-environment")


def no_descriptor_is_handed_on(program: TriedProgram) -> None:
    """It has its three streams: nothing of exec's own, and nothing of exec's caller."""
    fd = fcntl.fcntl(0, fcntl.F_DUPFD, 50)
    try:
        with _container(program), _second(program, fds=(fd,)) as (_, second):
            links = {name: os.readlink(f"{PROC}/{second}/fd/{name}")
                     for name in os.listdir(f"{PROC}/{second}/fd")}  # fmt: skip
    finally:
        os.close(fd)
    if str(fd) in links:
        raise NotYet("callers-descriptor", str(fd))
    if more := sorted({*links} - {"0", "1", "2"}):
        raise NotYet("descriptor-leaked", f"{more[0]} → {links[more[0]]}")


def process_file_is_followed(program: TriedProgram) -> None:
    """--process FILE describes the command, as an engine writes it."""
    path = HOME / "process.json"
    script = 'echo "$FROM_FILE$FROM_CONFIG"; pwd; id -u; id -g'
    process = {"terminal": False, "cwd": "/dev", "args": ["/bin/sh", "-c", script],
               "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "FROM_FILE=yes"],
               "user": {"uid": 1000, "gid": 1001}}  # fmt: skip
    path.write_text(json.dumps(process))
    with _container(program):
        done = _exec(program, flags=("--process", str(path)))
        said = done.out.splitlines()
        for name, seen, wanted in zip(
            ("env", "cwd", "uid", "gid"), [*said, *[""] * 4], ("yes", "/dev", "1000", "1001"),
            strict=False,
        ):  # fmt: skip
            if seen != wanted:
                raise NotYet("exec-process", f"{name} is {seen!r}" if said else done.said)


def it_can_be_left(program: TriedProgram) -> None:
    """--detach returns while the command runs; --pid-file has its pid on the host."""
    path = HOME / "exec-pid"
    path.unlink(missing_ok=True)
    words = _words(program, *_SECOND, flags=("--detach", "--pid-file", str(path)))
    with _container(program):
        pid = 0
        try:
            done = program.call(words)
            pid = wait(lambda: tried.pid_of(_SECOND))
        except NotYet as finding:
            raise NotYet("exec-detach", f"exec: {finding.key}") from None
        finally:
            _end(pid or tried.pid_of(_SECOND))
            if not pid:  # what was killed with exec has no command line any more
                wait(_reap, 1.0)
    if not pid:
        raise NotYet("exec-detach", done.said if done.status else "the command does not run")
    own = path.read_text().strip() if path.exists() else ""
    if own != str(pid):
        raise NotYet("exec-detach", f"the pid file has {own or 'nothing'}, not {pid}")


def _end(pid: int) -> None:
    """Kill a command whose exec has ended: no init of a host is here that waits for it."""
    with suppress(ProcessLookupError, ChildProcessError):
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _reap() -> None:
    """Wait for all children that have ended: until then their container does not."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def stopped_is_refused(program: TriedProgram) -> None:
    """In a container that has stopped exec is an error."""
    with _container(program) as first:
        os.kill(first, signal.SIGKILL)
        wait(lambda: tried.state(first) in ("", "Z", "X"))
        if _exec(program, "true").status == 0:
            raise NotYet("exec-of-stopped")


@contextmanager
def _container(program: TriedProgram, document: dict[str, Any] | None = None) -> Iterator[int]:
    """Start a container that sleeps; yield its init's pid. It is deleted afterwards. NotYet."""
    directory = program.bundle("plain", document or material.config(args=[*_FIRST]))
    if (done := program.runtime("create", "--bundle", str(directory), "first")).status:
        raise NotYet("create", done.said)
    try:
        program.runtime("start", "first")
        if not (pid := wait(lambda: tried.pid_of(_FIRST))):
            raise NotYet("start", "the command does not run")
        yield pid
    finally:
        program.runtime("delete", "--force", "first")


@contextmanager
def _second(program: TriedProgram, fds: tuple[int, ...] = ()) -> Iterator[tuple[Started, int]]:
    """Execute a second command that goes on; yield (exec itself, the command's pid). NotYet."""
    try:
        with program.running(*_SECOND, words=_words(program, *_SECOND), fds=fds) as found:
            yield found
    except NotYet as finding:
        if finding.key != "command-not-run":
            raise
        raise NotYet("exec", finding.detail) from None


def _exec(
    program: TriedProgram, *command: str, flags: tuple[str, ...] = (), text: str = ""
) -> Done:
    """Execute a second command to its end. Raises NotYet."""
    return program.call(_words(program, *command, flags=flags), text)


def _words(program: TriedProgram, *command: str, flags: tuple[str, ...] = ()) -> list[str]:
    """Return the command line that executes `command` in the container."""
    return [*program.command, "--root", str(HOME / "root"), "exec", *flags, "first", *command]
