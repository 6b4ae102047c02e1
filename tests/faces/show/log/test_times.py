"""The time of an event of a stepped run leaves out the gates, and is the same in every view."""

import json
import re
from pathlib import Path

import pytest

from conftest import Program
from faces.show.readback import times_in
from minirun.faces.show.log import event_row, trace
from minirun.faces.show.log.axis import Axis
from minirun.faces.show.log.event import Event, event_of
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.order import Waits
from minirun.faces.show.log.recording import Recording, parse, read
from minirun.faces.show.page import html, page_data
from minirun.faces.show.step import frame

HELD = 0.3
"""Seconds at each of the gates that a script holds."""
GATES = 6


def stepped(minirun: Program, tmp_path: Path, *flags: str) -> tuple[Recording, list[str]]:
    """A run that is held for 1.8 seconds; its recording, and what it showed meanwhile."""
    script = tmp_path / "talk.keys"
    script.write_text(f"pause {HELD}\nnext\n" * GATES + "continue\n")
    done = minirun(
        "run", *flags, "--progress", "lanes", "--script", str(script), "--name", "held",
        "--gpus", "0,1", "--gpu-driver=simulated", "busybox", "true",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = read(minirun.directory("held") / "events.jsonl")
    assert found.waits.sums[-1] > HELD * GATES * 1e9
    return found, done.stderr.splitlines()


def shown(page: str) -> list[float]:
    """The times of a page's table, in milliseconds."""
    return [float(each) for each in re.findall(r"</a><td>([\d.]+)ms", page)]


def drawn(page: str) -> list[tuple[float, float, str]]:
    """Where a page draws its events: begin and end in milliseconds, and the kind."""
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    events = data["recordings"][0]["events"]
    return [((e["t"] - e["began"]) / 1e6, e["t"] / 1e6, e["kind"]) for e in events]


@pytest.mark.parametrize("step", ["stage", "syscall"])
def test_all_views_say_the_same(minirun: Program, tmp_path: Path, step: str) -> None:
    found, live = stepped(minirun, tmp_path, f"--step={step}")
    whole = (found.end - found.start) / 1e6
    limit = whole - HELD * GATES * 1e3
    page = html.render([found])
    table = shown(page)
    assert len(table) == len(found.events)
    assert table == sorted(table) and table[-1] < limit
    assert times_in(minirun("timeline", "--text", "held").stdout.splitlines()) == [
        t
        for t, event in zip(table, found.events, strict=True)
        if event.kind != "begin" and (event.kind, event.name) != ("gate", "7:end")
    ]
    level = {"stage": "stages", "syscall": "syscalls"}[step]
    lanes = minirun("timeline", "--level", level, "held").stdout.splitlines()
    # a clone and the first act of its child are at once: live, the hold of one is not known yet
    at_once = ("clone3", "PR_SET_PDEATHSIG")
    told, again = (
        [line for line in lines if not any(word in line for word in at_once)]
        for lines in (live, lanes)
    )
    assert times_in(told) == times_in(again)[: len(times_in(told))]
    assert len(times_in(told)) > 20
    latest = 0.0  # of two who write at once, the later line may tell of the earlier act
    for said, (begin, end, _) in zip(table, drawn(page), strict=True):
        latest = max(latest, end)
        assert begin - 0.01 <= said <= latest + 0.01, "what is drawn is where the table says"
    entries = [e for e in trace.document([found])["traceEvents"] if e.get("cat") == "note"]
    notes = [t for t, e in zip(table, found.events, strict=True) if e.kind == "note"]
    assert [e["ts"] / 1e3 for e in entries] == pytest.approx(notes, abs=0.5)
    stages = [e for e in trace.document([found])["traceEvents"] if e.get("cat") == "stage"]
    assert [e["dur"] * 1e3 for e in stages] == [
        pytest.approx(stage.duration, abs=1) for stage in sorted(found.stages, key=_end)
    ]
    assert f"held at {sum(e.kind == 'gate' for e in found.events)} gates for" in page
    assert Axis([found.unheld]).knots[-1][0] < limit * 1e6


def _end(stage: object) -> int:
    return int(getattr(stage, "end", 0) or 0)


def test_the_screen_counts_as_the_lines_do(minirun: Program, tmp_path: Path) -> None:
    """LAST EVENTS, fed event by event as a run goes on."""
    found, _ = stepped(minirun, tmp_path, "--step=syscall")
    narrator, rows = Narrator("syscalls", found.init), list[event_row.Row]()
    for event in found.events:
        rows += narrator.rows(event)
    lines = [line.plain for line in frame.events(tuple(rows), 80, len(rows))]
    told = [row for row in rows if row.kind not in ("gate", "begin")]
    assert times_in(lines) == [float(row.time.removesuffix("ms")) for row in told]
    table = [row for row in page_data.rows(found.unheld, found.start) if row.kind != "gate"]
    assert [row.time for row in rows if row.kind != "gate"] == [row.time for row in table]


def act(t: int, pid: int = 1, kind: str = "syscall", name: str = "mount", dur: int = 0) -> Event:
    return event_of({"t": t, "pid": pid, "kind": kind, "name": name, "dur": dur, "stage": 1})


def told(*events: Event) -> list[int]:
    """When each event is shown to be, as it becomes known."""
    waits, times = Waits(), []
    for event in events:
        waits.take(event)
        times.append(waits.without(event).t)
    return times


def test_a_wait_takes_no_time_whoever_acts_meanwhile() -> None:
    gate, opened = act(100, kind="gate", name="1:begin"), act(900, 9, "note", "gate opened")
    snapshot = act(150, 9, "note", "snapshot")
    assert told(act(90), gate, snapshot, opened, act(910)) == [90, 100, 100, 100, 110]
    assert told(gate, act(150, 2), act(930, dur=20), act(940, 2)) == [100, 100, 120, 130]


def test_a_run_that_is_given_up_at_a_gate_cleans_up_in_its_own_time() -> None:
    gate, error = act(100, 2, "gate", "7:begin"), act(900, 1, "message", "ERROR")
    assert told(gate, error, act(950), act(960)) == [100, 100, 150, 160]


def test_gates_that_follow_each_other() -> None:
    first, second = act(100, 1, "gate", "1:end"), act(500, 2, "gate", "2:begin")
    assert told(first, second, act(800, 2), act(850, 1)) == [100, 100, 100, 150]


def test_a_birth_that_lasts_over_a_gate_is_as_long_as_it_worked() -> None:
    waits = Waits()
    clone = act(1500, name="clone3", dur=1000)
    for event in (act(1020, 2, "gate", "syscall"), act(1490, 2), clone):
        waits.take(event)
    assert waits.without(clone)[1:2] == (1500 - 470,)
    assert waits.without(clone).dur == 1000 - 470


def test_a_hundred_thousand_gates() -> None:
    """A recording may say anything; what it says is told in a time that grows with its length."""
    events = [act(t, kind="gate" if t % 2 else "syscall") for t in range(200_000)]
    assert Recording("x", events).unheld.end == 100_000
    assert max(told(*events)) <= 199_999


def test_several_containers_keep_their_host_s_clock() -> None:
    """One goes on while another is held: on one axis, their true order counts."""
    lines = []
    for name, moments in (("a", (0, 100, 900, 950)), ("b", (10, 20, 500, 920))):
        for t, kind in zip(moments, ("begin", "gate", "syscall", "end"), strict=True):
            lines.append(json.dumps({"t": t * 1_000_000, "id": name, "kind": kind, "pid": 1}))
    found = parse("\n".join(lines).encode())
    assert max(shown(html.render(found))) == 950
    assert max(shown(html.render(found[:1]))) == 150
