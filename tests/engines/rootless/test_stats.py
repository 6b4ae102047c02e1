"""What is not counted is not said to be zero."""

import json
from pathlib import Path

from engines.rootless.conftest import User


def test_without_a_cgroup(user: User) -> None:
    assert user("run", "-d", "--name", "c", "busybox", "sleep", "99").returncode == 0
    rows = user("stats", "--no-stream", "--format", "json").stdout.splitlines()
    (row,) = (json.loads(line) for line in rows)
    names = ("CPUPerc", "MemUsage", "MemPerc", "BlockIO", "PIDs")
    assert [row[name] for name in names] == ["--", "-- / --", "--", "--", "--"]
    assert row["NetIO"] == "0B / 0B", "measured: nothing has come or gone"
    page = user("stats", "--no-stream").stdout
    assert "0.00%" not in page and "--" in page


def test_with_some_controllers(delegated: User) -> None:
    """On a hybrid machine a user's cgroup2 has none of those that version 1 has."""
    assert delegated("run", "-d", "--name", "c", "busybox", "sleep", "99").returncode == 0
    record = json.loads((delegated.directory("c") / "state.json").read_text())
    folder = Path(record["cgroup"]["dirs"][""])
    (line,) = delegated("stats", "--no-stream", "--format", "json").stdout.splitlines()
    row = json.loads(line)
    files = {"PIDs": "pids.current", "MemPerc": "memory.current", "BlockIO": "io.stat"}
    for name, file in files.items():
        assert (row[name] != "--") == (folder / file).exists(), name
    assert row["CPUPerc"].endswith("%")
