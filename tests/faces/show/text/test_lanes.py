"""Events as a picture of two lanes."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import Program
from faces.show.readback import Arrow, arrows_in, arrows_of, times_in
from minirun.common import screen
from minirun.faces import recordings
from minirun.faces.show.log import event_row, recording
from minirun.faces.show.log.event import event_of
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.recording import Recording
from minirun.faces.show.text import paint
from minirun.faces.show.text.lanes import Lanes

WIDTHS = (80, 120)


def draw(found: Recording, width: int = 80, *, unicode: bool = True) -> list[str]:
    """A recording at level stages, as lines."""
    init = found.init if found.observed else 0  # a run that goes on does not know it before
    narrator, lanes = Narrator("stages", init), Lanes(width, unicode)
    rows = [row for row in map(narrator.row, found.events) if row]
    pieces = [lanes.header(), *map(lanes.row, rows)]
    return ["".join(part for _, part in line).rstrip() for line in pieces]


def shipped(name: str) -> list[Recording]:
    return recording.read(recordings.path(name))


def one(lines: list[str], part: str) -> str:
    (found,) = [line for line in lines if part in line]
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", recordings.RECORDINGS)
@pytest.mark.parametrize("unicode", [True, False])
def test_every_recording_fits_and_stays_in_its_lanes(name: str, width: int, unicode: bool) -> None:
    for found in shipped(name):
        lanes = Lanes(width, unicode)
        lines = draw(found, width, unicode=unicode)
        assert all(screen.display_width(line) <= width for line in lines)
        assert unicode or all(line.isascii() for line in lines)
        bars = "│├└" if unicode else "|+"
        events = [line for line in lines[1:] if not line[0].isdigit()]
        assert all(line[11] in bars for line in events), "the runtime's lane is never broken"
        for line in events:
            if line[12] in "─◄-<":
                assert line[lanes.right] in "│┤|+", "an arrow joins both lanes"


def test_the_story_of_a_gpu_container() -> None:
    (found,) = shipped("gpus-0-1")
    lines = draw(found)
    headings = [line for line in lines if line[0].isdigit()]
    assert [line[:10].split() for line in headings] == [
        ["1", "runtime"], ["2", "init"], ["3", "runtime"], ["4", "hook"], ["5", "cli"],
        ["6", "runtime"], ["7", "init"],
    ]  # fmt: skip
    assert [line[11:] for line in headings] == list(event_row.STAGES.values())
    assert "├───────── clone3 ────────►│ = " in one(lines, "clone3")
    assert "│◄─────── RUN_HOOKS ───────┤ # please run" in one(lines, "RUN_HOOKS")
    assert "├─────── HOOKS_DONE ──────►│ # every" in one(lines, "HOOKS_DONE")
    assert "│◄──────── WAITING ────────┤ # all" in one(lines, "WAITING")
    assert "│ ├ nvidia-container-cli argv=--load-kmods configure" in one(lines, "--load-kmods")
    assert "│ └ done: " in one(lines, "GPUs SIMULATED")
    assert lines[-2][12:38].isspace() and "└ done: " in lines[-2]
    assert "├ command ended status=0" in lines[-1]


def test_init_has_no_lane_before_it_is_born() -> None:
    (found,) = shipped("gpus-0-1")
    narrator, lanes = Narrator("syscalls"), Lanes(80)
    lines = []
    for row in filter(None, map(narrator.row, found.events)):
        lines.append("".join(part for _, part in lanes.row(row)).rstrip())
    born = lines.index(one(lines, "clone3 ─"))
    assert all("│" not in line[12:] for line in lines[:born] if not line[0].isdigit())
    ended = next(n for n, line in enumerate(lines) if "└ done: " in line and "│ └" not in line)
    after = [line for line in lines[ended + 1 :] if not line[0].isdigit()]
    assert after
    assert all("│" not in line[12:] for line in after), "it is the container's command by now"


def test_a_failed_stage_says_why() -> None:
    (found,) = shipped("failing-hook")
    lines = draw(found, 200)
    assert "failed with exit status 3: no licence for this machine" in one(lines, "failed: ")
    assert found.stages[-1].number == 3


def test_snapshots_and_gates_are_for_the_other_level() -> None:
    (found,) = shipped("gpus-0-1")
    assert found.snapshots
    stages, calls = Narrator("stages"), Narrator("syscalls")
    shown = [row.what for row in filter(None, map(stages.row, found.events))]
    assert not [what for what in shown if "snapshot" in what or "gate" in what]
    assert "snapshot 5:end" in [row.what for row in filter(None, map(calls.row, found.events))]


SCALARS = st.one_of(st.none(), st.integers(), st.text(max_size=90), st.lists(st.text()))


@example(
    kind="end", name="clone3", actor="init", args={}, ret=None, errno="00\x1f\u0100", why="",
    dur=0, stage=0, t=0, width=40, unicode=False,
)  # fmt: skip
@given(
    kind=st.sampled_from(["begin", "end", "syscall", "message", "exec", "note", "gate"]),
    name=st.one_of(st.sampled_from([*event_row._ARGUMENTS, "clone3"]), st.text(max_size=50)),
    actor=st.one_of(st.sampled_from(["runtime", "init", "hook", "cli", "step"]), st.text()),
    args=st.dictionaries(st.sampled_from(["path", "to", "flags", "data", "argv"]), SCALARS),
    ret=st.one_of(st.none(), st.integers(-1, 10**9)),
    errno=st.one_of(st.none(), st.text(max_size=12)),
    why=st.text(max_size=100),
    dur=st.integers(0, 10**13),
    stage=st.integers(0, 9),
    t=st.integers(0, 10**16),
    width=st.integers(40, 160),
    unicode=st.booleans(),
)
def test_no_event_leaves_the_picture(width: int, unicode: bool, **fields: Any) -> None:
    """Whatever a container called itself: one printable line, not wider than the terminal."""
    event = event_of({"v": 1, "id": "c1", "pid": 9, **fields})
    narrator, lanes = Narrator("syscalls"), Lanes(width, unicode)
    narrator.start = 0
    lanes.alive = True
    row = narrator.row(event)
    assert row
    line = "".join(part for _, part in lanes.row(row))
    assert screen.display_width(line) <= width
    assert line.isprintable()
    assert unicode or line.isascii()


@pytest.mark.parametrize(("style", "lines"), [("lanes", 3), ("plain", 2), ("columns", 2)])
def test_styles(style: str, lines: int, tmp_path: Path) -> None:
    (found,) = shipped("plain")
    narrator = Narrator("stages")
    rows = [row for row in map(narrator.row, found.events) if row][:2]
    with (tmp_path / "out").open("w") as file:
        painted = paint.painter(file.fileno(), style)
        shown = painted(rows[:1]) + painted(rows[1:])
    assert shown.count("\n") == lines, "the header of the lanes comes once"
    assert "clone() makes the container's init" in shown


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_each_arrow_is_one_of_the_log_and_time_goes_on(name: str) -> None:
    for found in shipped(name):
        lines = draw(found, 100)
        assert arrows_in(lines) == arrows_of(found)
        assert found.birth
        assert [arrow.name for arrow in arrows_of(found)].count(found.birth.name) == 1
        assert times_in(lines) == sorted(times_in(lines))


@pytest.mark.parametrize("flags", [(), ("--gpu-driver", "simulated", "--gpus", "0,1")])
def test_so_it_is_while_it_happens(minirun: Program, flags: tuple[str, ...]) -> None:
    """And with the machine busy: the parent of init is held up on its way out of clone3."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for at in range(2):
            words = ("run", "--progress", "lanes", "--name", f"live{at}", *flags, "busybox", "true")
            done = minirun(*words, env={"LANG": "C.UTF-8"})
            lines = done.stderr.splitlines()
            (found,) = recording.read(minirun.directory(f"live{at}") / "events.jsonl")
            assert [one for one in arrows_in(lines) if one.name == "clone3"] == [
                Arrow("runtime", "init", "clone3")
            ]
            assert arrows_in(lines) == arrows_of(found)
            assert times_in(lines) == sorted(times_in(lines))
            assert done.returncode == 0
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_what_a_stage_did_in_numbers() -> None:
    """RUN_HOOKS is a write(2) into a FIFO: stage 2 did not do nothing."""
    lines = draw(shipped("gpus-0-1")[0], 100)
    ends = [
        re.sub(r"\d+ system calls?", "N system calls", line) for line in lines if " done: " in line
    ]
    assert [line.partition("done: ")[2].split("  ")[0].rstrip(" │") for line in ends] == [
        "N system calls, 1 message", "1 message", "N system calls, 1 message", "N system calls",
        "N system calls, GPUs SIMULATED", "1 message", "N system calls, 1 message",
    ]  # fmt: skip


def test_the_two_arrows_of_figure_3_stand_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = shipped("plain")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("LC_ALL", raising=False)
    screen, slave = os.openpty()
    narrator = Narrator("stages", found.init)
    drawn = paint.painter(slave, "lanes")([r for r in map(narrator.row, found.events) if r])
    arrows = re.findall(r"\x1b\[([\d;]*)m[│├][─◄]+[─◄►]* (\w+) ", drawn)
    assert {name: sgr for sgr, name in arrows} == {
        "clone3": "36", "READY": "2;32", "YOUR_TURN": "2;36", "RUN_HOOKS": "1;32",
        "HOOKS_DONE": "1;36", "WAITING": "2;32",
    }  # fmt: skip
    os.close(screen)
    os.close(slave)
