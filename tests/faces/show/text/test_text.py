"""Events as lines."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minirun
from minirun.common import screen
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event, event_of
from minirun.faces.show.log.narrate import Narrator

START = 5_000_000_000


def event(kind: str = "syscall", name: str = "mount", **more: Any) -> Event:
    base = {
        "v": 1, "t": START + 2_020_000, "id": "c1", "stage": 1, "actor": "init", "pid": 42,
        "kind": kind, "name": name, "args": {}, "ret": 0, "errno": None, "dur": 0, "why": "",
    }  # fmt: skip
    return event_of({**base, **more})


def line_of(given: Event, start: int, *, unicode: bool = True, full: bool = False) -> str:
    pieces = event_row.columns(event_row.row(given, start), unicode=unicode, full=full)
    return "".join(part for _, part in pieces).rstrip()


PROC = {
    "source": "proc", "target": "/proc/self/fd/9", "path": "/proc", "fstype": "proc",
    "flags": "MS_NOSUID|MS_NODEV|MS_NOEXEC", "data": None,
}  # fmt: skip
ERROR = {"error": "/etc: no space left on device"}
OVERLAY = {
    "source": "overlay", "target": "/var/lib/minirun/containers/c1/rootfs", "fstype": "overlay",
    "flags": "0", "data": "lowerdir=/a:/b",
}  # fmt: skip


@pytest.mark.parametrize(
    ("given_event", "left", "right"),
    [
        (
            event("begin", "clone", actor="runtime"),
            "1 runtime  clone() makes the container's init; OverlayFS its root filesystem",
            "",
        ),
        (
            event(args=PROC, dur=29_000),
            "    2.02ms 1 init    mount proc on /proc MS_NOSUID|NODEV|NOEXEC",
            "ok    29µs",
        ),
        (
            event("note", "gpu shared", args={"gpu": "0", "with": ["a", "b"], "hint": None}),
            "    2.02ms 1 init    gpu shared gpu=0 with=a b",
            "",
        ),
        (
            event(args=OVERLAY, dur=493_000, t=START + 61_000_000_000),
            "61000.00ms 1 init    mount overlay on …/containers/c1/rootfs lo…",
            "ok   493µs",
        ),
        (
            event(name="mknodat", stage=5, actor="cli", ret=-1, errno="EPERM", dur=3_200_000,
                  args={"path": "/dev/nvidia0", "mode": "0o20666", "kind": "c",
                        "major": 195, "minor": 0}),
            "    2.02ms 5 cli     mknodat /dev/nvidia0 c 195:0",
            "EPERM   3.2ms",
        ),
        (
            event(name="clone3", actor="runtime", ret=4242, dur=371_000, args={"flags": "0"}),
            "    2.02ms 1 runtime clone3",
            "= 4242   371µs",
        ),
        (
            event("message", "RUN_HOOKS", stage=2, args={"to": "runtime"}, why="please run them"),
            "    2.02ms 2 init    RUN_HOOKS to runtime  # please run them",
            "",
        ),
        (
            event("exec", "execve", stage=7, ret=None,
                  args={"path": "/bin/sh", "argv": ["sh", "-c", "ls"]}),
            "    2.02ms 7 init    execve /bin/sh sh -c ls",
            "",
        ),
        (
            event("end", "clone", dur=41_500_000),
            "    2.02ms 1 init    done",
            "ok  41.5ms",
        ),
        (
            event("end", "clone", dur=4_150_000_000, ret=-1, args=ERROR),
            "    2.02ms 1 init    failed: /etc: no space left on device",
            "FAILED    4.2s",
        ),
        (
            event("syscall", "newcall", args={"fd": 3, "flags": None, "list": [1, 2]}, dur=1000),
            "    2.02ms 1 init    newcall fd=3 list=1 2",
            "ok     1µs",
        ),
    ],
)  # fmt: skip
def test_lines(given_event: Event, left: str, right: str) -> None:
    """What happened stands on the left; result and duration end at column 80."""
    expected = left + right.rjust(80 - len(left)) if right else left
    assert line_of(given_event, START) == expected


def test_full_lines_keep_everything_and_give_the_reason() -> None:
    line = line_of(event(args=OVERLAY, why="layers below, changes above"), START, full=True)
    for part in ("/var/lib/minirun/containers/c1/rootfs", "lowerdir=/a:/b", "# layers below"):
        assert part in line


def test_ascii() -> None:
    odd = event(args={**PROC, "path": "/컨테이너/é"}, dur=29_000)
    assert line_of(odd, START, unicode=False, full=True) == (
        r"    2.02ms 1 init    mount proc on /\ucee8\ud14c\uc774\ub108/\xe9"
        r" MS_NOSUID|MS_NODEV|MS_NOEXEC      ok    29us"
    )
    assert "컨테이너/é" in line_of(odd, START)


def test_every_heading_fits() -> None:
    for stage in event_row.STAGES:
        heading = line_of(event("begin", stage=stage, actor="runtime"), START)
        assert heading == f"{stage} runtime  {event_row.STAGES[stage]}"
        assert len(heading) <= 80
    assert line_of(event("begin", "checkpoint", stage=9), START) == "9 init     checkpoint"


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "a\rb", "x\ny", "\x9b2J", "‮", "\udcff"])
def test_nothing_that_a_terminal_obeys_is_sent(hostile: str) -> None:
    for line in (
        line_of(event(args={**PROC, "path": hostile}), START),
        line_of(event("note", hostile, why=hostile, actor=hostile), START),
        line_of(event("end", ret=-1, args={"error": hostile}), START),
        line_of(event("syscall", "mknodat", errno=hostile), START),
    ):
        assert line.isprintable()
        assert line.encode()


SCALARS = st.one_of(st.none(), st.integers(), st.text(max_size=120), st.lists(st.text()))


@given(
    kind=st.sampled_from(["begin", "end", "syscall", "message", "exec", "note", "gate"]),
    name=st.sampled_from([*event_row._ARGUMENTS, "other", "이름" * 30]),
    args=st.dictionaries(
        st.sampled_from(["path", "source", "target", "flags", "data", "argv", "x"]), SCALARS
    ),
    ret=st.one_of(st.none(), st.integers(-1, 10**9)),
    why=st.text(max_size=100),
    dur=st.integers(0, 10**12),
    unicode=st.booleans(),
)
def test_any_event_fits_into_80_columns(unicode: bool, dur: int, **fields: Any) -> None:
    line = line_of(event(dur=dur, **fields), START, unicode=unicode)
    assert screen.display_width(line) <= 80
    assert line.isprintable()
    assert unicode or line.isascii()


def test_the_narrator_counts_system_calls_and_sees_the_end() -> None:
    events = [
        event("begin"), event(), event(name="unshare"), event("message", "GO"), event("end"),
        event("begin", stage=7), event(stage=7), event("exec", "execve", stage=7),
        event("end", stage=7),
    ]  # fmt: skip
    stages = Narrator("stages")
    shown = [row.what for row in map(stages.row, events) if row]
    assert shown == [
        event_row.STAGES[1], "GO", "done: 2 system calls, 1 message",
        event_row.STAGES[7], "execve", "done: 1 system call",
    ]  # fmt: skip
    assert stages.over
    calls = Narrator("syscalls")
    assert all(map(calls.row, events))
    with pytest.raises(ValueError, match="level 'all'"):
        Narrator("all")


def test_a_failed_stage_is_the_end() -> None:
    narrator = Narrator("stages")
    narrator.row(event("end", stage=3))
    assert not narrator.over
    narrator.row(event("end", stage=5, ret=-1, args=ERROR))
    narrator.row(event("end", stage=4))
    assert narrator.over


def test_the_plain_view_is_light() -> None:
    """A run that shows its log on a pipe must not load rich, nor what rich loads."""
    program = (
        "import sys; from minirun.faces.show.text import paint; paint.painter(1, 'lanes')([]);"
        "heavy = {'rich', 'json', 're', 'typing', 'enum', 'dataclasses', 'ctypes', 'subprocess'};"
        "print(heavy & set(sys.modules))"
    )
    path = [str(Path(minirun.__file__).parents[1]), *sys.path]
    program = f"import sys; sys.path[:] = {path!r}; " + program
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "set()\n"
