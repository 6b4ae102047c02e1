"""`minirun doctor` says what a user without root can do: to the user, and to root."""

import json

from conftest import Program
from engines.rootless.conftest import User
from minirun.oci.namespaces import idmap


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
