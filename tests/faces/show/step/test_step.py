"""`run --step` in a real terminal, `--snapshots`, `diff`, and an end at every gate."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Program, wait_until
from faces.show.terminal import Start
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces.show.log import event_row
from minirun.faces.show.step import keys
from minirun.faces.show.step.until import Pattern

GPUS = ("--gpus", "0,1", "--gpu-driver", "simulated")
PROMPT = "[n]ext [c]ontinue"
SCRIPT = Path(__file__).parents[4] / "tutorials/scripts/figure-3.keys"
KOREAN = SCRIPT.with_name("figure-3.ko.keys")


def test_from_stop_to_stop_with_every_key(minirun: Program, terminal: Start) -> None:
    argv = [*minirun.argv("run", "--rm", "--step=plain", "--name", "step", *GPUS, "busybox")]
    screen = terminal([*argv, "echo", "the command"])
    assert "before stage 1" in screen.wait(PROMPT)
    screen.press("s")
    screen.wait("there is no init yet")
    for stop in range(2, 10):  # to 5:begin
        screen.press("n")
        screen.wait(PROMPT, stop + 1)
    assert "before stage 5" in screen.screen()
    screen.press("i")
    page = screen.wait("init: process")
    assert "mnt:[" in page
    assert "of the host, until pivot_root" in page
    assert "init.fifo" in page
    screen.press("s")
    screen.wait("built-in commands.")  # its prompt differs from version to version
    screen.press("echo $((6*7)); ls /dev | grep -c nvidia; cat /proc/1/comm; exit", "Enter")
    inside = screen.wait("\nminirun:init")  # what cat says, not what was typed
    assert "42" in inside
    assert "\n0\n" in inside  # no nvidia node yet
    screen.wait(PROMPT, 12)
    screen.press("?")
    assert "nvidia-container-cli" in screen.wait("man page")
    screen.press("b")
    screen.wait("RECORDED at 4:end")
    screen.press("b")
    screen.wait("RECORDED at 4:begin")
    screen.press("n")
    screen.wait("after stage 5")
    screen.press("c")
    end = screen.wait("ended with 0")
    assert "the command" in end
    taken = [e["args"]["at"] for e in minirun.events("step") if e["name"] == "snapshot"]
    assert taken == list(BOUNDARIES)


@pytest.mark.parametrize("how", ["plain", "syscall,plain"])
def test_in_lines_on_a_pipe_every_stage_is_shown(minirun: Program, how: str) -> None:
    """`--step=plain 2>&1 | cat`: the keys come from the terminal; nothing of a title is cut."""
    master, slave = os.openpty()
    argv = minirun.argv("run", "--rm", f"--step={how}", *GPUS, "busybox", "echo", "the command")
    with subprocess.Popen(
        argv, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as started:
        os.write(master, b"n" * 13 + b"c")
        assert started.stdout
        said = started.stdout.read()
    os.close(master)
    os.close(slave)
    assert "the command" in said
    assert "clone3" in said, "events are shown, as on a terminal"
    whole = " ".join(said.split())
    stages = range(1, 8) if how == "plain" else (1,)
    assert all(f"before stage {number}: {event_row.STAGES[number]}" in whole for number in stages)


def test_the_key_why_speaks_korean(minirun: Program, tmp_path: Path) -> None:
    script = tmp_path / "keys"
    script.write_text("why\ncontinue\n")
    argv = ("run", "--rm", "--script", str(script), "busybox", "echo", "done")
    done = minirun(*argv, env={"LC_ALL": "ko_KR.UTF-8", "LANGUAGE": ""})
    assert done.returncode == 0, done.stderr
    assert "clone과 루트 파일시스템\n  runtime이 FIFO와 cgroup을 만든 다음," in done.stderr
    assert "\n  실제 스택: runc는" in done.stderr


def test_quit_cleans_up(minirun: Program, terminal: Start) -> None:
    screen = terminal([*minirun.argv("run", "--rm", "--step=plain", "busybox", "echo", "never")])
    screen.wait(PROMPT)
    for stop in range(2, 6):
        screen.press("Enter")
        screen.wait(PROMPT, stop)
    screen.press("q")
    end = screen.wait("ended with 130")
    assert "giving up" in end
    assert "\nnever" not in end
    assert not list(minirun.root.glob("[!.]*"))


@pytest.mark.parametrize("path", [SCRIPT, KOREAN])
def test_rehearsal_of_figure_3(minirun: Program, path: Path) -> None:
    """The talk comes to its end without a keyboard; each caption and each stop, in their order."""
    words = ("--script", str(path), "--rehearse", *GPUS, "busybox", "echo", "curtain")
    done = minirun("run", "--rm", *words, env={"LC_ALL": "C.UTF-8"})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "curtain")
    said = [key.argument for key in keys.read_script(str(path)) if key.name == "say"]
    assert [line[2:] for line in done.stderr.splitlines() if line.startswith("» ")] == said
    order = [
        "before stage 1", "after stage 1", "init: process", "before stage 2", "after stage 2",
        "before stage 3", "before stage 4", "after stage 4", "before stage 5", "after mknodat",
        "after stage 5", "RECORDED at 5:begin", "before stage 6", "after stage 6",
        "before stage 7", "after pivot_root . .: ok, stage 7", "after stage 7",
    ]  # fmt: skip
    at = -1
    for place in order:
        assert place in done.stderr[at + 1 :], place
        at = done.stderr.index(place, at + 1)
    assert " is over" not in done.stderr  # no jump back


def test_both_talks_have_the_same_keys_and_last_five_minutes() -> None:
    english, korean = (keys.read_script(str(path)) for path in (SCRIPT, KOREAN))
    assert [key.name for key in english] == [key.name for key in korean]
    for one, other in zip(english, korean, strict=True):
        assert one == other or one.name == "say"
        if one.name == "say":
            assert re.search("[가-힣]", other.argument) and one.argument.isascii()
    spoken = sum(float(key.argument) for key in english if key.name == "pause")
    assert 240 <= spoken <= 330
    captions = [key.argument for key in (*english, *korean) if key.name == "say"]
    assert all(len(event_row.wrap(caption, 79, "» ", "  ")) <= 3 for caption in captions)
    assert [k.argument for k in english if k.name == "at"] == [f"{n}:begin" for n in range(1, 8)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pause soon", "keys:1: pause cannot have 'soon'"),
        ("next\nsay", "keys:2: say cannot have ''"),
        ("at 8:begin", "keys:1: at cannot have '8:begin'"),
        ("until", "keys:1: until cannot have ''"),
        ("dance", "keys:1: unknown key 'dance'"),
    ],
)
def test_mistakes_in_a_script(minirun: Program, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "keys").write_text(text)
    done = minirun("run", "--rm", "--script", str(tmp_path / "keys"), "busybox", "true")
    assert done.returncode == 125 and problem in done.stderr and done.stderr.count("\n") == 1
    assert not list(minirun.root.glob("[!.]*"))


def test_a_presenter_waits_pauses_and_jumps(
    minirun: Program, terminal: Start, tmp_path: Path
) -> None:
    script = tmp_path / "keys"
    script.write_text(
        "say first\nwait\nsay second\npause 60\nnext\nat 5:begin\nsay fifth # one\n"
        "pause 0.2\nsay over\nwait\ncontinue\n"
    )
    argv = minirun.argv("run", "--rm", "--step", "--script", str(script), *GPUS, "busybox", "true")
    screen = terminal(argv, 80, 24)
    wait_until(lambda: "» first" in screen.screen() and "any key goes on" in screen.screen())
    screen.press("n")
    wait_until(lambda: "» second" in screen.screen())
    screen.press("Space")
    wait_until(lambda: "paused: space goes on" in screen.screen())
    screen.press("5")
    wait_until(lambda: "before stage 5" in screen.screen() and "» over" in screen.screen())
    screen.press("n")
    screen.wait("ended with 0")


def test_after_each_event(minirun: Program, tmp_path: Path) -> None:
    """Every event is a stop, of one process at a time, and the command runs in the end."""
    script = tmp_path / "keys"
    script.write_text("next\n" * 1000)
    argv = ("run", "--rm", "--name", "every", "--step=syscall", "--script", str(script))
    done = minirun(*argv, *GPUS, "busybox", "echo", "done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    told = minirun.events("every")
    gates = [e for e in told if e["kind"] == "gate" and e["name"] == "syscall"]
    stopped = [e["args"]["after"] for e in gates]
    for name in ("clone3", "mount", "pivot_root", "setns", "mknodat", "READY", "HOOKS_DONE"):
        assert name in stopped
    calls = [e for e in told if e["kind"] == "syscall" and e["stage"] and e["actor"] != "step"]
    assert len(gates) > 0.8 * len(calls)


def test_snapshots_without_stepping_and_what_a_stage_changed(minirun: Program) -> None:
    done = minirun("run", "--rm", "--name", "snap", "--snapshots", *GPUS, "busybox", "true")
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(minirun("diff", "snap", "--stage", "5", "--json").stdout)
    assert "c 195:0 rw # /dev/nvidia0" in rows["devices"]["new"]
    assert "./dev/nvidia1 c 195:1" in rows["files"]["new"]
    assert rows["files"]["gone"] == rows["devices"]["gone"] == []
    assert any(line.startswith("/usr/bin/nvidia-smi ") for line in rows["mounts"]["new"])
    assert rows["namespaces"] == {"gone": [], "new": []}
    seed = minirun("diff", "snap", "--between", "s4,s5", "--files").stdout
    assert "> ./dev/nvidia0\n" in seed
    assert "> ./usr/lib64/libnvidia-ml.so.1\n" in seed
    last = json.loads(minirun("diff", "snap", "--stage", "7", "--only", "mounts", "--json").stdout)
    assert any(line.startswith("host:") for line in last["mounts"]["gone"])
    assert not any(line.startswith("host:") for line in last["mounts"]["new"])
    first = json.loads(minirun("diff", "snap", "--stage", "1", "--json").stdout)
    assert len(first["namespaces"]["new"]) == 8


def test_namespaces_in_the_snapshot_are_the_kernels(minirun: Program) -> None:
    minirun("run", "-d", "--name", "ns", "--snapshots", "busybox", "sleep", "60")
    (taken,) = (
        e["args"] for e in minirun.events("ns")
        if e["name"] == "snapshot" and e["args"]["at"] == "7:end"
    )  # fmt: skip
    pid = json.loads(minirun("state", "ns").stdout)["pid"]
    assert taken["namespaces"]["mount"] == os.readlink(f"/proc/{pid}/ns/mnt")
    assert taken["namespaces"]["network"] == os.readlink(f"/proc/{pid}/ns/net")
    assert taken["processes"]["init"]["pid"] == pid
    assert taken["host_namespaces"]["mount"] == os.readlink("/proc/self/ns/mnt")


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("run", "--step", "busybox"), 125, "--step needs a terminal"),
        (("run", "--step=often", "busybox"), 125, "invalid --step 'often'"),
        (("run", "--step=plain,often", "busybox"), 125, "invalid --step 'often'"),
        (("run", "--rehearse", "busybox"), 125, "--rehearse plays a script"),
        (("run", "--large", "busybox"), 125, "--large is the stepper's"),
        (("run", "--script", "/nosuch", "busybox"), 125, "/nosuch"),
        (("diff", "nobody", "--stage", "5"), 1, "no recording of 'nobody'"),
        (("diff", "missing"), 1, "container 'missing' does not exist"),
        (("diff", "x", "--stage", "9"), 1, "unknown stage '9'"),
        (("diff", "x", "--stage", "5", "--only", "air"), 1, "unknown part 'air'"),
    ],
)
def test_wrong_use(minirun: Program, words: tuple[str, ...], status: int, text: str) -> None:
    done = minirun(*words)
    assert done.returncode == status
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_container_without_snapshots(minirun: Program) -> None:
    minirun("run", "--rm", "--name", "bare", "busybox", "true")
    done = minirun("diff", "bare", "--stage", "5")
    assert "recorded without snapshots (run it with --snapshots" in done.stderr


KILLED = [(at, "runtime") for at in BOUNDARIES] + [
    (at, victim)
    for at in ("1:end", "3:begin", "5:begin", "5:end", "7:begin")
    for victim in ("stepper", "init")
]


@pytest.mark.parametrize(("at", "victim"), KILLED)
def test_killed_at_a_gate(minirun: Program, tmp_path: Path, at: str, victim: str) -> None:
    """SIGKILL while a gate is shut: after gc nothing is left, and nobody waits for ever."""
    script = tmp_path / "keys"
    stops = BOUNDARIES.index(at)
    script.write_text("next\n" * stops + "pause 60\n")
    argv = minirun.argv("run", "--rm", "--name", "kill", "--script", str(script), *GPUS, "busybox")
    with subprocess.Popen(
        [*argv, "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as run:  # fmt: skip
        wait_until(lambda: any(e["kind"] == "gate" and e["name"] == at for e in _log(minirun)))
        wait_until(lambda: any(e["name"] == "snapshot" and e["args"]["at"] == at
                               for e in _log(minirun)), 20)  # fmt: skip
        pids = {e["actor"]: e["pid"] for e in _log(minirun)}
        pid = {"runtime": run.pid, "stepper": pids["step"], "init": pids.get("init", 0)}[victim]
        os.kill(pid, signal.SIGKILL)
        run.wait(20)
    assert minirun("gc").returncode == 0
    assert not list(minirun.root.glob("[!.]*"))


def _log(minirun: Program) -> list[dict[str, object]]:
    try:
        return minirun.events("kill")
    except (FileNotFoundError, IndexError, ValueError):
        return []


def test_the_view_is_not_loaded_by_a_run_that_does_not_step() -> None:
    own = "minirun.faces.show.step.session"
    code = f"import sys, minirun.cli.run.run_image; print({own!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_rich_is_loaded_for_the_screen_alone() -> None:
    code = (
        "import sys; from minirun.faces.show.step import session, stepper_process;"
        "print('rich' in sys.modules, session.screen.Screen.__name__, 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False Screen True\n"


def test_until_an_event(minirun: Program, tmp_path: Path) -> None:
    """It stops after the event, passes what is before it, and the log has no other gate."""
    script = tmp_path / "keys"
    script.write_text("until mknodat /dev/nvidia1\nuntil 6\nuntil mknodat /nosuch*\ncontinue\n")
    argv = ("run", "--rm", "--name", "until", "--step", "--script", str(script), *GPUS)
    done = minirun(*argv, "busybox", "echo", "done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    told = minirun.events("until")
    at = next(i for i, e in enumerate(told) if e["kind"] == "gate" and e["name"] == "syscall")
    before = [e for e in told[:at] if e["name"] == "mknodat"][-1]
    assert (before["args"]["path"], told[at]["args"]) == ("/dev/nvidia1", {"after": "mknodat"})
    assert sum(e["name"] == "syscall" for e in told if e["kind"] == "gate") == 1
    stops = [line for line in done.stderr.splitlines() if line.startswith(("── ", "-- "))]
    places = [line[3:].partition(":")[0].partition(", s")[0] for line in stops]
    after = "after mknodat /dev/nvidia1 c 195"
    assert places == ["before stage 1", after, "before stage 6", "after stage 7"]
    assert "no event was 'mknodat /nosuch*'; this is the last stop" in done.stderr


@pytest.mark.parametrize(
    ("event", "line", "title"),
    [
        (
            "mknodat /dev/nvidia0",
            "mknodat /dev/nvidia0 c 195:0",
            "mknodat /dev/nvidia0 c 195:0: ok",
        ),
        ("sethostname", "sethostname", "sethostname "),
        ("gpus chosen", "2 of 4 GPUs: 0, 1", "gpus chosen gpus=0 1 of=4"),
        ("RUN_HOOKS", "RUN_HOOKS", "RUN_HOOKS to runtime"),
        ("mount overlay", "mount overlay: 1 layer", "mount overlay on "),
    ],
)
def test_what_it_stops_after_is_the_last_line_and_the_title(
    minirun: Program, tmp_path: Path, event: str, line: str, title: str
) -> None:
    """With its path, its numbers and what came of it; also if the level has it in a group."""
    script = tmp_path / "keys"
    script.write_text(f"until {event}\ncontinue\n")
    argv = (
        "run",
        "--rm",
        "--name",
        "last",
        "--step",
        "--progress",
        "lanes",
        "--script",
        str(script),
    )
    done = minirun(*argv, *GPUS, "busybox", "true", env={"LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    at = next(n for n, each in enumerate(lines) if each.startswith("── after "))
    below = next(n for n in range(at, len(lines)) if lines[n].startswith("[n]ext"))
    heading = lines[at:below]
    assert heading[0].startswith(f"── after {title}") and len(heading) <= 3
    assert all(len(row) <= 80 for row in heading)
    assert ", stage " in " ".join(row.strip() for row in heading)
    assert line in lines[at - 1]


def test_an_unknown_event_is_refused(minirun: Program, terminal: Start) -> None:
    screen = terminal(minirun.argv("run", "--rm", "--step=plain", "busybox", "true"))
    screen.wait(PROMPT)
    screen.press("u")
    screen.wait("until which event?")
    screen.press("mkndat", "Enter")
    screen.wait("no event is called 'mkndat' (did you mean mknodat?)")
    screen.press("n")
    assert "after stage 1" in screen.wait("after stage 1"), "it has not gone on"
    screen.press("c")
    screen.wait("ended with 0")


def test_a_script_stays_with_the_run(minirun: Program, terminal: Start, tmp_path: Path) -> None:
    """Keys 5 and then 3: the captions and the container are in stage 5. Any other goes on."""
    script = tmp_path / "keys"
    stages = "".join(f"at {n}:begin\nsay caption {n}\nwait\nnext\n" for n in range(1, 8))
    script.write_text(stages)
    argv = minirun.argv("run", "--rm", "--step", "--script", str(script), *GPUS, "busybox", "true")
    screen = terminal(argv, 80, 24)
    for key, stage, said in (("5", 1, ""), ("3", 5, ""), ("x", 5, "3:begin is over")):
        caption = f"» caption {stage}"
        wait_until(lambda: any(caption in line for line in screen.visible()))  # noqa: B023
        wait_until(lambda: said in "\n".join(screen.visible()))  # noqa: B023
        shown = screen.visible()
        assert f"before stage {stage}" in shown[0], shown
        screen.press(key)
    wait_until(lambda: any("» caption 6" in line for line in screen.visible()))
    screen.press("c")
    screen.wait("ended with 0")


@pytest.mark.parametrize(
    ("text", "name", "args", "meant"),
    [
        ("mknodat", "mknodat", {}, True),
        ("MOUNT*", "mount_setattr", {}, True),
        ("mknodat /dev/nvidia*", "mknodat", {"path": "/dev/null"}, False),
        ("mknodat /dev/nvidia*", "mknodat", {"path": "/dev/nvidia0"}, True),
        ("/dev/nvidia0", "move_mount", {"path": "/dev/nvidia0"}, True),
        ("execve *ldconfig*", "execve", {"argv": ["ldconfig", "-r", "/x"]}, True),
        ("run_hooks", "RUN_HOOKS", {}, True),
        ("hooks", "RUN_HOOKS", {}, False),
    ],
)
def test_patterns_of_until(text: str, name: str, args: dict[str, object], meant: bool) -> None:
    assert Pattern(text).matches(name, args) is meant
