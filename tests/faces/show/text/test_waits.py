"""Durations without the time at gates, against what a stopwatch outside says."""

import json
import time
from pathlib import Path

import pytest

from conftest import Program
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.recording import Recording, parse

HELD = 0.4
"""Seconds at each gate: more than a whole start takes."""


def recorded(minirun: Program) -> Recording:
    name = minirun.left()[0]
    (found,) = parse((minirun.directory(name) / "events.jsonl").read_bytes())
    return found


def shown_durations(found: Recording) -> list[float]:
    """What the lines of stages say, in milliseconds."""
    narrator = Narrator("stages", found.init)
    rows = [row for event in found.events for row in narrator.rows(event) if row.kind == "end"]
    units = {"µs": 1e-3, "ms": 1, "s": 1e3}
    found_ms = []
    for row in rows:
        unit = next(unit for unit in ("µs", "ms", "s") if row.took.endswith(unit))
        found_ms.append(float(row.took.removesuffix(unit)) * units[unit])
    return found_ms


@pytest.mark.parametrize("step", ["stage", "syscall"])
def test_a_stepped_start_is_as_long_as_another(minirun: Program, tmp_path: Path, step: str) -> None:
    script = tmp_path / "talk.keys"
    count = 3 if step == "stage" else 5
    script.write_text(f"pause {HELD}\nnext\n" * count + "continue\n")
    began = time.monotonic()
    done = minirun("run", f"--step={step}", "--script", str(script), "busybox", "true")
    assert (done.returncode, time.monotonic() - began > count * HELD) == (0, True)
    found = recorded(minirun)
    waited = sum(last - first for first, last in found.waits.spans) / 1e9
    assert count * HELD <= waited < count * HELD + 3
    whole = found.end - found.start
    for stage in found.stages:
        assert stage.end
        assert stage.duration == stage.end - stage.begin - stage.held
        assert 0 < stage.duration < whole - count * HELD * 1e9
    assert sum(shown_durations(found)) / 1e3 < whole / 1e9 - waited + 0.01


def test_gates_that_another_program_opens(minirun: Program) -> None:
    """No note says when they open: the process waits until it begins its next act."""
    lines = [
        (0, 1, "begin", "clone", 0), (10, 1, "gate", "1:begin", 0),
        (1010, 1, "syscall", "mount", 5), (1020, 2, "gate", "syscall", 0),
        (1500, 1, "note", "other", 0),
        (2020, 2, "message", "READY", 0), (2100, 1, "end", "clone", 2100),
    ]  # fmt: skip
    common = {"v": 1, "id": "c", "stage": 1, "args": {}, "ret": 0, "errno": None, "why": ""}
    text = "".join(
        json.dumps({**common, "t": 5000 + t, "pid": pid, "actor": "runtime" if pid == 1 else "init",
                    "kind": kind, "name": name, "dur": dur}) + "\n"
        for t, pid, kind, name, dur in lines
    )  # fmt: skip
    (found,) = parse(text.encode())
    assert found.waits.spans == [(5010, 6005), (6020, 7020)]
    assert found.stages[0].duration == 2100 - 995 - 1000
