"""`run --step` on the whole screen, in a real terminal: what stands there at each stop."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conftest import STORE, Program, wait_until
from faces.show.terminal import Start, Terminal
from minirun.common.screen import display_width
from minirun.core.keeping.settings import BOUNDARIES, Settings
from minirun.faces.show.compare import snapshots
from minirun.faces.show.compare.comparer import PartDifference
from minirun.faces.show.step import differences
from minirun.faces.show.step.controller import Controller
from minirun.faces.show.step.inside import MOST_OUTPUT
from minirun.faces.show.step.until import StopPattern

GPUS = ("--gpus", "0,1", "--gpu-driver", "simulated")
SIZES = [(80, 24), (120, 40), (200, 50), (60, 20)]
SCRIPT = Path(__file__).parents[4] / "tutorials/scripts/figure-3.keys"
NAMES = ("clone", "ask", "hooks", "plan", "GPUs", "reply", "exec")


def _argv(minirun: Program, *words: str, name: str = "screen") -> list[str]:
    return minirun.argv("run", "--rm", "--step", "--name", name, *GPUS, "busybox", *words)


def _until(screen: Terminal, *parts: str) -> list[str]:
    def there() -> bool:
        shown = "\n".join(screen.visible())
        return all(part in shown for part in parts)

    with suppress(AssertionError):
        wait_until(there)
    assert there(), "\n".join([f"not shown: {parts}", *screen.visible()])
    return screen.at_rest()


def _place(at: str) -> str:
    number, edge = at.split(":")
    return f" {'before' if edge == 'begin' else 'after'} stage {number}: "


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_each_stop(minirun: Program, terminal: Start, columns: int, lines: int) -> None:
    """The place, the lit stage, both processes, what changed, events, keys: all fit."""
    screen = terminal(_argv(minirun, "echo", "the command"), columns, lines)
    for number, at in enumerate(BOUNDARIES, 1):
        shown = _until(screen, _place(at), f"stop {number}")
        assert len(shown) <= lines and all(len(line) <= columns for line in shown), at
        assert shown[0].startswith(_place(at)) and shown[0].endswith(f"stop {number}")
        stage = int(at[0])
        blank = " " if columns >= 80 else ""
        lit = [line for line in shown[1:4] if "▶" in line]
        assert len(lit) == 1 and f"▶{stage}{blank}{NAMES[stage - 1]}" in lit[0], at
        assert lit[0].startswith("init" if stage in (2, 7) else "runtime")
        assert [stage for stage in range(1, 8) if f"✓{stage}" in "".join(shown[1:4])] == list(
            range(1, stage)
        )
        text = "\n".join(shown)
        assert text.count("── runtime ─") == text.count("WHAT CHANGED") == 1
        assert text.count("LAST EVENTS") == text.count("n next  c continue") == 1
        assert "q quit" in shown[-1]
        if at == "1:begin":
            assert "not born yet" in text
        if at == "5:end":
            _stage_5(shown)
        screen.press("n")
    shown = _until(screen, "ended with 0", "the command")
    assert "WHAT CHANGED" not in "\n".join(shown)  # the screen is given back


def _stage_5(shown: list[str]) -> None:
    at = next(i for i, line in enumerate(shown) if "WHAT CHANGED" in line)
    stops = shown[at + 1 : next(i for i, line in enumerate(shown) if "LAST EVENTS" in line)]
    nodes = next(line for line in stops if line.startswith("  nodes"))
    assert "+5 /dev/nvidia0 c 195:0" in nodes or "+ /dev/nvidia0 c 195:0" in nodes
    assert any(line.startswith("  mounts") and "nvidia" in line for line in stops)
    assert "SIMULATED" in shown[0]


def test_a_projector_needs_few_columns(minirun: Program, terminal: Start) -> None:
    argv = minirun.argv("run", "--rm", "--step", "--large", "busybox", "true")
    screen = terminal(argv, 40, 16)
    shown = _until(screen, "▶1cl", "l small")
    assert all(display_width(line) <= 40 for line in shown)
    screen.press("c")
    _until(screen, "ended with 0")
    smaller = terminal(argv, 39, 16)
    smaller.wait("the screen needs 40x16")
    smaller.press("c")


def test_it_does_not_leave_its_screen_to_a_shell(minirun: Program, terminal: Start) -> None:
    """A shell with job control would write into it after ^Z."""
    command = " ".join(minirun.argv("run", "--rm", "--step", "busybox", "echo", "the command"))
    screen = terminal(["bash", "--norc", "-i", "-c", f"{command}; echo over"], 80, 24)
    _until(screen, "stop 1")
    screen.press("C-z", "n")
    assert not any("Stopped" in line for line in _until(screen, "stop 2"))
    screen.press("c")
    _until(screen, "the command", "over")


def test_every_key(minirun: Program, terminal: Start) -> None:
    screen = terminal(_argv(minirun, "echo", "the command"), 80, 24)
    _until(screen, "stop 1")
    screen.press("s")
    _until(screen, "there is no init yet")
    screen.press("u")
    _until(screen, "until which event? _")
    screen.press("mknodat /dev/nvidia1", "Enter")
    shown = _until(screen, " after mknodat /dev/nvidia1 c 195:1: ok, in stage 5", "▶5 GPUs◀")
    assert shown[0].endswith("stop 2") and "(GPUs SIMULATED)" in shown[0]
    assert " mknodat /dev/nvidia1 c 195:1 " in [line for line in shown if "ms " in line][-1]
    screen.press("i")
    first = _until(screen, "+ /dev/nvidia1 c 195:1", "q back to the stop")
    screen.press("Space")
    wait_until(lambda: screen.visible() != first)
    screen.press("/")
    _until(screen, "search: _")
    screen.press("init: process", "Enter")
    assert "init: process" in _until(screen, "init: process")[1]
    screen.press("q")
    _until(screen, "stop 2", "LAST EVENTS")
    screen.press("?")
    _until(screen, "q back to the stop", "mknodat")
    screen.press("q", "b")
    _until(screen, "RECORDED at 5:begin")
    screen.press("q", "u", "5:end", "Enter")
    _until(screen, _place("5:end"))
    screen.press("?")
    assert "\n".join(_until(screen, "man page", "q back")).count("real stack: ") == 1
    screen.press("q", "l")
    rules = "   rules        +5   c 195:0 rw # /dev/nvidia0, …"  # the dots: there are more
    large = "\n".join(_until(screen, "▀▄▄▀", rules, "l small"))
    assert "LAST EVENTS" not in large and "SIMULATED" in large
    screen.press("l", "s")
    _until(screen, "a shell in the half-built container")
    screen.press("ls /dev | grep -c nvidia; echo $((6*7)); exit", "Enter")
    _until(screen, "stop 3", "LAST EVENTS")
    screen.press("u", "nosuchcall", "Enter")
    _until(screen, "stop 3", "no event is called 'nosuchcall'")
    screen.press("u", "pivotroot", "Enter")
    _until(screen, "stop 3", "no event is called 'pivotroot' (did you mean pivot_root?)")
    screen.press("u", "mknodat /nosuch*", "Enter")
    _until(screen, " after stage 7", "no event was 'mknodat /nosuch*'; this is the last stop")
    screen.press("c")
    end = "\n".join(_until(screen, "ended with 0", "the command"))
    assert "42" in end  # what the shell left on the normal screen
    assert not list(minirun.root.glob("[!.]*"))


def test_the_size_changes(minirun: Program, terminal: Start) -> None:
    screen = terminal(_argv(minirun, "true"), 120, 40)
    _until(screen, "stop 1")
    for columns, lines in ((60, 20), (200, 50), (80, 24)):
        words = ["resize-window", "-x", str(columns), "-y", str(lines)]
        screen.tell(*words)
        _wait_for_lines(screen, lines)
        shown = _until(screen, "stop 1", "q quit", "LAST EVENTS")
        assert len(shown) == lines and all(len(line) <= columns for line in shown)
        assert shown[0].endswith("stop 1")
    screen.press("q")
    _until(screen, "ended with 130")


def _wait_for_lines(screen: Terminal, lines: int) -> None:
    wait_until(lambda: len(screen.visible()) == lines)


def test_quit_leaves_nothing(minirun: Program, terminal: Start) -> None:
    screen = terminal(_argv(minirun, "echo", "never"), 80, 24)
    _until(screen, "stop 1")
    screen.press("u", "5", "Enter")
    _until(screen, _place("5:begin"))
    screen.press("q")
    end = _until(screen, "ended with 130")
    assert "never" not in end and "WHAT CHANGED" not in "\n".join(end)
    assert not list(minirun.root.glob("[!.]*"))


@pytest.mark.parametrize("how", ["^C", "SIGKILL"])
def test_the_screen_is_given_back(minirun: Program, terminal: Start, how: str) -> None:
    """^C cleans up; the run of a killed stepper goes on. What is typed then is seen again."""
    screen = terminal(_argv(minirun, "echo", "the command"), 80, 24)
    _until(screen, "stop 1")
    screen.press("n")
    _until(screen, "stop 2")
    if how == "^C":
        screen.press("C-c")
        end = _until(screen, "ended with 130")
    else:
        pid = next(e["pid"] for e in minirun.events("screen") if e["actor"] == "step")
        os.kill(int(str(pid)), signal.SIGKILL)
        end = _until(screen, "ended with 0")
        assert "the command" in "\n".join(end)
    assert "WHAT CHANGED" not in "\n".join(end)
    screen.press("typed")
    _until(screen, "typed")
    assert not list(minirun.root.glob("[!.]*"))


def test_without_unicode_and_colours(minirun: Program, terminal: Start) -> None:
    argv = ["env", "LC_ALL=C", "NO_COLOR=1", *_argv(minirun, "true")]
    screen = terminal(argv, 80, 24)
    _until(screen, "stop 1")
    screen.press("u", "5:end", "Enter")
    shown = _until(screen, _place("5:end"), ">5 GPUs<")
    assert all(line.isascii() for line in shown)
    assert "+1 clone" in shown[1]
    coloured = screen.tell("capture-pane", "-p", "-e")
    assert "\x1b[7m" in coloured or ";7m" in coloured
    assert not any(f"\x1b[{n}m" in coloured for n in range(30, 38))
    screen.press("c")
    _until(screen, "ended with 0")


def test_a_terminal_that_is_too_small_has_lines(minirun: Program, terminal: Start) -> None:
    screen = terminal(_argv(minirun, "true"), 50, 15)
    screen.wait("--step in lines: the terminal is 50x15")
    screen.wait("[n]ext [c]ontinue")
    screen.press("c")
    screen.wait("ended with 0")


def test_korean(minirun: Program, terminal: Start) -> None:
    argv = minirun.argv("--lang", "ko", "run", "--rm", "--step", *GPUS, "busybox", "true")
    screen = terminal(argv, 80, 24)
    _until(screen, "1단계 앞", "바뀐 것", "멈춤 1")
    screen.press("u", "5:end", "Enter")
    shown = _until(screen, "5단계 뒤: GPU를 넣는다", "+12 /dev/nvidia0", "▶5 GPU◀")
    assert len(shown) == 24
    screen.press("q")
    _until(screen, "ended with 130")


def test_after_each_event(minirun: Program, terminal: Start) -> None:
    argv = minirun.argv("run", "--rm", "--step=syscall", *GPUS, "busybox", "true")
    screen = terminal(argv, 80, 24)
    for number in range(1, 6):
        shown = _until(screen, f"stop {number}", "LAST EVENTS")
        assert number == 1 or shown[0].startswith((" after ", " before stage 1")), shown[0]
        screen.press("n")
    screen.press("u", "pivot_root", "Enter")
    _until(screen, " after pivot_root . .: ok, in stage 5")  # ldconfig's own
    screen.press("n")
    shown = _until(screen, ", in stage 5", "LAST EVENTS")
    wait_until(lambda: "after pivot_root" not in screen.visible()[0])
    screen.press("c")
    _until(screen, "ended with 0")


@pytest.mark.parametrize("event", ["clone3", "mknodat /dev/nvidia0", "prctl", "RUN_HOOKS"])
def test_what_it_is_held_after_is_the_last_event(
    minirun: Program, terminal: Start, event: str
) -> None:
    """After clone3 too: init goes on meanwhile."""
    screen = terminal(_argv(minirun, "true"), 80, 24)
    _until(screen, "stop 1")
    screen.press("u", event, "Enter")
    shown = _until(screen, f" after {event}", "stop 2", "LAST EVENTS")
    time.sleep(0.5)  # for init
    assert event in [line for line in screen.visible() if "ms " in line][-1], shown
    screen.press("q")
    _until(screen, "ended with 130")


def test_what_a_container_prints_is_shown_and_not_obeyed(
    minirun: Program, terminal: Start, tmp_path: Path
) -> None:
    script = tmp_path / "keys"
    script.write_text("at 5:begin\nshell printf '[b]a\\033[2Jb\\007\\n'; exit 3\nwait\ncontinue\n")
    words = ("--step", "--script", str(script), "busybox", "true")
    screen = terminal(minirun.argv("run", "--rm", *GPUS, *words), 80, 24)
    shown = _until(screen, "# printf", r"a\x1b[2Jb\x07", "q quit")
    assert shown[1] == r"[b]a\x1b[2Jb\x07", "markup of rich is text too"
    screen.press("j", "n")
    _until(screen, "ended with 0")


def test_a_terminal_that_dies(minirun: Program, terminal: Start) -> None:
    screen = terminal(_argv(minirun, "sleep", "100"), 80, 24)
    _until(screen, "stop 1")
    screen.press("n")
    _until(screen, "stop 2")
    pids = {int(str(e["pid"])) for e in minirun.events("screen")}
    screen.close()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
    assert minirun("gc").returncode == 0
    assert not list(minirun.root.glob("[!.]*"))


def test_a_command_in_the_container_has_an_end(minirun: Program) -> None:
    """What a face asks: the command's output and status; it is ended if it takes too long."""
    minirun("run", "-d", "--name", "asked", "busybox", "sleep", "60")
    pid = json.loads(minirun("state", "asked").stdout)["pid"]
    settings = Settings(str(minirun.root), STORE, root_is_named=True)
    asking = Controller(settings, "asked", StopPattern(), -1)
    assert asking.command("true").status == 125
    asking.pids["init"] = pid
    done = asking.command("echo $((6*7)); echo no >&2; exit 3")
    assert (done.status, sorted(done.text.split()), done.cut) == (3, ["42", "no"], False)
    late = asking.command("echo begun; sleep 777", seconds=1.5)
    assert late.cut and late.text == "begun\n"
    wait_until(lambda: "sleep 777" not in minirun("exec", "asked", "ps").stdout)
    large = asking.command("yes", seconds=20)
    assert large.cut and MOST_OUTPUT <= len(large.text) < 2 * MOST_OUTPUT


def test_the_talk_on_the_screen(minirun: Program, terminal: Start) -> None:
    """Rehearsed at 80x24: it comes to its end, and the command's output stands on the screen."""
    words = ("--step", "--script", str(SCRIPT), "--rehearse", *GPUS, "busybox", "echo", "curtain")
    screen = terminal(minirun.argv("run", "--rm", *words), 80, 24)
    shown = _until(screen, "ended with 0", "curtain")
    assert "--step ends here" not in "\n".join(shown)


def _snapshot(**parts: object) -> Any:
    empty: dict[str, object] = {
        "at": "5:begin", "namespaces": {}, "host_namespaces": {}, "mounts": [], "files": [],
        "devices": [], "processes": {},
    }  # fmt: skip
    return empty | parts


def test_what_changed() -> None:
    host = {"mount": "mnt:[1]", "network": "net:[2]"}
    mounts = ["/ overlay overlay rw", "host:/ ext4 a rw", "host:/proc proc proc rw"]
    facts = {"pid": 7, "name": "a", "capabilities": "0x3", "seccomp": "0", "descriptors": ["0 /x"]}
    before = _snapshot(mounts=mounts, host_namespaces=host, processes={"init": facts})
    now = _snapshot(
        mounts=mounts[:1], host_namespaces=host, devices=["c 195:0 rw # /dev/nvidia0"],
        namespaces={"mount": "mnt:[9]", "network": "net:[2]"},
        files=["./dev/nvidia0 c 195:0", "./etc/ld.so.cache"],
        processes={"init": facts | {"capabilities": "0x1", "descriptors": []}},
    )  # fmt: skip
    assert snapshots.since(before, before) == []
    assert snapshots.since(None, before)[1:] == [("mounts", [], ["/ overlay overlay rw"])]
    assert snapshots.since(before, now) == [
        ("namespaces", [], ["mount mnt:[9]"]),
        ("processes", ["init: capabilities 0x3"], ["init: capabilities 0x1"]),
        ("nodes", [], ["/dev/nvidia0 c 195:0"]),
        ("mounts", ["2 mounts of the host"], []),
        ("rules", [], ["c 195:0 rw # /dev/nvidia0"]),
        ("files", [], ["/etc/ld.so.cache"]),
    ]


@pytest.mark.parametrize("room", [1, 2, 3, 5, 8, 60])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_changes_in_any_room(room: int, width: int) -> None:
    """Never more lines than there is room for; every kind has one; all of it if it fits."""
    names = [f"/dev/thing{n} c 1:{n}" for n in range(9)]
    changes = [
        PartDifference("nodes", [], ["/dev/nvidia0 c 195:0", *names]),
        PartDifference("mounts", ["/sys/fs/cgroup cgroup", "20 mounts of the host"], []),
        PartDifference("rules", ["c 1:1 rw"], ["c 195:0 rw"]),
    ]
    words = {"nodes": "nodes", "points": "mounts", "rules": "rules"}
    console = Console(width=width)
    drawn = console.render_lines(differences.table(changes, words, width, room))
    text = ["".join(part.text for part in line).rstrip() for line in drawn]
    assert len(text) <= room
    assert [line.split()[0] for line in text if line[2] != " "] == ["nodes", "mounts", "rules"][
        :room
    ]
    assert "/dev/nvidia0 c 195:0" in text[0]
    if room == 3:
        assert "+10 " in text[0] and "-21 /sys/fs/cgroup, 20 mounts of the host" in text[1]
    if room == 60:
        assert len(text) == 14
