"""A user who has logged in by ssh to a machine that systemd has started, as people do.

Only on the machine of `make test-v2`, which says in MINIRUN_LOGIN who logs in (tests/v2/enter.sh).
"""

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

Login = Callable[[str], str]
CLIENT = ("ssh", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "StrictHostKeyChecking=no")
BUNDLE = """
mkdir -p bundle/rootfs/bin && cd bundle && cp /bin/busybox rootfs/bin/
for name in sh cat sleep id; do ln -sf busybox rootfs/bin/$name; done
rm -f config.json; minirun spec --rootless
sed -i 's/"terminal": true/"terminal": false/; s/"sh"/"sleep", "600"/' config.json
"""


@pytest.fixture
def login() -> Iterator[Login]:
    """Types a script in a session of its own, and returns what it prints, errors too."""
    who = os.environ.get("MINIRUN_LOGIN")
    if not who:
        pytest.skip("nobody may log in to this machine: make test-v2")

    def type_in(script: str) -> str:
        done = subprocess.run(
            [*CLIENT, who, f"exec 2>&1; set -e; {script}"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True, timeout=900, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    type_in("minirun images build busybox")
    yield type_in
    type_in("for id in $(minirun list -q); do minirun delete --force $id; done")


def test_a_login_is_a_session(login: Login) -> None:
    """If it were none, the tests below would be about something else."""
    assert "/session-" in login("cat /proc/self/cgroup")
    assert login("ls $XDG_RUNTIME_DIR; systemctl --user is-active dbus.socket").count("bus") == 1


def test_limits_from_a_login(login: Login) -> None:
    script = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max /sys/fs/cgroup/cpu.max"
    flags = "--memory 64m --pids-limit 30 --cpus 0.5"
    said = login(f"minirun run --rm {flags} busybox sh -c '{script}'")
    assert said.split() == [str(64 << 20), "30", "50000", "100000"]


def test_the_life_of_a_container_in_several_sessions(login: Login) -> None:
    login("minirun run -d --name w --memory 64m busybox sleep 600")
    pid = login("minirun inspect --format '{{.State.Pid}}' w").strip()
    place = login(f"cat /proc/{pid}/cgroup").strip()
    assert "/user@1000.service/user.slice/minirun-w" in place and place.endswith(".scope")
    assert login("minirun exec w cat /proc/self/cgroup").strip() == "0::/"
    assert " 64MiB " in login("minirun stats --no-stream w")
    login("minirun pause w")
    assert "Paused" in login("minirun ps")
    login("minirun unpause w; minirun update --memory 32m w")
    assert login("minirun exec w cat /sys/fs/cgroup/memory.max").strip() == str(32 << 20)
    assert "sleep 600" in login("minirun top w")
    login("minirun stop -t 1 w; minirun rm w")
    unit = place.rpartition("/")[2]
    assert login(f"systemctl --user list-units --all --plain --no-legend {unit}") == ""


def test_a_bundle_from_a_login(login: Login) -> None:
    """Without a flag it has no cgroup, as with runc, and says by what it would have one."""
    login(f"{BUNDLE} minirun run -d one >/dev/null 2>&1 </dev/null")
    assert login("minirun exec one id").startswith("uid=0")
    said = login("! minirun pause one")
    assert "cannot be paused" in said and "minirun --systemd-cgroup" in said
    login("minirun delete --force one")
    assert login("cd bundle; minirun run --rm --network host busybox id").startswith("uid=0")


@pytest.mark.parametrize("before", ["", "systemd-run --quiet --user --scope -p Delegate=yes"])
def test_a_bundle_whose_cgroup_systemd_makes(login: Login, before: str) -> None:
    """Its flag asks for it; so does a place among the units of the user's manager."""
    flag = "" if before else "--systemd-cgroup"
    login(f"{BUNDLE} {before} minirun {flag} run -d two >/dev/null 2>&1 </dev/null; sleep 1")
    assert login("minirun exec two cat /proc/self/cgroup").strip() == "0::/"
    login("minirun pause two")
    assert '"paused"' in login("minirun state two")
    login("minirun resume two; minirun update --memory 64m two")
    assert login("minirun exec two cat /sys/fs/cgroup/memory.max").strip() == str(64 << 20)


def test_a_controller_that_the_user_was_not_given(login: Login) -> None:
    said = login("! minirun run --rm --cpuset-cpus 0 busybox true")
    assert "cpuset" in said and "systemctl edit user@.service" in said and said.count("\n") == 1
