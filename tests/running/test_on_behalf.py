"""Commands that run something on behalf of something else, when they are ended themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Program, processes, wait_until
from core.lifecycle.leftovers import Family, in_hierarchies

SOFT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PATIENT = 'trap "exit 7" INT TERM HUP QUIT; echo started; while :; do sleep 0.05; done'


def ended(process: subprocess.Popen[str], number: int) -> tuple[int, Family]:
    """Send a signal, and wait for the end; return its status, and all that it had started."""
    family = Family(process.pid)
    process.send_signal(number)
    process.communicate(timeout=30)
    return process.returncode, family


@pytest.mark.parametrize("number", [*SOFT, signal.SIGKILL])
def test_doctor(minirun: Program, number: int) -> None:
    minirun.root.mkdir()
    process = minirun.start("doctor")
    own = f".doctor-{process.pid}-*"
    wait_until(lambda: list(minirun.root.glob(own)) or process.poll() is not None)
    time.sleep(0.1)
    status, family = ended(process, number)
    assert status in (128 + number, -number, 0, 1)
    wait_until(lambda: family.alive() == [])
    if number != signal.SIGKILL:
        assert list(minirun.root.glob(".doctor-*")) == []
    assert minirun("gc").returncode == 0
    assert list(minirun.root.glob(".doctor-*")) == []
    assert in_hierarchies(f"/minirun/doctor-{process.pid}-*") == []


@pytest.mark.parametrize("how", [("teach", "oracle"), ("observe",)], ids=" ".join)
@pytest.mark.parametrize("number", SOFT)
def test_what_watches_a_run(minirun: Program, how: tuple[str, ...], number: int) -> None:
    """The signal is the run's, and the run hands it on to its command, without a terminal too."""
    name = f"watched-{os.getpid()}-{number}"
    run = minirun.argv("run", "--rm", "--name", name, "busybox", "sh", "-c", PATIENT)
    words = run if how == ("observe",) else run[1:]
    process = minirun.start(*how, "--", *words, start_new_session=True)
    wait_until(lambda: '"execve"' in minirun.log(name))
    time.sleep(0.5)
    _, family = ended(process, number)
    wait_until(lambda: family.alive() == [])
    assert minirun.left() == []


def _of_lab(path: Path) -> list[int]:
    """Return the processes that a lab's scripts have started."""
    if not path.parents[1].exists():
        return []
    root, found = path.parents[1].stat(), []
    mark = f"MINIRUN_LAB={path} {root.st_dev}:{root.st_ino}".encode()
    for pid, _, _ in processes():
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [*SOFT, signal.SIGKILL])
def test_lab_start(minirun: Program, number: int) -> None:
    folder = minirun.root.resolve() / ".labs/slow-hook"
    process = minirun.start("lab", "start", "slow-hook")
    wait_until(lambda: _of_lab(folder) or process.poll() is not None)
    status, _ = ended(process, number)
    assert status in (128 + number, -number, 0)
    if number == signal.SIGKILL:  # what it had begun goes on, and is found by the mark that it has
        assert minirun("lab", "reset", "slow-hook").returncode == 0
    elif status:
        wait_until(lambda: _of_lab(folder) == [])
    minirun("lab", "reset", "slow-hook")
    assert _of_lab(folder) == [] and not folder.exists()


RECIPE = """
import sys
from minirun.common import interrupts
from rootfs_tools.recipe import bootstrap
interrupts.end_by_signals()
try:
    bootstrap._run(["sh", "-c", "echo I: begun; sleep 1000"], sys.argv[1], 0, print)
except KeyboardInterrupt as signal:
    sys.exit(128 + (signal.args or (2,))[0])
"""


@pytest.mark.parametrize("number", [*SOFT, signal.SIGKILL])
def test_the_tool_of_a_recipe(tmp_path: Path, number: int) -> None:
    """It has ended before the folder that it works in is removed."""
    argv = [sys.executable, "-uc", RECIPE, str(tmp_path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "begun\n"
    family = Family(process.pid)
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode in (128 + number, -number)
    wait_until(lambda: family.alive() == [])  # it may be there for a moment more
