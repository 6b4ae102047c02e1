"""A user on a machine of cgroup version 2 alone: /sys brings the host's cgroups along."""

import json
import os
from pathlib import Path

import pytest

from conftest import VERSION_2_ALONE
from engines.rootless.conftest import User
from required import skip

SEEN = "cat /sys/fs/cgroup/cgroup.procs >/dev/null && ls /sys/class/net >/dev/null && echo seen"


@pytest.fixture(params=["delegated", "not delegated"])
def user_of_v2(request: pytest.FixtureRequest) -> User:
    """The user, in a cgroup that is the user's own, or in one of root's."""
    if "cgroup2" not in Path("/proc/filesystems").read_text():
        skip("this kernel has no cgroup2")
    own = request.param == "delegated"
    user: User = request.getfixturevalue("delegated" if own else "user")
    user.before = (*user.before, *VERSION_2_ALONE)
    return user


def test_a_bundle_of_spec_rootless(user_of_v2: User) -> None:
    """It binds the host's /sys with all below it, and has an entry of type cgroup as well."""
    done = user_of_v2("run", "--bundle", str(user_of_v2.bundle("sh", "-c", SEEN)), "b")
    assert (done.returncode, done.stdout, done.stderr) == (0, "seen\n", "")


def test_the_hosts_network(user_of_v2: User) -> None:
    """A new sysfs needs a network namespace of the container's: the host's is bound."""
    done = user_of_v2("run", "--rm", "--network", "host", "busybox", "sh", "-c", SEEN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "seen\n", "")


@pytest.mark.parametrize("own", [False, True])
def test_what_the_bundle_sees_is_where_it_is(user_of_v2: User, own: bool) -> None:
    """In a cgroup namespace of its own it sees that cgroup alone; else its path leads there."""
    script = "p=$(sed -n s/^0:://p /proc/self/cgroup); stat -c %i /sys/fs/cgroup$p; exec sleep 60"
    bundle = user_of_v2.bundle("sh", "-c", script)
    config = json.loads((bundle / "config.json").read_text())
    rows = [row for row in config["linux"]["namespaces"] if row["type"] != "cgroup"]
    config["linux"]["namespaces"] = [*rows, *[{"type": "cgroup"}] * own]
    (bundle / "config.json").write_text(json.dumps(config))
    with user_of_v2.start("run", "--bundle", str(bundle), "b") as process:
        assert process.stdout and process.stderr
        seen = process.stdout.readline().strip()
        assert seen, process.stderr.read()
        pid = json.loads(user_of_v2("state", "b").stdout)["pid"]
        mounts = Path("/proc/mounts").read_text().splitlines()
        mount = next(row.split()[1] for row in mounts if " cgroup2 " in row)
        rows = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        path = next(row.removeprefix("0::") for row in rows if row.startswith("0::"))
        assert seen == str(os.stat(mount + path).st_ino)
        assert user_of_v2("kill", "b", "KILL").returncode == 0
