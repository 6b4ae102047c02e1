"""`minirun doctor` says what a user without root can do: to the user, and to root."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from conftest import Program
from engines.rootless.conftest import User
from minirun.oci.namespaces import idmap
from required import installed, skip


def test_for_the_user(user: User) -> None:
    done = user("doctor", "--json")
    report = json.loads(done.stdout)
    found = {row["name"]: row for row in report["findings"]}
    assert (done.returncode, report["ok"]) == (0, True)
    assert found["user namespace"]["found"].startswith("one id: the user is 0 in it")
    assert found["overlay by a user"]["works"] and found["pivot_root"]["works"]
    helpers = all(map(idmap.find_program, idmap.PROGRAMS))
    granted = "0 user ids and 0 group ids are granted to you"
    assert found["more ids"]["found"] == (
        granted if helpers else "not installed: newuidmap, newgidmap"
    )
    assert not found["delegated cgroup"]["works"]
    assert "mknod" not in found and "cgroup v1" not in found
    assert "minirun run works here, without root" in user("doctor").stdout
    assert not list(user.home.rglob(".doctor-*")), "nothing is left"


def test_with_a_grant(granted: User) -> None:
    found = {row["name"]: row for row in json.loads(granted("doctor", "--json").stdout)["findings"]}
    assert found["more ids"]["found"] == "65536 user ids, 65536 group ids"


def test_with_a_cgroup(delegated: User) -> None:
    rows = json.loads(delegated("doctor", "--json").stdout)["findings"]
    found = {row["name"]: row for row in rows}
    assert found["delegated cgroup"]["works"]
    assert found["delegated cgroup"]["found"].endswith("-rootless")


def test_root_learns_what_users_can_do(minirun: Program) -> None:
    page = minirun("doctor").stdout
    title = page.index("without root  what a user can do")
    rest = page[title:].splitlines()[1:7]
    assert [line.split("  ")[2].strip() for line in rest][:2] == ["user namespace", "more ids"]
    assert rest[0].startswith("  ok  user namespace     one id")


@pytest.mark.parametrize(("mode", "works"), [(0o666, True), (0o600, False)])
def test_a_users_network(minirun: Program, nodes_path: Path, mode: int, works: bool) -> None:
    """It hangs on who may open /dev/net/tun: here one of the test's own."""
    program = installed("pasta")
    if not os.path.exists("/dev/net/tun"):
        skip("this kernel has no /dev/net/tun")
    tun = nodes_path / "tun"
    os.mknod(tun, stat.S_IFCHR, os.makedev(10, 200))
    tun.chmod(mode)
    words = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /dev/net/tun && exec "$@"', str(tun)]
    argv = [*words, *minirun.argv("doctor", "--json")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    rows = {row["name"]: row for row in json.loads(done.stdout)["findings"]}
    assert rows["user network"]["works"] == works, rows["user network"]
    found = f"{program}: the default" if works else "/dev/net/tun: permission denied"
    assert rows["user network"]["found"].startswith(found)
    tun.unlink()
