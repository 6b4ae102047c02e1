"""A cgroup2 that root has delegated to the user: everything but device rules."""

import json

from engines.rootless.conftest import User


def test_the_container_is_beside_its_caller(delegated: User) -> None:
    assert delegated("run", "-d", "--name", "g", "busybox", "sleep", "60").returncode == 0
    found = json.loads(delegated("inspect", "--json", "g").stdout)
    directory = found["cgroup"]["dirs"][""]
    assert f"-rootless/minirun/{delegated.id('g')}." in directory
    with open(f"{directory}/cgroup.procs") as file:
        assert file.read().split() == [str(found["pid"])]
    assert delegated("exec", "g", "grep", "0::", "/proc/self/cgroup").stdout == "0::/\n"
    assert delegated("pause", "g").returncode == 0
    assert json.loads(delegated("state", "g").stdout)["status"] == "paused"
    assert delegated("resume", "g").returncode == 0
    stats = json.loads(delegated("events", "--stats", "g").stdout)
    assert stats["data"]["cpu"]["usage"]["total"] > 0
    assert delegated("delete", "--force", "g").returncode == 0


def test_a_limit_whose_controller_is_elsewhere(delegated: User) -> None:
    done = delegated("run", "--rm", "--memory", "64m", "busybox", "true")
    if done.returncode == 0:  # a machine with cgroup2 alone may have handed the controller down
        return
    assert done.returncode == 125
    assert "linux.resources.memory" in done.stderr and done.stderr.count("\n") == 1
