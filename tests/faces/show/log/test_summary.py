"""A line for each stage: on terminals of three sizes, and counted again from the log."""

import json
import re
import time

import pytest

from conftest import Program, wait_until
from faces.show.readback import stages_in
from faces.show.terminal import Start
from minirun.faces.show.log.recording import Recording, parse

COMMAND = ("ubuntu", "sh", "-c", "ls -l /dev; nvidia-smi -L")
GPUS = ("--gpus", "0,1", "--gpu-driver", "simulated")


def recorded(minirun: Program, name: str) -> Recording:
    (found,) = parse((minirun.directory(name) / "events.jsonl").read_bytes())
    return found


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (200, 50)])
def test_seven_lines_and_the_output_stay_on_the_screen(
    minirun: Program, terminal: Start, columns: int, lines: int
) -> None:
    screen = terminal(minirun.argv("run", "--rm", *GPUS, *COMMAND), columns, lines)
    screen.wait("ended with 0")
    shown = screen.visible()
    assert len(shown) <= lines
    assert [line.number for line in stages_in(shown)] == [1, 2, 3, 4, 5, 6, 7]
    for text in ("zero", "GPU 0: ", "GPU 1: ", *(("nvidia0", "full") if lines > 24 else ())):
        assert any(text in line for line in shown), f"the command's output stays too: {text}"
    assert "2 GPUs SIMULATED: 5 nodes, 11 libraries, 6 programs, 5 rules" in "\n".join(shown)
    assert not any("…" in line for line in shown if line[:2] in ("1 ", "4 ", "5 ")), "uncut"


def test_a_line_that_the_command_has_not_ended(minirun: Program, terminal: Start) -> None:
    screen = terminal(minirun.argv("run", "--rm", "busybox", "printf", "no end"))
    screen.wait("ended with 0")
    shown = screen.visible()
    assert shown[0] == "no end"
    assert [line.number for line in stages_in(shown)] == [1, 2, 3, 4, 5, 6, 7]


def test_before_a_shell_on_a_terminal(minirun: Program, terminal: Start) -> None:
    """With -t the command is a session: the lines come first, and not once more at its end."""
    screen = terminal(minirun.argv("run", "--rm", "-it", "busybox", "sh"))
    screen.wait("/ #")
    assert [line.number for line in stages_in(screen.visible())] == [1, 2, 3, 4, 5, 6, 7]
    screen.press("exit", "Enter")
    screen.wait("ended with 0")
    assert len(stages_in(screen.visible())) == 7


def test_a_shell_without_a_terminal_is_told_of_one(minirun: Program, terminal: Start) -> None:
    screen = terminal(minirun.argv("run", "--rm", "busybox"))
    shown = screen.wait("ended with 0").splitlines()
    assert "minirun: sh has ended, as it had no terminal: run -it gives it this one" in shown
    screen = terminal(minirun.argv("run", "--rm", "busybox", "sh", "-c", "true"))
    assert "terminal" not in screen.wait("ended with 0")


def test_a_shell_that_was_looked_in_with_is_not_the_command(
    minirun: Program, terminal: Start
) -> None:
    """A stepper's `s`, or `exec ID sh` from a second terminal: the command is another one."""
    screen = terminal(minirun.argv("run", "--rm", "--step", "busybox", "true"))
    screen.wait("before stage 1")
    screen.press("n")
    screen.wait("after stage 1")
    screen.press("s")
    screen.wait("/ #")
    screen.press("exit", "Enter")
    time.sleep(0.5)
    screen.press("q")
    assert "as it had no terminal" not in screen.wait("ended with 130")
    screen = terminal(minirun.argv("run", "--rm", "--name", "c", "busybox", "sleep", "2"))
    wait_until(lambda: minirun("exec", "c", "sh").returncode == 0)
    assert "as it had no terminal" not in screen.wait("ended with 0")


@pytest.mark.parametrize("flags", [(), GPUS, ("--uidmap", "0:100000:65536")])
def test_it_says_what_the_log_says(reachable: Program, flags: tuple[str, ...]) -> None:
    done = reachable("run", "--name", "c", "--progress", "tty", *flags, "busybox", "true")
    found = recorded(reachable, "c")
    lines = {line.number: line for line in stages_in(done.stderr.splitlines())}
    assert list(lines) == [1, 2, 3, 4, 5, 6, 7]
    birth = found.birth
    assert birth
    kinds = str(birth.args["flags"]).count("CLONE_NEW")
    assert f"{kinds} new namespaces" in lines[1].what
    done_by = {s.number: s for s in found.stages}
    for number, line in lines.items():
        if number not in done_by:
            assert (line.what, line.took) == ("nothing to do", 0)
        else:
            assert line.actor == done_by[number].actor
            assert line.took == pytest.approx(done_by[number].duration / 1e6, rel=0.1, abs=0.5)
    made = [e for e in found.events if e.stage == 5 and e.name == "mknodat" and not e.errno]
    count = re.search(r"(\d+) nodes", lines[5].what)
    assert (int(count[1]) if count else 0) == len(made)


def test_a_failed_stage_is_the_last_line(minirun: Program) -> None:
    flags = ("--gpus", "device=9", "--gpu-driver=simulated", "--progress", "tty")
    done = minirun("run", *flags, "busybox", "true")
    *_, last = stages_in(done.stderr.splitlines())
    assert (last.number, last.what) == (5, "failed: device error: 9: unknown device")


@pytest.mark.parametrize("how", ["--progress=lanes", "--progress=plain", "--progress=quiet"])
def test_other_ways_are_as_they_were(minirun: Program, how: str) -> None:
    done = minirun("run", "--rm", how, "busybox", "true")
    assert stages_in(done.stderr.splitlines()) == []
    assert ("READY" in done.stderr) == (how != "--progress=quiet")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--progress", "lanes"), "◄───────── READY ─────────┤"),
        (("--plain",), "init says READY to runtime"),
        (("-it",), "7 init    pivot_root, 14 capabilities left, exec echo"),
    ],
)
def test_with_snapshots_the_stages_are_shown_before_the_output(
    minirun: Program, terminal: Start, flags: tuple[str, ...], expected: str
) -> None:
    screen = terminal(
        minirun.argv("run", "--rm", "--snapshots", *flags, "busybox", "echo", "done:")
    )
    shown = screen.wait("ended with 0")
    assert expected in shown
    assert shown.index(expected) < shown.index("\ndone:")


def test_replay_folds_to_the_same_lines(minirun: Program) -> None:
    done = minirun("replay", "gpus-0-1", "--level", "summary")
    assert [line.number for line in stages_in(done.stdout.splitlines())] == [1, 2, 3, 4, 5, 6, 7]
    said = minirun("replay", "gpus-0-1", "--level", "summary", "--plain").stdout.splitlines()
    assert said[5].startswith("Stage 5, cli: 2 GPUs SIMULATED: 5 nodes, 11 libraries")
    text = minirun("replay", "gpus-0-1", "--level", "summary", "--text").stdout
    assert text.count("\n") == 8


def test_pace_holds_the_run_for_real(minirun: Program) -> None:
    began = time.monotonic()
    done = minirun("run", "--pace", "0.2", "--name", "c", *GPUS, "busybox", "echo", "out")
    took = time.monotonic() - began
    assert (done.returncode, done.stdout) == (0, "out\n")
    first = done.stderr.splitlines()[0]
    assert first == "minirun: --pace 0.2: the run is held for 0.2 s at each boundary of a stage"
    found = recorded(minirun, "c")
    assert len(found.waits.spans) == 14, "before and after each of the seven"
    for begin, end in found.waits.spans[:-1]:
        assert end - begin >= 0.2e9
    assert took > 14 * 0.2
    assert "└ done: " in done.stderr, "everything is shown"


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--pace", "fast"), "invalid --pace 'fast' (seconds at each boundary: 0.5, 2)"),
        (("--pace", "-1"), "invalid --pace '-1' (seconds at each boundary: 0.5, 2)"),
        (("--pace", "nan"), "invalid --pace 'nan' (seconds at each boundary: 0.5, 2)"),
        (("--pace", "1", "--snapshots"), "--pace or --snapshots, not both"),
        (("--pace", "1", "-d"), "--pace or --detach, not both"),
    ],
)
def test_mistakes(minirun: Program, flags: tuple[str, ...], text: str) -> None:
    done = minirun("run", *flags, "busybox", "true")
    assert (done.returncode, done.stderr) == (125, f"minirun: {text}\n")
    assert minirun.left() == []


def test_a_hostile_recording_is_only_text(minirun: Program) -> None:
    common = {"v": 1, "t": 1, "id": "c", "pid": 1, "ret": 0, "errno": None, "dur": 1, "why": ""}
    rows = [
        {"stage": 4, "actor": "\x1b[2J", "kind": "note", "name": "nvidia-container-cli",
         "args": {"argv": ["\x1b]0;x\x07", {"a": 1}]}},
        {"stage": 4, "actor": "\x1b[2J", "kind": "end", "name": "x", "args": {}},
        {"stage": 5, "actor": "cli", "kind": "note", "name": "gpus chosen",
         "args": {"gpus": ["\x1b[2J"], "of": []}},
        {"stage": 7, "actor": "init", "kind": "exec", "name": "execve", "args": {"argv": 5}},
        {"stage": 7, "actor": "init", "kind": "end", "name": "x", "args": {}},
    ]  # fmt: skip
    text = "".join(json.dumps({**common, **row}) + "\n" for row in rows)
    for level in ("summary", "stages"):
        done = minirun("timeline", "-", "--level", level, input=text)
        assert (done.returncode, "\x1b" in done.stdout) == (0, False), done.stderr
