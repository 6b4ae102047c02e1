"""A user's container starts again: nothing that the first start leaves is in the second's way."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import wait_until
from engines.rootless.conftest import User, quietly

SCRIPT = "echo run >> /count; exec sleep 99"


def directory(user: User) -> Path:
    return user.directory("again")


def record(user: User) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory(user) / "state.json").read_text())
    return found


def count(user: User) -> int:
    path = directory(user) / "upper/count"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_start_stop_kill_restart_in_turns(user: User) -> None:
    assert quietly(user.argv("create", "--name", "again", "busybox", "sh", "-c", SCRIPT)) == 0
    names = set()
    for number, end in enumerate((("kill",), ("stop", "-t", "0"), ("restart", "-t", "0")), 1):
        assert quietly(user.argv("start", "again")) == 0
        wait_until(lambda number=number: count(user) == number)
        names.add(tuple(sorted(path.name for path in directory(user).iterdir())))
        assert quietly(user.argv(*end, "again")) == 0
        if end[0] != "restart":
            wait_until(lambda: record(user)["status"] == "stopped")
    wait_until(lambda: count(user) == 4)
    assert user("exec", "again", "id", "-u").stdout == "0\n"
    assert len(names) == 1, "each start leaves what the first has left"


@pytest.mark.parametrize("policy", ["on-failure:2", "always"])
def test_restart_policies(user: User, policy: str) -> None:
    crash = "echo run >> /count; exit 3"
    words = ("run", "-d", "--name", "again", "--restart", policy, "busybox", "sh", "-c", crash)
    assert quietly(user.argv(*words)) == 0
    wait_until(lambda: count(user) >= 3)


def test_start_attached(user: User) -> None:
    script = ("busybox", "sh", "-c", "cat; exit 4")
    done = user("run", "-i", "--name", "again", *script, input="one\n")
    assert (done.stdout, done.returncode) == ("one\n", 4), done.stderr
    done = user("start", "-ai", "again", input="two\n")
    assert (done.stdout, done.returncode) == ("two\n", 4), done.stderr
