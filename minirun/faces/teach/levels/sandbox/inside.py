"""Process 1 of a sandbox: it tries the learner's program, and prints what it found, as JSON.

It is executed in there (`python -m`): its executable, its libraries and its descriptors do not lead
to the host's files. A Job comes on standard input.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

from minirun import net
from minirun.core.kernel import mounts
from minirun.faces.teach.levels import attacks, checks, material
from minirun.faces.teach.levels.material import PROC
from minirun.faces.teach.levels.sandbox import Job
from minirun.faces.teach.levels.tried import TriedProgram

_CGROUPS = Path("/sys/fs/cgroup")


def main() -> None:
    """Do it."""
    answer: object
    try:
        answer = _try(Job(*json.load(sys.stdin)))
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        name = f"{where.name}, line {where.lineno}"
        answer = {"crash": f"{type(error).__name__}: {error} ({name})"}
    print(json.dumps(answer), flush=True)


def _try(job: Job) -> list[list[str]]:
    """Return what came of each promise, or attack. Raises OSError."""
    _prepare()
    layers = material.layers(job.lower)
    environment = {"NVIDIA_DRIVER_ROOT": material.own_driver(job.driver)}
    program = TriedProgram(job.command, job.number, layers, environment)
    if job.attack:
        return attacks.results(program)
    return checks.results(program, first=job.first)


def _prepare() -> None:
    """Make this a host as a program finds it. Raises OSError.

    Mounts are shared, as systemd has them on a host: a program that does not keep its mounts to
    itself is seen.
    """
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_SHARED)
    PROC.mkdir()
    mounts.mount("proc", str(PROC), "proc", mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC)
    mounts.mount(None, str(PROC), None, mounts.MS_PRIVATE)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")  # as on a host that is no router
    net.set_up("lo")
    if (_CGROUPS / "cgroup.procs").exists():  # version 2 alone
        (_CGROUPS / "check").mkdir()  # a cgroup with processes can hand no controller on
        (_CGROUPS / "check/cgroup.procs").write_text("0")


if __name__ == "__main__":
    main()
