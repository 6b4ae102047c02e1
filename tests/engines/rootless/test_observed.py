"""`minirun observe` of a rootless runc and crun: by root, and by the user."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.rootless.conftest import SUBIDS, UID, User
from minirun.faces.show.log.recording import Recording, read
from required import installed


class Start:
    """A bundle of a user without privileges, whose hook and command write down who they are."""

    def __init__(self, user: User, name: str) -> None:
        self.user = user
        self.bundle = user.bundle("sh", "-c", "cat /proc/self/uid_map; readlink /proc/self/ns/user")
        self.log, self.facts = user.home / "seen.jsonl", user.home / "facts"
        self.words = [installed(name), "--root", str(user.home / "state")]
        self.words += ["run", "--bundle", str(self.bundle), "seen"]
        config = json.loads((self.bundle / "config.json").read_text())
        script = f"echo $$ > {self.facts}; cat >/dev/null"
        config["hooks"] = {"prestart": [{"path": "/bin/sh", "args": ["sh", "-c", script]}]}
        config["ociVersion"] = "1.0.2"  # crun 1.8 knows no later one
        (self.bundle / "config.json").write_text(json.dumps(config))

    def check(self, done: subprocess.CompletedProcess[str]) -> Recording:
        """Check the container's own words: it runs, in a user namespace of its own."""
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[-1] != os.readlink("/proc/self/ns/user")
        (found,) = read(self.log)
        return found

    def check_all(self, done: subprocess.CompletedProcess[str]) -> None:
        """Check what was seen: all stages, the hook, and who wrote the id map."""
        found = self.check(done)
        assert [stage.number for stage in found.stages] == [1, 2, 3, 6, 7]
        assert found.complete
        pid = int(self.facts.read_text())
        (hook,) = [e for e in found.events if e.pid == pid and e.kind == "exec"]
        assert (hook.actor, hook.stage) == ("hook", 3)
        maps = [e for e in found.events if e.name == "write" and "uid_map" in str(e.args["path"])]
        last = str(maps[-1].args["data"]).replace("\0", " ")
        assert last.split() == done.stdout.split()[:-1]
        assert {event.stage for event in maps} == {1}


@pytest.fixture(params=["runc", "crun"])
def start(request: pytest.FixtureRequest, user: User) -> Iterator[Start]:
    """crun works where it sees no cgroup2: it refuses one beside version 1's hierarchies."""
    if request.param == "crun":
        hide = 'umount --all --types cgroup2; exec "$@"'
        user.before = ("unshare", "--mount", "sh", "-c", hide, "sh")
    yield Start(user, request.param)


def test_root_sees_all(start: Start, tmp_path: Path) -> None:
    user = start.user
    before, user.before = user.before, ()
    start.log = tmp_path / "seen.jsonl"
    words = [user.path, "observe", "-o", str(start.log), "--", *user.as_user(*start.words)]
    done = subprocess.run([*before, *words], capture_output=True, text=True, check=False)
    start.check_all(done)


def test_the_user_sees_what_strace_may_read(start: Start) -> None:
    """crun's init is not dumpable, so the user's strace cannot read it. That is said."""
    done = start.user("observe", "-o", str(start.log), "--", *start.words)
    if "runc" in start.words[0]:
        start.check_all(done)
        assert "could not read" not in done.stderr
        return
    found = start.check(done)
    assert [stage.number for stage in found.stages] == [1]
    assert "not readable" in {event.name for event in found.events}
    assert "could not read" in done.stderr
    assert "as root" in done.stderr


def test_newuidmap_has_no_privilege_under_a_users_strace(granted: User) -> None:
    """execve(2): a set-user-ID program that is traced without CAP_SYS_PTRACE gets no privilege."""
    start = Start(granted, "runc")
    config = json.loads((start.bundle / "config.json").read_text())
    for key in ("uidMappings", "gidMappings"):
        config["linux"][key].append({"containerID": 1, "hostID": SUBIDS[0], "size": 10})
    (start.bundle / "config.json").write_text(json.dumps(config))
    done = granted("observe", "-o", str(start.log), "--", *start.words)
    assert done.returncode
    assert "newuidmap has no privilege under a user's strace" in done.stderr
    before, granted.before = granted.before, ()
    words = [granted.path, "observe", "--", *granted.as_user(*start.words)]
    done = subprocess.run([*before, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:-1] == ["0", str(UID), "1", "1", str(SUBIDS[0]), "10"]
    assert "no privilege" not in done.stderr
