"""Waiting for a condition, a descriptor or a lock, each with a deadline."""

import fcntl
import os
import threading
import time
from pathlib import Path

from minirun.common.waiting import readable, take_lock, until


def test_a_condition_that_comes_true() -> None:
    turns = iter([0, "", "yes"])
    assert until(lambda: next(turns), 60, 0.001) == "yes"


def test_a_condition_that_does_not() -> None:
    before = time.monotonic()
    assert until(lambda: 0, 0.05, 0.01) == 0
    assert time.monotonic() - before >= 0.05


def test_it_is_asked_once_if_there_is_no_time() -> None:
    asked: list[int] = []
    until(lambda: asked.append(1), 0)
    assert asked == [1]


def test_a_descriptor() -> None:
    ours, theirs = os.pipe()
    assert not readable(ours, time.monotonic() - 1)
    assert not readable(ours, time.monotonic() + 0.02)
    timer = threading.Timer(0.02, os.write, (theirs, b"x"))
    timer.start()
    assert readable(ours, time.monotonic() + 60)
    timer.join()
    os.read(ours, 1)
    os.close(theirs)
    assert readable(ours, time.monotonic() + 60)  # the end of it
    os.close(ours)


def test_a_lock_that_another_gives_back(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    fcntl.flock(first, fcntl.LOCK_EX)
    assert not take_lock(second, fcntl.LOCK_EX, 0.02)
    timer = threading.Timer(0.02, fcntl.flock, (first, fcntl.LOCK_UN))
    timer.start()
    assert take_lock(second, fcntl.LOCK_EX, 60)
    timer.join()
    os.close(first)
    os.close(second)
