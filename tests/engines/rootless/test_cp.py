"""`cp` by a user: into a container and out of it, while it waits, runs, and when it has ended."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from conftest import wait_until
from engines.rootless.conftest import SUBIDS, UID, User

SCRIPT = "mkdir /d; echo in > /d/f; chmod 600 /d/f; chown -R 7:7 /d; touch /ready; exec sleep 99"


@pytest.fixture(params=["created", "running", "stopped"])
def container(request: pytest.FixtureRequest, granted: User) -> tuple[User, str]:
    """A user with subordinate ids, and a container in that state."""
    state = str(request.param)
    words = ("--name", "c", "-v", "/volume", "busybox", "sh", "-c", SCRIPT)
    done = granted("create", *words)
    assert done.returncode == 0, done.stderr
    if state != "created":
        start(granted)
    if state == "stopped":
        assert granted("stop", "-t", "0", "c").returncode == 0
    return granted, state


def start(user: User) -> None:
    assert user("start", "c").returncode == 0
    wait_until(lambda: user("exec", "c", "test", "-e", "/ready").returncode == 0)


def given(user: User) -> Path:
    """A file of the user's."""
    path = user.home / "given"
    path.write_text("given\n")
    os.chown(path, UID, UID)
    return path


def test_into_it(container: tuple[User, str]) -> None:
    user, state = container
    own = given(user)
    for target in ("/etc/one", "/volume/two"):
        done = user("cp", str(own), f"c:{target}")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = user("cp", str(own), "c:/nowhere/x")
    assert done.returncode == 1 and "Could not find" in done.stderr
    if state != "running":
        start(user)
    seen = user("exec", "c", "sh", "-c", "cat /etc/one /volume/two; stat -c %u:%g /etc/one")
    assert seen.stdout == "given\ngiven\n0:0\n"


def test_out_of_it(container: tuple[User, str]) -> None:
    user, state = container
    done = user("cp", "c:/etc/passwd", str(user.home / "passwd"))
    assert (done.returncode, done.stderr) == (0, "")
    copy = user.home / "passwd"
    assert copy.read_text().startswith("root:") and copy.stat().st_uid == UID
    done = user("cp", "c:/nosuch", str(user.home / "x"))
    assert done.returncode == 1 and "Could not find the file /nosuch" in done.stderr
    if state == "created":
        return
    done = user("cp", "-a", "c:/d/f", str(user.home / "f"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (user.home / "f").stat().st_uid == UID, "the user's own, who could not remove another's"
    argv = user.argv("cp", "c:/d", "-")
    with tarfile.open(fileobj=io.BytesIO(output(argv))) as archive:
        assert [(m.name, m.uid, m.gid) for m in archive] == [("d", 7, 7), ("d/f", 7, 7)]


def output(argv: list[str]) -> bytes:
    return subprocess.run(argv, capture_output=True, check=True).stdout


def test_a_stranger_of_the_container(granted: User) -> None:
    """What is written as a user of the container has its subordinate id on the host."""
    words = ("--name", "c", "--user", "7", "busybox", "sleep", "99")
    assert granted("run", "-d", *words).returncode == 0
    assert granted("cp", "-a", str(given(granted)), "c:/tmp/x").returncode == 0
    assert granted("exec", "c", "stat", "-c", "%u", "/tmp/x").stdout == "7\n"
    assert (granted.directory("c") / "upper/tmp/x").stat().st_uid == SUBIDS[0] + 6


def test_ids_that_the_container_does_not_know(user: User) -> None:
    """Another user's file that may be read, and an archive: in there they are root's."""
    assert user("run", "-d", "--name", "c", "busybox", "sleep", "99").returncode == 0
    (user.home / "others").write_text("others\n")
    done = user("cp", str(user.home / "others"), "c:/one")
    assert (done.returncode, done.stderr) == (0, "")
    archive = user.home / "archive.tar"
    with tarfile.open(archive, "w") as file:
        member = tarfile.TarInfo("two")
        member.uid = member.gid = 4711
        file.addfile(member)
    with archive.open() as stream:
        done = subprocess.run(user.argv("cp", "-", "c:/"), stdin=stream, check=False)
    assert done.returncode == 0
    assert user("exec", "c", "stat", "-c", "%u:%g", "/one", "/two").stdout == "0:0\n0:0\n"


def test_a_link_of_the_container_leads_nowhere_else(user: User) -> None:
    script = "ln -s / /top; exec sleep 99"
    assert user("run", "-d", "--name", "c", "busybox", "sh", "-c", script).returncode == 0
    wait_until(lambda: user("exec", "c", "test", "-L", "/top").returncode == 0)
    (user.home / "kept").write_text("the host's\n")
    done = user("cp", f"c:/top{user.home}/kept", str(user.home / "x"))
    assert done.returncode == 1 and not (user.home / "x").exists()
