"""When an event began is `t` less `dur`, however long the process was held up before it wrote."""

import os
from itertools import count
from pathlib import Path

import pytest

from minirun.core import events
from minirun.core.kernel import logged_python, namespaces, process
from minirun.faces.show.log.event import Reader, began

STEP = 1_000_000


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log, and a clock that goes on by a millisecond each time it is read."""
    path = tmp_path / "events.jsonl"
    moments = count(STEP, STEP)
    monkeypatch.setattr(events, "now", lambda: next(moments))
    monkeypatch.setattr(events, "_logs", [])
    events.open_log(str(path), "slow")
    return path


def fails() -> None:
    raise OSError(2, "no such file")


def test_it_began_when_the_clock_was_read_first(log: Path) -> None:
    with events.stage(1, "runtime", "a stage"):  # reads 1, and 2 for its begin
        logged_python("stat", lambda: None, {})  # 3
        with pytest.raises(OSError, match="no such file"):
            logged_python("stat", fails, {})  # 5
        process.prctl(process.PR_SET_PDEATHSIG, 0, why="")  # 7
        pid, fd = namespaces.clone3(0)  # 9
        if pid == 0:
            os._exit(0)
        os.close(fd)
        os.waitpid(pid, 0)
    found = Reader().take(log.read_bytes())
    calls = {e.name: (e.t - began(e)) // STEP for e in found if e.kind == "syscall" and not e.errno}
    assert calls == {"stat": 3, "prctl": 7, "clone3": 9}
    assert [(e.t - e.dur) // STEP for e in found if e.errno or e.kind == "end"] == [5, 1]
    assert all(e.dur == STEP for e in found if e.kind == "syscall")
