"""The log: its shape, who writes it, and that four processes can write one file."""

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minirun.core import events

KEYS = [
    "v",
    "t",
    "id",
    "stage",
    "actor",
    "pid",
    "kind",
    "name",
    "args",
    "ret",
    "errno",
    "dur",
    "why",
]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A log that is open, and closed again after the test."""
    path = tmp_path / "events.jsonl"
    events.open_log(str(path), "c1")
    events.become("runtime", os.getpid())
    yield path
    events.close_log()
    events.gatekeeper = None


def rows(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_without_a_log_an_event_goes_nowhere(tmp_path: Path) -> None:
    events.emit("note", "nothing")
    assert events.log_fds() == ()
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_takes_the_place_of_an_open_log(tmp_path: Path) -> None:
    """A process that the container can look into holds no descriptor of the log."""
    read_end, write_end = os.pipe()
    events.to_pipe(write_end)
    assert events.log_fds() == ()
    events.open_log(str(tmp_path / "log"), "c1")
    events.to_pipe(write_end)
    events.emit("note", "passed on")
    events.close_log()
    assert json.loads(os.read(read_end, 4096))["name"] == "passed on"
    assert (tmp_path / "log").read_text() == ""
    os.close(read_end)


def test_an_event_is_one_line_of_fixed_shape(log: Path) -> None:
    before = time.monotonic_ns()
    events.emit(
        "syscall", "mount", {"path": "/proc"}, ret=-1, errno="EPERM", start=before, why="because"
    )
    (row,) = rows(log)
    assert list(row) == KEYS
    t = row.pop("t")
    assert before < t <= time.monotonic_ns()
    assert row.pop("stage") in range(8)
    assert row == {
        "v": 1, "id": "c1", "actor": "runtime", "pid": os.getpid(), "kind": "syscall",
        "name": "mount", "args": {"path": "/proc"}, "ret": -1, "errno": "EPERM",
        "dur": t - before, "why": "because",
    }  # fmt: skip


def test_any_argument_can_be_written(log: Path) -> None:
    args = {"path": "/\udcff\n\0", "korean": "컨테이너", "object": Path("/x"), "big": 2**70}
    events.emit("note", "odd", args)
    (row,) = rows(log)
    assert row["args"] == args | {"object": "/x"}
    assert log.read_bytes().isascii()
    assert log.read_bytes().count(b"\n") == 1


def test_the_file_is_the_owners_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    other = tmp_path / "other"
    events.open_log(str(path), "c1")
    events.open_log(str(other), "c1", 0o644)
    try:
        assert len(events.log_fds()) == 2
        assert not any(os.get_inheritable(fd) for fd in events.log_fds())
        events.emit("note", "after")
    finally:
        events.close_log()
    events.emit("note", "too late")
    first, second = path.read_text().splitlines()
    assert (first, json.loads(second)["name"]) == ("before", "after")
    assert other.read_text() == second + "\n"
    assert other.stat().st_mode & 0o777 == 0o644


def test_a_new_log_is_only_the_owners(log: Path) -> None:
    assert log.stat().st_mode & 0o777 == 0o600


def test_open_log_where_there_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        events.open_log(str(tmp_path / "no" / "log"), "c1")
    assert events.log_fds() == ()


def test_a_full_disk_under_the_log_stops_nothing(log: Path) -> None:
    events.open_log("/dev/full", "c1")
    with pytest.raises(OSError) as caught:
        os.write(events.log_fds()[1], b"x")
    assert caught.value.errno == errno.ENOSPC
    events.emit("note", "goes on")
    assert rows(log)[0]["name"] == "goes on"


def test_a_stage_is_a_begin_and_an_end(log: Path) -> None:
    with events.stage(5, "cli", "put the GPUs in", why="because"):
        events.emit("note", "inside")
        time.sleep(0.002)
    begin, inside, end = rows(log)
    assert (begin["kind"], begin["why"]) == ("begin", "because")
    assert (end["kind"], end["ret"]) == ("end", 0)
    for row in (begin, inside, end):
        assert (row["stage"], row["actor"]) == (5, "cli")
    assert end["dur"] >= 2_000_000
    assert begin["t"] <= inside["t"] <= end["t"]


def test_a_stage_that_fails_says_with_what(log: Path) -> None:
    with pytest.raises(ValueError, match="broken"), events.stage(1, "runtime", "clone"):
        raise ValueError("broken")
    end = rows(log)[-1]
    assert (end["kind"], end["ret"], end["args"]) == ("end", -1, {"error": "broken"})


def test_a_stage_may_end_by_hand_where_its_last_act_does_not_return(log: Path) -> None:
    pid = os.fork()
    if pid == 0:
        with events.stage(7, "init", "exec") as stage:
            stage.end()
            os._exit(0)  # stands for execve
    os.waitpid(pid, 0)
    assert [row["kind"] for row in rows(log)] == ["begin", "end"]


def test_the_gatekeeper_is_asked_at_each_boundary(log: Path) -> None:
    asked: list[tuple[int, str, str]] = []
    events.gatekeeper = lambda number, edge: asked.append((number, edge, rows(log)[-1]["kind"]))
    with events.stage(3, "runtime", "hooks"):
        pass
    assert asked == [(3, "begin", "begin"), (3, "end", "end")]


def test_each_process_writes_under_its_own_name(log: Path) -> None:
    pid = os.fork()
    if pid == 0:
        events.become("init", 4711)
        events.emit("note", "child")
        os._exit(0)
    os.waitpid(pid, 0)
    events.emit("note", "parent")
    assert [(r["actor"], r["pid"]) for r in rows(log)] == [("init", 4711), ("runtime", os.getpid())]


def test_lines_of_four_processes_never_tear(log: Path) -> None:
    count, text = 200, "x" * 5000
    pids = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            events.become(f"p{number}", os.getpid())
            for index in range(count):
                events.emit("note", str(index), {"text": text})
            os._exit(0)
        pids.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 4
    found = rows(log)
    for number, pid in enumerate(pids):
        of_one = [row for row in found if row["pid"] == pid]
        assert [int(row["name"]) for row in of_one] == list(range(count))
        assert {row["actor"] for row in of_one} == {f"p{number}"}
    assert len(found) == 4 * count
