"""The ways of a process into a container's cgroup: by clone on version 2, never by cgroup.procs.

A write there makes the kernel wait until no process anywhere is in the middle of a fork or exit.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from cgroups.conftest import add
from conftest import Program

ENTRANT = """
import os, sys
from minirun.cgroups.entrance import Entrance
if sys.argv[2] == "user":
    os.setgid(65534); os.setuid(65534)
entrance = Entrance(int(sys.argv[1]))
pid, _ = entrance.clone3(0, why="a test")
if pid == 0:
    entrance.join()
    print(open("/proc/self/cgroup").read(), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def enter(pid: int, user: str) -> str:
    argv = [sys.executable, "-c", ENTRANT, str(pid), user]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_it_leads_into_the_cgroups_of_a_process(open_cgroup, sleeper, version):
    cgroup = open_cgroup(version)
    cgroup.create()
    process = sleeper()
    add(cgroup, process.pid)
    there = Path(f"/proc/{process.pid}/cgroup").read_text().strip()
    assert cgroup.path in there
    assert enter(process.pid, "root") == there


def test_a_user_without_privileges_stays_outside(open_cgroup, sleeper):
    cgroup = open_cgroup("v2")
    cgroup.create()
    process = sleeper()
    add(cgroup, process.pid)
    assert enter(process.pid, "user") == Path("/proc/self/cgroup").read_text().strip()


def test_no_process_of_a_container_is_moved_by_its_number(minirun_both: Program):
    """Init, hooks, ldconfig, exec."""
    asked = ("--gpu-driver=simulated", "--gpus", "0,1")
    done = minirun_both("run", "-d", "--name", "x", *asked, "debian", "sleep", "100")
    assert done.returncode == 0, done.stderr
    assert minirun_both("exec", "x", "true").returncode == 0
    events = minirun_both.events("x")
    moved = [e for e in events if str(e["args"].get("path", "")).endswith("/cgroup.procs")]
    assert moved == []
    into = [e["actor"] for e in events if "CLONE_INTO_CGROUP" in e["args"].get("flags", "")]
    assert into == ["runtime", "cli", "exec"]
