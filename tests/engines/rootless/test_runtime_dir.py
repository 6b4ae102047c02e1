"""$XDG_RUNTIME_DIR and the state root of a user: the user's own, or not used."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.rootless.conftest import UID, User, run


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A directory that the user may write to."""
    with tempfile.TemporaryDirectory(prefix="minirun-xdg-") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "runtime")
        path.mkdir(mode=0o700)
        os.chown(path, UID, UID)
        yield path


def spoil(path: Path, how: str) -> str:
    """Make it another user's to change; return what is said of it."""
    if how == "root's":
        os.chown(path, 0, 0)
        path.chmod(0o1777)
        return "it belongs to user 0"
    if how == "a link":
        path.rename(path.parent / "real")
        path.symlink_to(path.parent / "real")
        return "it is a link, or no directory"
    path.chmod(0o777 if how == "the world's" else 0o770)
    return "other users may write to it"


NAMES = ("ps", "-a", "--format", "{{.Names}}")
HOW = ("root's", "a link", "the world's", "a group's")


@pytest.mark.parametrize("how", HOW)
def test_a_runtime_directory_that_is_not_the_users_own(user: User, runtime: Path, how: str) -> None:
    reason = spoil(runtime, how)
    user.env["XDG_RUNTIME_DIR"] = str(runtime)
    done = run(user.argv("run", "--name", "x", "busybox", "echo", "hi"))
    assert (done.returncode, done.stdout) == (0, "hi\n"), done
    line = f"minirun: warning: $XDG_RUNTIME_DIR: {runtime} is not used: {reason}\n"
    assert line in done.stderr
    assert list(runtime.iterdir()) == []
    assert run(user.argv(*NAMES)).stdout == "x\n"
    del user.env["XDG_RUNTIME_DIR"]
    assert run(user.argv(*NAMES)).stdout == "x\n"


def test_the_users_own(user: User, runtime: Path) -> None:
    user.env["XDG_RUNTIME_DIR"] = str(runtime)
    done = run(user.argv("run", "--name", "x", "busybox", "echo", "hi"))
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert "XDG" not in done.stderr
    assert (runtime / "minirun/.names/x/state.json").exists()
    assert run(user.argv("delete", "--force", "x")).returncode == 0


VERBS = (("ps",), ("ps", "-a"), ("ps", "-aq"), ("stats", "--no-stream"), ("timeline",))


def test_each_container_is_there_once(user: User, runtime: Path) -> None:
    """Also if the user comes without a runtime directory, and comes back with one."""
    user.env["XDG_RUNTIME_DIR"] = str(runtime)
    ids = []
    for _ in range(2):
        done = user("run", "-d", "busybox", "sleep", "99")
        assert done.returncode == 0, done.stderr
        ids.append(done.stdout.strip())
    del user.env["XDG_RUNTIME_DIR"]
    for env in ({}, {"XDG_RUNTIME_DIR": str(runtime)}):
        user.env |= env
        for verb in VERBS:
            said = user(*verb).stdout
            assert [said.count(each[:12]) for each in ids] == [1, 1], (verb, said)
        for verb in ("inspect", "top", "logs"):
            assert user(verb, ids[0][:6]).returncode == 0, "the id is not ambiguous"
        made = user("events", "--since", "1h", "--until", "0s", "--filter", "event=create")
        assert [made.stdout.count(f"create {each}") for each in ids] == [1, 1], made
    done = user("rm", "-f", *user("ps", "-aq").stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert user("ps", "-aq").stdout == ""


def test_what_was_made_without_a_runtime_directory(user: User, runtime: Path) -> None:
    """By a cron job, say: a login, which has one, finds it."""
    assert user("run", "--name", "x", "busybox", "true").returncode == 0
    user.env["XDG_RUNTIME_DIR"] = str(runtime)
    assert run(user.argv(*NAMES)).stdout == "x\n"
    assert user("rm", "x").returncode == 0


@pytest.mark.parametrize("how", HOW)
def test_a_named_root_that_is_not_the_users_own(user: User, runtime: Path, how: str) -> None:
    reason = spoil(runtime, how)
    done = run(user.argv("--root", str(runtime), "run", "busybox", "true"))
    assert done.returncode == 125
    assert f"{runtime}: no containers are kept there: {reason}" in done.stderr
    assert list(runtime.iterdir()) == []
