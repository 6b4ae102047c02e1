"""A child that makes calls from a list, in our memory, until it is another program."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assembler import assemble
from minirun import events, jsonlite
from minirun.kernel import steps, vfork
from minirun.kernel.namespaces import CLONE_NEWUTS


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "events.jsonl"
    events.open_log(str(path), "test")
    yield path
    events.close_log()


def lines(log: Path) -> list[dict[str, Any]]:
    return [jsonlite.loads(line) for line in log.read_text().splitlines()]


def busybox(*words: str, out: int) -> list[vfork.Step]:
    program = os.open("/bin/busybox", os.O_RDONLY | os.O_CLOEXEC)
    argv = ["busybox", *words]
    return [steps.dup3(out, 1), steps.execveat(program, argv, shown="busybox", why="to see it")]


def test_it_becomes_the_program_in_its_own_namespaces(log: Path) -> None:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    wanted = [steps.prctl(38, 1), steps.chdir("/proc/self")]
    wanted += busybox("sh", "-c", "pwd; readlink ns/uts", out=writing)
    pid, pidfd = vfork.spawn(CLONE_NEWUTS, wanted, actor="cli", why="a test")
    os.close(writing)
    os.close(pidfd)
    with open(reading) as file:
        where, uts = file.read().split()
    assert os.waitpid(pid, 0)[1] == 0
    assert where == f"/proc/{pid}"
    assert uts.startswith("uts:[")
    assert uts != os.readlink("/proc/self/ns/uts")
    clone, prctl, execve = lines(log)
    assert (clone["name"], clone["ret"], clone["pid"]) == ("clone", pid, os.getpid())
    assert "CLONE_VFORK" in clone["args"]["flags"]
    assert (prctl["name"], prctl["pid"], prctl["actor"]) == ("prctl", pid, "cli")
    assert (execve["kind"], execve["args"]["path"], execve["pid"]) == ("exec", "busybox", pid)
    assert clone["t"] <= prctl["t"] <= execve["t"] <= clone["t"] + clone["dur"]


@pytest.fixture
def processors() -> Iterator[list[int]]:
    """The processors that we may run on; afterwards as before."""
    allowed = os.sched_getaffinity(0)
    yield sorted(allowed)
    os.sched_setaffinity(0, allowed)


def test_it_runs_on_another_processor(
    processors: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(processors) == 1:
        pytest.skip("one processor")
    monkeypatch.setattr(steps, "_sched_getcpu", lambda: processors[1])
    reading, writing = os.pipe2(os.O_CLOEXEC)
    script = "grep Cpus_allowed_list /proc/self/status"
    wanted = [*steps.leave_processor(), *busybox("sh", "-c", script, out=writing)]
    pid, pidfd = vfork.spawn(0, wanted, actor="cli")
    os.close(writing)
    os.close(pidfd)
    with open(reading) as file:
        words = file.read().split()
    assert os.waitpid(pid, 0)[1] == 0
    assert words[1].split(",")[0].split("-")[0] == str(processors[0])
    assert str(processors[1]) not in words[1].replace("-", ",").split(",")
    assert os.sched_getaffinity(0) == set(processors), "we ourselves may run anywhere"


def test_of_one_processor_there_is_no_other(processors: list[int]) -> None:
    os.sched_setaffinity(0, processors[:1])
    assert steps.leave_processor() == []


def test_the_call_that_fails_is_named_and_nobody_is_left(log: Path) -> None:
    wanted = [steps.chdir("/nosuch"), *busybox("true", out=2)]
    with pytest.raises(FileNotFoundError, match="/nosuch") as caught:
        vfork.spawn(0, wanted, actor="cli")
    assert getattr(caught.value, "call") == "chdir"  # noqa: B009
    assert [line["name"] for line in lines(log)] == ["clone"]
    with pytest.raises(ChildProcessError):
        os.waitpid(lines(log)[0]["ret"], 0)


def test_a_program_that_is_none(log: Path) -> None:
    wanted = [steps.execveat(os.open("/", os.O_RDONLY), ["x"], shown="x")]
    with pytest.raises(PermissionError):
        vfork.spawn(0, wanted, actor="cli")
    assert [(line["kind"], line["errno"]) for line in lines(log)[1:]] == [
        ("exec", None), ("syscall", "EACCES"),
    ]  # fmt: skip


def test_the_callers_descriptors_are_as_they_were() -> None:
    wanted = busybox("true", out=2)
    before = os.listdir("/proc/self/fd")
    for _ in range(20):
        pid, pidfd = vfork.spawn(0, wanted, actor="cli")
        os.close(pidfd)
        assert os.waitpid(pid, 0)[1] == 0
    assert os.listdir("/proc/self/fd") == before


def test_more_words_than_there_is_room_for() -> None:
    with pytest.raises(OSError, match="Argument list too long"):
        vfork.spawn(0, busybox("echo", "x" * 5000, out=2), actor="cli")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_bytes_are_what_an_assembler_makes_of_the_listing(tmp_path: Path, machine: str) -> None:
    listing = vfork.LISTINGS[machine]
    code = assemble(tmp_path, machine, [instruction for _, instruction, _ in listing])
    assert code == " ".join(row[0] for row in listing)
