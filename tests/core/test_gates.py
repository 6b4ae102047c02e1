"""Gates: a run that is really held at a boundary, and opened from outside."""

import json
import os
import select
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from minirun.core import events, gates
from minirun.core.errors import UsageError
from minirun.core.keeping import places

NAME = f"gates-{os.getpid()}"


@pytest.fixture(autouse=True)
def no_gatekeeper() -> Iterator[None]:
    yield
    events.gatekeeper = events.observer = None


def waiting(gate: gates.Gates, stage: int, edge: str) -> int:
    """Fork a process that comes to a boundary; return its pidfd."""
    pid = os.fork()
    if pid == 0:
        gate.wait(stage, edge)
        os._exit(0)
    return os.pidfd_open(pid)


def ended(pidfd: int, seconds: float) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])


def test_who_comes_to_a_gate_waits_until_it_is_opened(tmp_path: Path) -> None:
    gate = gates.Gates(str(tmp_path), ("3:begin",))
    assert events.gatekeeper == gate.wait
    assert stat.S_ISFIFO((tmp_path / places.GATE).stat().st_mode)
    pidfd = waiting(gate, 3, "begin")
    assert not ended(pidfd, 0.2)
    gates.open_gate(str(tmp_path))
    assert ended(pidfd, 10)
    os.close(pidfd)
    os.close(gate.fd)


def test_other_boundaries_are_passed(tmp_path: Path) -> None:
    gate = gates.Gates(str(tmp_path), ("3:begin",))
    for stage, edge in ((3, "end"), (2, "begin"), (7, "end")):
        gate.wait(stage, edge)
    os.close(gate.fd)


def test_one_byte_lets_one_process_pass(tmp_path: Path) -> None:
    gate = gates.Gates(str(tmp_path), ("3:begin",))
    os.write(gate.fd, b"12")
    gate.wait(3, "begin")
    assert select.select([gate.fd], [], [], 0)[0]
    assert os.read(gate.fd, 9) == b"2"
    os.close(gate.fd)


def test_a_step_is_what_changes_something(tmp_path: Path) -> None:
    """--step=syscall stops after a call, a message …, and at no boundary or gate besides."""
    gate = gates.Gates(str(tmp_path), (gates.EVERY_EVENT,))
    assert events.observer == gate.wait_after
    os.write(gate.fd, b"12345+")
    for kind in ("begin", "end", "gate"):
        gate.wait_after(kind, "3", {})
    for kind in ("syscall", "netlink", "exec", "message", "note"):
        gate.wait_after(kind, "mount", {})
    assert os.read(gate.fd, 9) == b"+"
    os.close(gate.fd)


def test_nobody_waits_for_the_dead(tmp_path: Path) -> None:
    gate = gates.Gates(str(tmp_path), ("1:end",))
    alive, held = os.pipe()
    gate.watched.append(alive)
    pid = os.fork()
    if pid == 0:
        signal.pause()
    os.close(held)  # the child is now the last one that holds the pipe
    pidfd = os.pidfd_open(pid)
    gate.watched.append(pidfd)
    held_up = waiting(gate, 1, "end")
    assert not ended(held_up, 0.2)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    assert ended(held_up, 10)
    for fd in (alive, pidfd, held_up, gate.fd):
        os.close(fd)


def test_a_gate_that_is_none(tmp_path: Path) -> None:
    for stop in ("0:begin", "8:end", "3", "3:middle", ""):
        with pytest.raises(UsageError, match="unknown gate"):
            gates.Gates(str(tmp_path), (stop,))
    assert list(tmp_path.iterdir()) == []


def test_opening_where_nobody_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gates.open_gate(str(tmp_path))
    os.mkfifo(tmp_path / places.GATE)
    with pytest.raises(OSError, match="No such device or address"):
        gates.open_gate(str(tmp_path))


def read_events(path: Path) -> list[dict[str, Any]]:
    try:
        *lines, _ = path.read_text().split("\n")  # the last one may still be on its way
        return [json.loads(line) for line in lines]
    except FileNotFoundError:
        return []


def test_a_run_is_held_at_every_boundary(minirun: Program) -> None:
    """A program that opens the gates one by one sees every boundary, in order."""
    env = os.environ | {"MINIRUN_GATES": ",".join(gates.BOUNDARIES)}
    run = minirun.start("run", "--name", NAME, "--rm", "busybox", "echo", "through", env=env)
    seen: list[str] = []
    # stages 4 and 5 belong to NVIDIA's hook, which this container has not
    expected = [stop for stop in gates.BOUNDARIES if stop[0] not in "45"]
    for stop in expected:
        wait_until(
            lambda: any(
                row["kind"] == "gate" and row["name"] == stop  # noqa: B023
                for row in read_events(minirun.directory(NAME) / "events.jsonl")
            )
        )
        assert run.poll() is None
        seen.append(stop)
        gates.open_gate(str(minirun.directory(NAME)))
    assert run.communicate(timeout=30) == ("through\n", "")
    assert seen == expected
    assert run.returncode == 0


def test_while_a_gate_is_closed_the_kernel_objects_are_there(minirun: Program) -> None:
    """Held before stage 7, init lives, has its namespaces, and has not yet changed its root."""
    env = os.environ | {"MINIRUN_GATES": "7:begin"}
    run = minirun.start("run", "--name", NAME, "--rm", "busybox", "true", env=env)
    wait_until(lambda: '"kind":"gate"' in minirun.log(NAME))
    directory = minirun.directory(NAME)
    pid = json.loads((directory / "state.json").read_text())["pid"]
    assert os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    assert Path(f"/proc/{pid}/comm").read_text() == "minirun:init\n"
    assert os.path.samefile(f"/proc/{pid}/root", "/")
    assert str(directory) in Path(f"/proc/{pid}/mountinfo").read_text()
    gates.open_gate(str(directory))
    run.communicate(timeout=30)
    assert run.returncode == 0
