"""More ids than one's own: /etc/subuid, /etc/subgid, newuidmap, newgidmap."""

import os

from conftest import wait_until
from engines.rootless.conftest import SUBIDS, UID, User

MAP = [f"0 {UID} 1", f"1 {SUBIDS[0]} {SUBIDS[1]}"]


def test_the_maps(granted: User) -> None:
    done = granted("run", "--rm", "busybox", "cat", "/proc/self/uid_map", "/proc/self/gid_map")
    assert done.returncode == 0, done.stderr
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [*MAP, *MAP]
    named = [event["name"] for event in granted.events()]
    assert named.count("newuidmap") == named.count("newgidmap") == 1


def test_another_user_and_further_groups(granted: User) -> None:
    done = granted("run", "--rm", "-u", "1000:100", "busybox", "sh", "-c", "id; touch /tmp/x")
    assert (done.returncode, done.stdout) == (0, "uid=1000 gid=100 groups=100\n")
    assert granted("run", "-d", "--name", "d", "-u", "33", "busybox", "sleep", "60").returncode == 0
    assert granted("exec", "d", "id", "-u").stdout == "33\n"
    assert granted("exec", "-u", "0", "d", "id", "-u").stdout == "0\n"
    assert granted("kill", "d", "KILL").returncode == 0


def test_files_of_other_ids_are_deleted_too(granted: User) -> None:
    script = "mkdir -m 700 /d; touch /d/x; chown -R 33:33 /d"
    assert granted("run", "--name", "f", "busybox", "sh", "-c", script).returncode == 0
    assert (granted.directory("f") / "upper/d").stat().st_uid == SUBIDS[0] + 32
    assert granted("delete", "f").returncode == 0
    assert not granted.directory("f").exists()


def test_ids_that_are_not_granted(granted: User) -> None:
    maps = ("--uidmap", f"0:{UID}:1", "--uidmap", "1:400000:10")
    done = granted("run", "--rm", *maps, "busybox", "true")
    assert done.returncode == 125
    assert "linux.uidMappings: newuidmap: uid range [1-11) -> [400000-400010)" in done.stderr
    assert done.stderr.endswith("(/etc/subuid says which ids are yours)\n")
    assert done.stderr.count("\n") == 1


def test_without_newuidmap_it_is_one_id(granted: User) -> None:
    empty = granted.home / "empty"
    empty.mkdir()
    for name in ("setpriv", "env"):
        os.symlink(f"/usr/bin/{name}", empty / name)
    granted.env["PATH"] = str(empty)
    done = granted("run", "--rm", "busybox", "cat", "/proc/self/uid_map")
    assert " ".join(done.stdout.split()) == MAP[0]
    refused = granted("run", "--rm", "--uidmap", f"0:{UID}:1", "--uidmap", "1:300000:9", "busybox")
    assert refused.returncode == 125
    assert f"without newuidmap only your own id, {UID}, can be mapped" in refused.stderr


def test_the_namespace_ends_with_the_container(granted: User) -> None:
    assert granted("run", "-d", "--name", "e", "busybox", "sleep", "60").returncode == 0
    assert granted("delete", "--force", "e").returncode == 0
    wait_until(lambda: not granted.directory("e").exists())
