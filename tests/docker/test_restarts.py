"""Containers that start again: --restart, start, restart; who may stop that, and what is left."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from core.lifecycle.leftovers import Family, assert_nothing
from minirun.core.errors import UsageError
from minirun.docker import restarts
from minirun.oci import descriptors

NAME = f"again-{os.getpid()}"
"""Tests beside this one have other cgroups."""
CRASH = ("busybox", "sh", "-c", "echo run >> /count; echo again; exit 3")


def record(minirun: Program, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((minirun.directory(name) / "state.json").read_text())
    return found


def count(minirun: Program, name: str) -> int:
    path = minirun.directory(name) / "upper/count"
    return len(path.read_text().splitlines()) if path.exists() else 0


def remove(minirun: Program, name: str, family: Family) -> None:
    done = minirun("rm", "-f", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert_nothing(minirun, name, family)


def test_back_off() -> None:
    """docker's: 0.1 s, twice as long each time, up to a minute; after a good run from the start."""
    waits, last = [], 0.0
    for _ in range(30):
        last = restarts.delay(last, 0.5)
        waits.append(last)
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8] and waits[9:] == [51.2] + [60.0] * 20
    assert restarts.delay(60.0, 9.9) == 60.0 and restarts.delay(60.0, 10.0) == 0.1


@pytest.mark.parametrize(
    ("text", "status", "times", "wanted"),
    [
        ("no", 1, 0, False), ("always", 0, 99, True), ("unless-stopped", 7, 0, True),
        ("on-failure", 0, 0, False), ("on-failure", 1, 99, True),
        ("on-failure:2", 1, 1, True), ("on-failure:2", 1, 2, False), ("on-failure:0", 1, 5, True),
    ],
)  # fmt: skip
def test_policies(text: str, status: int, times: int, wanted: bool) -> None:
    assert restarts.parse(text).wants(status, times) is wanted


@pytest.mark.parametrize("text", ["", "yes", "always:1", "on-failure:", "on-failure:-1", "no:0"])
def test_wrong_policies(text: str) -> None:
    with pytest.raises(UsageError, match="invalid --restart"):
        restarts.parse(text)


def test_it_starts_again_so_often(minirun: Program) -> None:
    """Files, output and back-off; each start has a log, and says so in the record."""
    began = time.monotonic()
    assert minirun("run", "-d", "--name", NAME, "--restart", "on-failure:3", *CRASH).returncode == 0
    family = Family(record(minirun, NAME)["supervisor"]["pid"])
    wait_until(lambda: record(minirun, NAME).get("restarts") == 3, 20)
    wait_until(lambda: not family.alive(), 10)
    assert time.monotonic() - began > 0.1 + 0.2 + 0.4
    kept = record(minirun, NAME)
    assert (kept["status"], kept["exit_status"], count(minirun, NAME)) == ("stopped", 3, 4)
    assert minirun("logs", NAME).stdout == "again\n" * 4
    assert sum(event["name"] == "clone3" for event in minirun.events(NAME)) == 1
    remove(minirun, NAME, family)


def test_a_start_that_fails_is_the_end(minirun: Program, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    words = ("--mount", f"type=bind,src={tmp_path}/folder,dst=/mnt", *CRASH)
    minirun("run", "-d", "--name", NAME, "--restart", "always", *words)
    family = Family(record(minirun, NAME)["supervisor"]["pid"])
    wait_until(lambda: count(minirun, NAME) >= 1, 20)
    (tmp_path / "folder").rmdir()
    wait_until(lambda: not family.alive(), 20)
    kept = record(minirun, NAME)
    assert kept["status"] == "stopped" and kept["exit_status"] not in (0, 3)
    remove(minirun, NAME, family)


@pytest.mark.parametrize("policy", ["no", "on-failure"])
def test_the_second_run_is_a_run(minirun: Program, policy: str) -> None:
    """By hand or by itself: its status is running, and exec, kill and stop heed that."""
    script = "echo run >> /count; [ $(wc -l < /count) = 2 ] || exit 3; sleep 99"
    minirun("run", "-d", "--name", NAME, "--restart", policy, "busybox", "sh", "-c", script)
    if policy == "no":
        wait_until(lambda: record(minirun, NAME)["status"] == "stopped")
        assert minirun("start", NAME).returncode == 0
    wait_until(lambda: count(minirun, NAME) == 2)
    shown = "{{.State.Status}} {{.State.Running}}"
    wait_until(lambda: record(minirun, NAME)["status"] == "running")
    assert minirun("inspect", "--format", shown, NAME).stdout == "running true\n"
    done = minirun("exec", NAME, "echo", "inside")
    assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr
    assert minirun("kill", NAME).returncode == 0
    minirun("rm", "-f", NAME)


def test_in_front_too(minirun: Program) -> None:
    done = minirun("run", "--name", NAME, "--restart", "on-failure:2", *CRASH)
    assert (done.stdout, done.returncode) == ("again\n" * 3, 3), done.stderr
    assert count(minirun, NAME) == 3
    minirun("rm", NAME)


def test_a_good_end_is_the_end(minirun: Program) -> None:
    done = minirun("run", "--name", NAME, "--restart", "on-failure", "busybox", "true")
    assert done.returncode == 0
    assert "restarts" not in record(minirun, NAME)
    minirun("rm", NAME)


@pytest.mark.parametrize("verb", [("stop", "-t", "0"), ("kill",), ("rm", "-f")])
@pytest.mark.parametrize("moment", ["running", "waiting"])
def test_who_stops_it_has_the_last_word(
    minirun: Program, verb: tuple[str, ...], moment: str
) -> None:
    """While it runs, and between two runs: it is not started again."""
    script = f"echo run >> /count; {'sleep 99' if moment == 'running' else 'exit 1'}"
    minirun("run", "-d", "--name", NAME, "--restart", "always", "busybox", "sh", "-c", script)
    family = Family(record(minirun, NAME)["supervisor"]["pid"])
    wait_until(lambda: count(minirun, NAME) >= (1 if moment == "running" else 3), 20)
    if moment == "waiting":
        wait_until(lambda: record(minirun, NAME)["status"] == "stopped", 5)
        if verb == ("kill",):
            verb = ("stop",)  # there is nothing to kill
    words = (*verb, NAME, "KILL") if verb == ("kill",) else (*verb, NAME)
    done = minirun(*words)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not family.alive(), 5)
    before = count(minirun, NAME)
    time.sleep(1)
    assert count(minirun, NAME) == before and not family.alive()
    if verb[0] != "rm":
        assert record(minirun, NAME)["status"] == "stopped"
        minirun("rm", NAME)
    assert_nothing(minirun, NAME, family)


def test_the_supervisor_is_killed(minirun: Program) -> None:
    """The container goes on, alone; gc ends it, and keeps its files; start goes on from there."""
    script = "echo run >> /count; sleep 99"
    minirun("run", "-d", "--name", NAME, "--restart", "always", "busybox", "sh", "-c", script)
    wait_until(lambda: count(minirun, NAME) == 1, 10)
    kept = record(minirun, NAME)
    family = Family(kept["supervisor"]["pid"])
    os.kill(kept["supervisor"]["pid"], signal.SIGKILL)
    time.sleep(1)
    assert count(minirun, NAME) == 1, "no second one is started"
    assert Path(f"/proc/{kept['init']['pid']}").exists()
    assert minirun("gc").stdout == f"stopped {NAME}: its supervisor died\n"
    wait_until(lambda: not family.alive(), 5)
    kept = record(minirun, NAME)
    assert (kept["status"], kept["exit_status"], count(minirun, NAME)) == ("stopped", 137, 1)
    assert minirun("gc").stdout == ""
    assert minirun("start", NAME).stdout == f"{NAME}\n"
    wait_until(lambda: count(minirun, NAME) == 2, 10)
    second = Family(record(minirun, NAME)["supervisor"]["pid"])
    remove(minirun, NAME, second)


@pytest.mark.parametrize("moment", range(0, 1000, 100))
def test_the_supervisor_is_killed_between_two_runs(minirun: Program, moment: int) -> None:
    """Whenever it is: afterwards the container is stopped or runs, once; gc ends what runs."""
    minirun("run", "-d", "--name", NAME, "--restart", "always", *CRASH)
    supervisor = record(minirun, NAME)["supervisor"]["pid"]
    family = Family(supervisor)
    time.sleep(0.3 + moment / 1000)
    os.kill(supervisor, signal.SIGKILL)
    time.sleep(0.5)
    before = count(minirun, NAME)
    time.sleep(0.5)
    assert count(minirun, NAME) == before
    minirun("gc")
    assert record(minirun, NAME)["status"] == "stopped" and not family.alive()
    remove(minirun, NAME, family)


def open_files(pid: int) -> list[int]:
    """How many descriptors a supervisor has, again and again until it ends."""
    found = []
    with suppress(FileNotFoundError):
        while True:
            found.append(len(os.listdir(f"/proc/{pid}/fd")))
            time.sleep(0.002)
    return found


def test_30_restarts_leave_nothing(minirun: Program) -> None:
    """The waits are made short here; docker's lengths are test_back_off's."""
    code = (
        "import sys; from minirun import cli; from minirun.docker import restarts;"
        " restarts.FIRST, restarts.LONGEST = 0.01, 0.02; sys.exit(cli.main())"
    )
    words = ("run", "-d", "--name", NAME, "--restart", "on-failure:30", *CRASH)
    argv = [sys.executable, "-c", code, *minirun.argv(*words)[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{minirun.id(NAME)}\n"), done.stderr
    supervisor = record(minirun, NAME)["supervisor"]["pid"]
    family = Family(supervisor)
    wait_until(lambda: count(minirun, NAME) >= 3, 30)
    found = open_files(supervisor)
    third = len(found) // 3
    early, late = min(found[:third]), min(found[third:-third])  # between two runs: fewest
    assert late <= early, found
    wait_until(lambda: not family.alive(), 30)
    assert count(minirun, NAME) == 31 and record(minirun, NAME)["restarts"] == 30
    remove(minirun, NAME, family)


# --- start and restart ---------------------------------------------------------------------------


def test_start_keeps_the_files(minirun: Program) -> None:
    script = "echo run >> /count; wc -l < /count"
    assert minirun("run", "--name", NAME, "busybox", "sh", "-c", script).stdout == "1\n"
    done = minirun("start", "-a", NAME)
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr
    assert minirun("start", NAME).stdout == f"{NAME}\n"
    wait_until(lambda: record(minirun, NAME)["status"] == "stopped", 10)
    assert minirun("logs", NAME).stdout == "1\n2\n3\n"
    minirun("rm", NAME)


def test_start_ends_with_the_status_and_with_input(minirun: Program) -> None:
    done = minirun("run", "-i", "--name", NAME, "busybox", "sh", "-c", "cat; exit 7", input="one\n")
    assert (done.stdout, done.returncode) == ("one\n", 7)
    done = minirun("start", "-ai", NAME, input="two\n")
    assert (done.stdout, done.returncode) == ("two\n", 7)
    minirun("rm", NAME)


def test_a_start_that_fails_keeps_the_files(minirun: Program, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    words = ("-v", f"{tmp_path}/folder:/mnt", "busybox", "sh", "-c", "echo run >> /count")
    assert minirun("run", "--name", NAME, *words).returncode == 0
    (tmp_path / "folder").rmdir()
    done = minirun("start", NAME)
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done.stderr
    assert (record(minirun, NAME)["status"], count(minirun, NAME)) == ("stopped", 1)
    (tmp_path / "folder").mkdir()
    assert minirun("start", "-a", NAME).returncode == 0
    assert count(minirun, NAME) == 2
    minirun("rm", NAME)


def test_restart(minirun: Program) -> None:
    script = "echo run >> /count; sleep 99"
    minirun("run", "-d", "--name", NAME, "--restart", "always", "busybox", "sh", "-c", script)
    wait_until(lambda: count(minirun, NAME) == 1, 10)
    first = Family(record(minirun, NAME)["supervisor"]["pid"])
    assert minirun("restart", "-t", "0", NAME).stdout == f"{NAME}\n"
    wait_until(lambda: count(minirun, NAME) == 2, 10)
    assert not first.alive()
    remove(minirun, NAME, Family(record(minirun, NAME)["supervisor"]["pid"]))


def test_start_of_several_and_of_what_runs(minirun: Program) -> None:
    for name in ("a", "b"):
        minirun("run", "-d", "--name", name, "busybox", "sleep", "99")
    assert minirun("start", "a", "b").stdout == "a\nb\n", "as with docker: it runs by now"
    minirun("stop", "-t", "0", "a", "b")
    done = minirun("start", "a", "nosuch", "b")
    assert (done.stdout, done.returncode) == ("a\nb\n", 1)
    assert "container 'nosuch' does not exist" in done.stderr
    minirun("rm", "-f", "a", "b")


def test_create_waits_for_start(minirun: Program, tmp_path: Path) -> None:
    """docker's create: the command waits at the gate of stage 7."""
    cid = tmp_path / "cid"
    script = "echo hello; exit 4"
    done = minirun("create", "--name", NAME, "--cidfile", str(cid), "busybox", "sh", "-c", script)
    own = minirun.id(NAME)
    assert (done.stdout, cid.read_text(), done.stderr) == (f"{own}\n", own, "")
    assert record(minirun, NAME)["status"] == "created"
    done = minirun("start", "-a", NAME)
    assert (done.stdout, done.returncode) == ("hello\n", 4), done.stderr
    done = minirun("start", "-a", NAME)
    assert (done.stdout, done.returncode) == ("hello\n", 4), done.stderr
    minirun("rm", NAME)


def test_create_and_remove(minirun: Program) -> None:
    done = minirun("create", "--name", NAME, "busybox", "true")
    assert done.stdout == f"{minirun.id(NAME)}\n" and len(done.stdout) == 65
    family = Family(record(minirun, NAME)["supervisor"]["pid"])
    remove(minirun, NAME, family)


def test_nothing_of_the_start_before_is_left(minirun: Program) -> None:
    """Each FIFO and each socket is of one start; a gate that is left says "half-made"."""
    words = ("--name", NAME, "--pace", "0.001", "busybox", "true")
    assert minirun("run", *words).returncode == 0
    folder = minirun.directory(NAME)
    left = [path.name for path in folder.iterdir() if path.is_fifo() or path.is_socket()]
    assert "gate.fifo" in left
    with socket.socket(socket.AF_UNIX) as one:
        descriptors.bind(one, str(folder / "join.sock"))
    assert minirun("start", "-a", NAME).returncode == 0
    now = [path.name for path in folder.iterdir() if path.is_fifo() or path.is_socket()]
    assert sorted(now) == ["init.fifo", "runtime.fifo"]
    minirun("rm", NAME)
