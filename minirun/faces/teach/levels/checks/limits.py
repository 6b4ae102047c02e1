"""Level 6: what the cgroup's files say, and what the kernel does about it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from minirun.faces.teach.levels import facts, tried
from minirun.faces.teach.levels.tried import Done, NotYet, TriedProgram

_BYTES, _PIDS, _CPUS = 32 << 20, 20, 0.5
_GREEDY = "a=x; while :; do a=$a$a; done"
"""A script that takes ever more memory."""


def limits_are_written(program: TriedProgram) -> None:
    """The command is in a cgroup of its own, whose files have the limits."""
    flags = ("--memory", "32M", "--pids-limit", str(_PIDS), "--cpus", str(_CPUS))
    with program.running("sleep", tried.SLEEP, flags=flags) as (_, pid):
        for controller, files, wanted in (
            ("memory", ("memory.limit_in_bytes", "memory.max"), str(_BYTES)),
            ("pids", ("pids.max",), str(_PIDS)),
            ("cpu", ("cpu.cfs_quota_us", "cpu.max"), "50000"),
        ):
            cgroup = facts.cgroup_of(pid, controller)
            if cgroup == facts.cgroup_of(os.getpid(), controller):
                raise NotYet("same-cgroup", controller)
            texts = [(cgroup / name).read_text() for name in files if (cgroup / name).exists()]
            if not texts:
                raise NotYet("no-controller", controller)
            number = texts[0].split()[0]
            if controller == "cpu":
                number = _of_a_second(cgroup, texts[0])
            if number != wanted:
                raise NotYet("limit", f"{cgroup}: {texts[0].strip()}, not {wanted}")


def _of_a_second(cgroup: Path, text: str) -> str:
    """Return the quota of a tenth of a second, in microseconds: any period will do."""
    quota, *rest = map(int, text.replace("max", "-1").split())
    period = rest or [int((cgroup / "cpu.cfs_period_us").read_text())]
    return str(quota * 100_000 // period[0])


def fork_is_refused(program: TriedProgram) -> None:
    """Beyond the limit fork(2) fails, and the container goes on."""
    script = "i=0; while [ $i -lt 30 ]; do sleep 3 & i=$((i+1)); done; echo on"
    done = program.run("/bin/sh", "-c", script, flags=("--pids-limit", "8"))
    if "fork" not in done.err:
        raise NotYet("limit", "pids")


def oom_is_said(program: TriedProgram) -> None:
    """A line says that it was memory; and only if it was."""
    done = _out_of_memory(program)
    if "memory" not in done.err.lower():
        raise NotYet("oom-silent", done.said)
    with program.running("sleep", tried.SLEEP, flags=("--memory", "32M")) as (started, pid):
        os.kill(pid, signal.SIGKILL)
        done = started.wait()
    if "memory" in done.err.lower():
        raise NotYet("oom-untrue", done.said)
    script = f"sh -c '{_GREEDY}'; exit 3"
    done = program.run("/bin/sh", "-c", script, flags=("--memory", "16M"))
    if done.status != 3 or "memory" not in done.err.lower():
        raise NotYet("oom-of-a-child", done.said)


def memory_is_refused(program: TriedProgram) -> None:
    """A command that the OOM killer ends gives 137."""
    done = _out_of_memory(program)
    if done.status != 137:
        raise NotYet("not-killed-for-memory", str(done.status))


def _out_of_memory(program: TriedProgram) -> Done:
    """Run a command that takes ever more memory."""
    return program.run("/bin/sh", "-c", _GREEDY, flags=("--memory", "16M"))


def cgroups_are_removed(program: TriedProgram) -> None:
    """No cgroup is left."""
    before = facts.cgroups()
    flags = ("--memory", "32M") if program.number >= 6 else ()
    program.run("true", flags=flags)
    if new := sorted(facts.cgroups() - before):
        raise NotYet("cgroup-left", new[0])
