"""`exec` into a container at its limit of processes, as a fork bomb leaves it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import Program, cgroup, wait_until
from required import installed

FULL = "for i in 1 2 3 4; do sleep 300 & done; exec sleep 300"


@pytest.mark.parametrize("room", [0, 1])
@pytest.mark.parametrize("words", [(), ("-u", "1000"), ("--privileged",), ("-t",)])
def test_exec_at_the_limit_of_processes(
    minirun: Program, words: tuple[str, ...], room: int
) -> None:
    """What the runtime needs is not charged there; the command itself is, and what it forks.

    `room`: with place for the one, and not for a second, the runtime has its copy first.
    """
    limit = ("--pids-limit", str(5 + room))
    done = minirun("run", "-d", "--name", "full", *limit, "busybox", "sh", "-c", FULL)
    assert done.returncode == 0, done.stderr
    current = Path(cgroup(minirun, "full"), "pids.current")
    wait_until(lambda: current.read_text() == "5\n")
    argv = minirun.argv("exec", *words, "full", "sh", "-c", "cat /proc/self/cgroup; :")
    forks = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           check=False, timeout=60)  # fmt: skip
    assert "can't fork" in forks.stdout + forks.stderr, "its own are counted"
    argv = minirun.argv("exec", *words, "full", "sleep", "77")
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as one:
        wait_until(lambda: current.read_text() == "6\n" or one.poll() is not None)
        assert one.poll() is None, one.communicate()
        assert minirun("exec", *words[:2], "full", "true").returncode == 0, "above the limit"
        minirun("delete", "--force", "full")
        one.communicate(timeout=20)


@pytest.mark.parametrize("affinity", [False, True], ids=["", "affinity"])
def test_exec_with_no_room_in_the_cgroup(minirun_both: Program, affinity: bool) -> None:
    """On version 2 no process is made in a full cgroup: it is made outside, and then moved in.

    strace says EAGAIN in the kernel's place, to the first call: a machine with both versions has
    the pids controller on version 1.
    """
    installed("strace")
    minirun_both("run", "-d", "--name", "full", "busybox", "sleep", "100")
    last = str(max(os.sched_getaffinity(0)))
    script = "cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status"
    process = {"cwd": "/", "args": ["sh", "-c", script], "env": ["PATH=/bin"]}
    process["user"] = {"uid": 0, "gid": 0}
    if affinity:
        process["execCPUAffinity"] = {"initial": "0", "final": last}
    file = minirun_both.root.parent / "p.json"
    file.write_text(json.dumps(process))
    fault = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=clone3:error=EAGAIN:when=1")
    argv = minirun_both.argv("exec", "--process", str(file), "full")
    done = subprocess.run([*fault, *argv], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pids:/\n" in done.stdout or "0::/\n" in done.stdout
    assert "/.." not in done.stdout, "outside of the container's cgroup"
    cpus = done.stdout.split()[-1]
    assert cpus == last if affinity else cpus.startswith("0"), cpus
