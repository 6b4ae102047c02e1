"""Where a learner's program is tried: a container of minirun, which ends with the check.

The program runs as root on the learner's machine, and makes mistakes. What keeps them in:

    hostfiles      the host's files, as copies: what is removed or written is the sandbox's
    settings       its config.json: namespaces, capabilities, device rules, seccomp
    mount_guard    a file system of which there is one on a machine is not mounted
    sysctls        a setting of /proc/sys that there is once is not written
    inside         process 1 of the sandbox: it tries the program
    cgroups        its cgroups, with limits, in every tree
    witness        the host before and after

    minirun level check       keeper: process 1 of a pid namespace   sandbox
      │ cgroups, with limits     │                                      │
      │ ── clone3 ─────────────▶ │ copies of the host's files           │
      │                          │ ── minirun run ────────────────────▶ │ inside
      │                          │ ◀── mount(2)? ────────────────────── │
      │ ◀── what was found ───── │ ◀── what was found ───────────────── │
      │ kills the keeper, and with it all; removes the cgroups

What the man pages say: pid_namespaces(7), cgroup_namespaces(7), mount_namespaces(7).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO

from minirun.common.waiting import readable
from minirun.core.errors import MinirunError
from minirun.core.kernel import mounts, namespaces, process
from minirun.faces.teach.levels import attacks, checks, programs
from minirun.faces.teach.levels.sandbox import cgroups, hostfiles, mount_guard, settings, witness
from minirun.faces.teach.levels.sandbox.cgroups import SandboxCgroups

BASE = Path("/run/minirun-levels")
"""An empty directory. Each sandbox mounts its tmpfs there, in a mount namespace of its own."""
_FILES = 256 << 20
"""The most that may be written to copies of the host's files, in bytes."""
_LONGEST_ANSWER = 1 << 16
_NEEDS = {8: {"ip": "iproute2", "nft": "nftables"}}
"""Level → the programs that its checks call, and Debian's packages of them."""


class Job(NamedTuple):
    """One check."""

    number: int
    """The level's."""
    command: list[str]
    """The learner's program, as a command line."""
    lower: str
    """The layers of the image, as overlay's lowerdir has them."""
    driver: str
    """The root directory of the simulated driver."""
    majors: list[int]
    """The major numbers of its nodes."""
    first: bool
    """Whether to end at the first check that does not hold."""
    attack: bool = False
    """Whether to try the attacks, in place of the checks."""


class CheckAnswer(NamedTuple):
    """What a check has found."""

    results: list[list[str]]
    """Of each promise of the level, or attack, a finding's key, and its detail: see results of
    checks and attacks. If the program used up the sandbox's memory, that alone."""
    changed: str
    """What the program has done to the host's files, had they not been copies; "" if nothing."""
    refused: list[str]
    """The file systems that it wanted to mount, and of which there is one on a machine."""
    harmed: list[str]
    """How the host differs from what it was before: empty, unless the sandbox has a hole."""


def run(job: Job, seconds: float) -> CheckAnswer:
    """Check a program in a new sandbox.

    Raises MinirunError if it takes longer than `seconds` or dies, or needs a program that is not
    installed; OSError. The host is looked at in
    each case.
    """
    for name, package in _NEEDS.get(job.number, {}).items():
        if not shutil.which(name):
            hint = f"apt-get install {package}"
            raise MinirunError(f"this check needs {name}, which is not installed", hint)
    before = witness.look()
    try:
        found = _found(job, seconds)
    except MinirunError as error:
        if harmed := witness.differences(before, witness.look()):
            text = f"{error}; AND THE HOST IS NOT AS IT WAS: {'; '.join(harmed)}"
            raise MinirunError(text, error.hint) from None
        raise
    harmed = witness.differences(before, witness.look())
    return CheckAnswer(found["results"], found["changed"], found["refused"], harmed)


def _found(job: Job, seconds: float) -> dict[str, Any]:
    """Start the keeper; return what it found. Raises MinirunError, OSError."""
    with ExitStack() as undone:
        own = cgroups.make(undone)
        read_fd, write_fd = os.pipe()
        undone.callback(os.close, read_fd)
        go_read, go_write = os.pipe()
        undone.callback(os.close, go_write)
        pid, pidfd = namespaces.clone3(namespaces.CLONE_NEWNS | namespaces.CLONE_NEWPID)
        if pid == 0:
            process.prctl(process.PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(go_write)
            if os.read(go_read, 1):  # else the caller has died, and nothing will kill this process
                _keep(job, own, write_fd)
            os._exit(1)
        undone.callback(_kill, pid, pidfd)
        os.close(write_fd)
        os.close(go_read)
        own.enter_keeper(pid)
        os.write(go_write, b"\n")
        raw = _read_all(read_fd, seconds)
    if not raw:
        raise MinirunError("the sandbox ended before the check did", "run it once more")
    found: dict[str, Any] = json.loads(raw)
    if "crash" in found:
        raise MinirunError(found["crash"], found.get("hint", ""))
    return found


def _kill(pid: int, pidfd: int) -> None:
    """Kill the keeper, and with it all others."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(pidfd)


def _read_all(fd: int, seconds: float) -> bytes:
    """Read until the end. Raises MinirunError if that has not come after `seconds`."""
    answer = b""
    end = time.monotonic() + seconds
    while True:
        if not readable(fd, end):
            raise MinirunError(f"the check did not end within {seconds:.0f} seconds")
        chunk = os.read(fd, 65536)
        if not chunk:
            return answer
        answer += chunk


def _keep(job: Job, own: SandboxCgroups, write_fd: int) -> NoReturn:
    """Be the keeper: build the sandbox, wait for it, write what came of it."""
    answer: dict[str, Any]
    try:
        answer = _tried(job, own)
    except MinirunError as error:
        answer = {"crash": str(error), "hint": error.hint}
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        answer = {"crash": f"the check itself failed: {said}"}
    os.write(write_fd, json.dumps(answer).encode())
    os._exit(0)


def _tried(job: Job, own: SandboxCgroups) -> dict[str, Any]:
    """Run the sandbox; return the CheckAnswer as a document. Raises MinirunError, OSError."""
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    mounts.mount("proc", "/proc", "proc", mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC)
    BASE.mkdir(exist_ok=True)
    mounts.mount(hostfiles.SOURCE, str(BASE), "tmpfs", mounts.MS_NOSUID, f"mode=755,size={_FILES}")
    copy = hostfiles.HostFiles(BASE)
    copy.build()
    if missing := copy.missing([*job.command[:2], sys.executable, __file__]):
        text = f"{missing}: the sandbox cannot show the file system that it lies on"
        raise MinirunError(text, "copy it to another")
    listener = BASE / "mounts.sock"
    guard = mount_guard.MountGuard(listener)
    paths = [path for path in sys.path if path]
    search = os.environ.get("PATH", os.defpath)
    command = settings.Inside(sys.executable, paths, search, own.path)
    config = settings.config(copy, command, job.majors, listener)
    (BASE / "config.json").write_text(json.dumps(config))
    found = _run_container(job, guard, paths, own)
    return {"results": found, "changed": next(copy.changes(), ""), "refused": guard.refused}


def _run_container(
    job: Job, guard: mount_guard.MountGuard, paths: list[str], own: SandboxCgroups
) -> list[list[str]]:
    """Run `minirun run` to its end; return what was found. Raises MinirunError, OSError."""
    words = ["-m", "minirun", "--root", str(BASE / "state"), "run", "--bundle", str(BASE), "level"]
    env = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": os.pathsep.join(paths),
           "MINIRUN_STORE": str(BASE / "store"), "MINIRUN_LOG": "off"}  # fmt: skip
    with _memory_file(json.dumps(job)) as given, _memory_file() as out, _memory_file() as err:
        started = subprocess.Popen(
            [sys.executable, *words],
            env=env,
            cwd="/",
            stdin=given,
            stdout=out,
            stderr=err,
            preexec_fn=own.enter_unseen,
        )
        pidfd = os.pidfd_open(started.pid)
        guard.serve(pidfd)
        os.close(pidfd)
        status = started.wait()
        out.seek(0)
        err.seek(0)
        text, said = out.read(_LONGEST_ANSWER), err.read(_LONGEST_ANSWER).strip()
    if status in (128 + signal.SIGKILL, -signal.SIGKILL):
        return [["memory-used-up", f"{cgroups.MEMORY >> 20} MiB"]]
    if status or not text:
        last = said.splitlines()[-1].removeprefix("minirun: ") if said else f"status {status}"
        raise MinirunError(f"the sandbox ended before the check did: {last}")
    return _results(text, job)


def _memory_file(text: str = "") -> TextIO:
    """Return a file that lies on no file system, so that none can be too full for it."""
    file = open(os.memfd_create("minirun:level"), "w+", errors="replace")
    file.write(text)
    file.seek(0)
    return file


def _results(text: str, job: Job) -> list[list[str]]:
    """Return what process 1 of the sandbox says it found. Raises MinirunError.

    The learner's program is root beside it, so what it says is taken for no more than text.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("crash"), str):
        raise MinirunError(f"the check itself failed: {found['crash']}")
    keys = {"", checks.WITHHELD, *programs.findings()}
    if (
        not isinstance(found, list)
        or len(found) != len((attacks.attacks if job.attack else checks.promises)(job.number))
        or not all(isinstance(row, list) and len(row) == 2 for row in found)
        or not all(isinstance(text, str) for row in found for text in row)
        or not all(key in keys for key, _ in found)
    ):
        raise MinirunError("the sandbox's answer is no finding", "run it once more")
    return found
