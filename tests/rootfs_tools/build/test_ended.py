"""A build that is ended: by SIGTERM, SIGHUP and SIGQUIT as by ^C; by SIGKILL its step too."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from glob import glob
from pathlib import Path

import pytest

from conftest import Program, wait_until
from core.lifecycle.leftovers import Family
from minirun.running import own_cgroup
from tests.rootfs_tools.build.conftest import build

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
MOMENTS = int(os.environ.get("MINIRUN_MOMENTS") or 6)
"""How many moments of a build are tried with each signal. 40 take some minutes."""
TEXT = "FROM base\nRUN cp -a /bin /bin2\nCOPY files /files\nRUN rm -r /files && echo 1 > /one\n"


def left(program: Program) -> list[str]:
    """Return what a build has left: in the state root, of cgroups, and of drafts in the store."""
    mark = own_cgroup(str(program.root), "*", systemd=False)
    store = Path(program.store)
    # glob, unlike pathlib, passes over a cgroup of another test that goes meanwhile
    found = [*glob(f"/sys/fs/cgroup/*{mark}"), *glob(f"/sys/fs/cgroup{mark}")]
    found += [str(path) for place in ("", "*/", "*/*/") for path in store.glob(f"{place}.draft-*")]
    return program.left() + found


def started(program: Program, context: Path, text: str, **options: object) -> subprocess.Popen[str]:
    """Begin a build of `text`; return when its step has said that it runs."""
    (context / "Dockerfile").write_text(text)
    process = program.start("build", "-t", "x", str(context), **options)
    assert process.stdout
    wait_until(lambda: process.stdout.readline() == "started\n")
    return process


@pytest.mark.parametrize("whole_group", [False, True])
@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_step_too(
    builder: Program, context: Path, number: int, whole_group: bool
) -> None:
    text = "FROM base\nRUN echo started; sleep 7777\n"
    process = started(builder, context, text, start_new_session=True)
    family = Family(process.pid)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    said = process.communicate(timeout=10)[1]
    assert (process.returncode, said) == (128 + number, "")
    assert left(builder) == []
    assert family.alive() == []


def test_impatience(builder: Program, context: Path) -> None:
    """More signals, while the first one is being obeyed, change nothing."""
    process = started(builder, context, "FROM base\nRUN echo started; sleep 7777\n")
    family = Family(process.pid)
    while process.poll() is None:
        process.send_signal(random.choice(ENDING[1:]))
    process.communicate(timeout=10)
    assert process.returncode - 128 in ENDING
    assert left(builder) == []
    assert family.alive() == []


@pytest.mark.parametrize("user", ["0", "1000"])
def test_killed_its_step_ends_with_it(builder: Program, context: Path, user: str) -> None:
    """Before any `gc`: PR_SET_PDEATHSIG. setuid(2) clears it, and so it is set once more."""
    text = f"FROM base\nUSER {user}\nRUN echo started; sleep 7777 & sleep 7777\n"
    process = started(builder, context, text)
    family = Family(process.pid)
    assert len(family.alive()) >= 4  # build, supervisor, init, the other sleep
    process.kill()
    process.communicate(timeout=10)
    wait_until(lambda: family.alive() == [])
    assert builder("gc").returncode == 0
    assert left(builder) == []


def test_a_container_of_run_lives_without_its_supervisor(builder: Program) -> None:
    """As docker's does, whose daemon may be restarted: only a step ends with its build."""
    done = builder("run", "-d", "--name", "alone", "busybox", "sleep", "7777")
    assert done.returncode == 0, done.stderr
    row = builder.directory("alone") / "state.json"
    supervisor = int(row.read_text().split('"supervisor":{"pid":')[1].split(",")[0])
    family = Family(supervisor)
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{supervisor}").exists())
    time.sleep(0.1)
    assert len(family.alive()) == 1
    assert builder("gc").returncode == 0
    assert left(builder) == [] and family.alive() == []


@pytest.mark.parametrize("number", [*ENDING, signal.SIGKILL])
def test_at_any_moment(builder: Program, context: Path, number: int) -> None:
    """From the first instruction to the end. After SIGKILL `gc` cleans up what is left.

    Before the interpreter has come to minirun the signal just ends it: nothing is to be cleaned up.
    """
    (context / "files").mkdir()
    for each in range(20):
        (context / f"files/{each}").write_bytes(os.urandom(20_000))
    start = time.monotonic()
    build(builder, context, TEXT, "-t", "whole")
    seconds = time.monotonic() - start
    families = []
    for moment in range(MOMENTS):
        process = builder.start("build", "--no-cache", "-t", "x", str(context))
        time.sleep(seconds * moment / MOMENTS)
        families.append(Family(process.pid))
        process.send_signal(number)
        said = process.communicate(timeout=10)[1]
        assert process.returncode in (0, 128 + number, -number), said
        assert "Traceback" not in said or process.returncode == -number, said
        if number != signal.SIGKILL:
            assert left(builder) == [], moment
    for family in families:
        wait_until(lambda family=family: family.alive() == [])  # type: ignore[misc]
    if number == signal.SIGKILL:
        assert builder("gc").returncode == 0
        assert left(builder) == []
    build(builder, context, TEXT, "-t", "x", "--no-cache")
