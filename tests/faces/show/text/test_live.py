"""The live view as a real process, on real terminals, pipes and files."""

import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minirun.faces.show.log.event import Tail
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.text import live, paint

DEADLINE = 20.0
VIEWER = "import sys; from minirun.faces.show.text import live; live.follow({path!r}, 2, {options})"
UTF8 = {"LANG": "C.UTF-8", "TERM": "xterm-256color"}


class Log:
    """An events.jsonl, written as the runtime writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = 1_000_000_000

    def text(self, kind: str, name: str, stage: int, **more: Any) -> str:
        self.clock += 1_000_000
        actor = {2: "init", 4: "hook", 5: "cli", 7: "init"}.get(stage, "runtime")
        event = {
            "v": 1, "t": self.clock, "id": "c1", "stage": stage, "actor": actor, "pid": 9,
            "kind": kind, "name": name, "args": {}, "ret": 0, "errno": None, "dur": 1000, "why": "",
        }  # fmt: skip
        return json.dumps({**event, **more}) + "\n"

    def write(self, kind: str, name: str, stage: int, **more: Any) -> None:
        self.append(self.text(kind, name, stage, **more))

    def append(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def write_stage(self, stage: int) -> None:
        self.write("begin", "stage", stage)
        self.write("syscall", "mount", stage, args={"source": "proc", "target": "/proc"})
        self.write("end", "stage", stage)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "events.jsonl")


class View:
    """A viewer process, and the other end of what it writes to."""

    def __init__(self, log: Log, env: dict[str, str], out: int, options: str = "") -> None:
        self.pipe_read, self.pipe = os.pipe()
        os.set_inheritable(self.pipe_read, True)
        options = f"runtime_pipe={self.pipe_read}, {options}"
        program = VIEWER.format(path=str(log.path), options=options)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], env=env, stderr=out, pass_fds=[self.pipe_read]
        )
        os.close(self.pipe_read)

    def runtime_dies(self) -> None:
        os.close(self.pipe)
        self.pipe = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.pipe >= 0:
            os.close(self.pipe)


@pytest.fixture
def views() -> Iterator[list[View]]:
    started: list[View] = []
    yield started
    for view in started:
        view.close()


@pytest.fixture
def tty() -> Iterator[tuple[int, int]]:
    screen, slave = os.openpty()
    yield screen, slave
    for fd in (screen, slave):
        try:
            os.close(fd)
        except OSError:
            pass


def read_until(fd: int, wanted: str) -> str:
    seen = b""
    end = time.monotonic() + DEADLINE
    while wanted.encode() not in seen:
        assert select.select([fd], [], [], end - time.monotonic())[0], f"no {wanted!r} in {seen!r}"
        chunk = os.read(fd, 65536)
        assert chunk, f"no {wanted!r} in {seen!r}"
        seen += chunk
    return seen.decode()


def test_it_shows_stages_while_they_happen_in_colour_and_ends_by_itself(
    log: Log, views: list[View], tty: tuple[int, int]
) -> None:
    screen, slave = tty
    views.append(View(log, UTF8, slave))
    log.write_stage(1)
    first = read_until(screen, "1 system call")
    assert "clone() makes the container's init" in first
    assert "\x1b[" in first
    assert "mount" not in first
    log.write("begin", "stage", 5)
    log.write("message", "HELLO", 5, args={"to": "init"})
    assert "\x1b[35mcli" in read_until(screen, "HELLO")  # each actor has its colour
    log.write_stage(7)
    read_until(screen, "done: 1 system call")
    assert views[0].process.wait(DEADLINE) == 0


@pytest.mark.parametrize(
    "env",
    [
        {**UTF8, "NO_COLOR": "1"},
        {**UTF8, "TERM": "dumb"},
        {"LANG": "C.UTF-8"},
        {"LC_ALL": "C", "TERM": "xterm"},
        {"LC_ALL": "C", "LANG": "C.UTF-8", "TERM": "xterm"},
    ],
)
def test_plain_lines_where_colours_are_not_wanted(
    log: Log, views: list[View], tty: tuple[int, int], env: dict[str, str]
) -> None:
    screen, slave = tty
    log.write("note", "µ…", 1)
    log.write_stage(7)
    views.append(View(log, env, slave, "level='syscalls'"))
    shown = read_until(screen, "done")
    assert "\x1b" not in shown
    assert ("µ" in shown) == ("LC_ALL" not in env)
    assert views[0].process.wait(DEADLINE) == 0


def test_a_terminal_in_raw_mode_gets_whole_line_ends(
    log: Log, views: list[View], tty: tuple[int, int]
) -> None:
    screen, slave = tty
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    log.write_stage(7)
    views.append(View(log, UTF8, slave))
    shown = read_until(screen, "done: 1 system call")
    assert views[0].process.wait(DEADLINE) == 0
    assert shown.count("\n") == shown.count("\r\n") > 0


def test_a_pipe_gets_80_columns_and_a_file_all_of_it(
    log: Log, views: list[View], tmp_path: Path
) -> None:
    long = {"source": "overlay", "target": "/rootfs", "data": "lowerdir=" + "/layer:" * 30}
    log.write("syscall", "mount", 1, args=long)
    log.write_stage(7)
    reading, writing = os.pipe()
    with (tmp_path / "log.txt").open("w+") as file:
        for out in (writing, file.fileno()):
            views.append(View(log, UTF8, out, "level='syscalls', style='columns'"))
        os.close(writing)
        with open(reading) as pipe:
            piped = pipe.read()
        assert views[1].process.wait(DEADLINE) == 0
        file.seek(0)
        written = file.read()
    assert max(map(len, piped.splitlines())) == 80
    assert long["data"] in written
    assert "\r" not in piped + written
    assert len(piped.splitlines()) == len(written.splitlines()) == 4


def test_the_rest_is_shown_when_the_runtime_dies(log: Log, views: list[View]) -> None:
    reading, writing = os.pipe()
    views.append(View(log, UTF8, writing))
    os.close(writing)
    log.write("begin", "stage", 1)
    read_until(reading, "clone()")
    log.write("note", "last words", 1)
    views[0].runtime_dies()
    with open(reading) as pipe:
        assert "last words" in pipe.read()
    assert views[0].process.wait(DEADLINE) == 0


def test_it_ends_when_the_runtime_dies_before_there_is_a_log(log: Log, views: list[View]) -> None:
    views.append(View(log, UTF8, 2))
    views[0].runtime_dies()
    assert views[0].process.wait(DEADLINE) == 0


def test_it_ends_with_its_parent_where_there_is_no_pipe(log: Log, tmp_path: Path) -> None:
    program = VIEWER.format(path=str(log.path), options="")
    script = '"$1" -c "$2" & echo $!; sleep 60'
    parent = subprocess.Popen(
        ["sh", "-c", script, "sh", sys.executable, program], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    viewer = os.pidfd_open(int(parent.stdout.readline()))
    log.write("begin", "stage", 1)
    assert not select.select([viewer], [], [], 1)[0]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert select.select([viewer], [], [], DEADLINE)[0]
    os.close(viewer)


def test_a_failed_stage_ends_it(log: Log, views: list[View]) -> None:
    reading, writing = os.pipe()
    log.write("begin", "stage", 5)
    log.write("end", "stage", 5, ret=-1, args={"error": "no such GPU: 9"})
    views.append(View(log, UTF8, writing))
    os.close(writing)
    with open(reading) as pipe:
        assert "failed: no such GPU: 9: 0 system calls" in pipe.read()
    assert views[0].process.wait(DEADLINE) == 0


def test_half_lines_wait_and_broken_lines_are_named(log: Log, views: list[View]) -> None:
    reading, writing = os.pipe()
    views.append(View(log, UTF8, writing))
    os.close(writing)
    whole = log.text("note", "put together", 1)
    log.append('{"torn\n[1]\n{"kind":"note"}\n' + whole[:40])
    assert read_until(reading, "unreadable").count("put together") == 0
    log.append(whole[40:])
    log.append("torn too\n")
    log.write_stage(7)
    with open(reading) as pipe:
        shown = pipe.read()
    assert shown.count("put together") == 1
    assert "unreadable" not in shown, "once is enough"
    assert views[0].process.wait(DEADLINE) == 0


def test_a_reader_that_goes_away_and_one_that_stalls_end_it_quietly(
    log: Log, views: list[View]
) -> None:
    for _ in range(2000):  # more than a pipe holds
        log.write("note", "n" * 60, 1)
    gone_read, gone = os.pipe()
    os.close(gone_read)
    stalled_read, stalled = os.pipe()
    for out in (gone, stalled):
        views.append(View(log, UTF8, out))
        assert views[-1].process.wait(DEADLINE) == 0
    for fd in (gone, stalled, stalled_read):
        os.close(fd)


def test_a_terminal_that_closes_ends_it_quietly(
    log: Log, views: list[View], tty: tuple[int, int]
) -> None:
    screen, slave = tty
    views.append(View(log, UTF8, slave))
    log.write_stage(1)
    read_until(screen, "1 system call")
    os.close(slave)
    os.close(screen)
    log.write_stage(2)
    assert views[0].process.wait(DEADLINE) == 0


def test_control_c_is_left_to_the_run(log: Log, views: list[View]) -> None:
    reading, writing = os.pipe()
    views.append(View(log, UTF8, writing))
    os.close(writing)
    log.write_stage(1)
    read_until(reading, "done")
    views[0].process.send_signal(signal.SIGINT)
    log.write_stage(7)
    read_until(reading, "done")
    assert views[0].process.wait(DEADLINE) == 0
    os.close(reading)


def test_a_finished_log_is_rendered_at_both_levels(log: Log, tmp_path: Path) -> None:
    log.write_stage(1)
    log.write_stage(7)
    shown = {}
    for level in ("stages", "syscalls"):
        path = tmp_path / level
        with path.open("w") as file:
            painted = paint.painter(file.fileno(), "lanes")
            live._show(Tail(str(log.path)).events(), Narrator(level), painted, file.fileno())
        shown[level] = path.read_text().splitlines()
    assert len(shown["stages"]) == 1 + 4
    assert len(shown["syscalls"]) == 1 + 6
