"""`minirun teach oracle`: what people see of it, and what it does to command and container."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import Program
from engines.clients.screen import Screen

ORACLE = ("teach", "oracle")


def test_the_list(minirun: Program) -> None:
    done = minirun("teach")
    assert done.returncode == 0
    assert "oracle [flags] -- COMMAND" in done.stdout
    assert "--verbose" in minirun(*ORACLE, "--help").stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("teach", "nosuch"), "unknown lesson 'nosuch'"),
        (ORACLE, "teach oracle needs a command of minirun's"),
        ((*ORACLE, "--nosuch"), "unknown flag: --nosuch (see 'minirun teach oracle --help')"),
        ((*ORACLE, "--", "ps", "-q"), "the command has written no events: nothing to compare"),
    ],
)
def test_mistakes(minirun: Program, words: tuple[str, ...], text: str) -> None:
    done = minirun(*words)
    assert done.returncode != 0
    assert done.stderr.startswith(f"minirun: {text}")
    assert done.stderr.count("\n") == 1


def test_without_strace(minirun: Program, tmp_path: Path) -> None:
    done = minirun(*ORACLE, "--", "run", "busybox", "true", env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr == "minirun: strace is not installed (the package is called strace)\n"
    assert not minirun.root.exists()


def test_the_command_is_as_it_would_have_been(minirun: Program) -> None:
    """Its streams and environment; its status is told, and is not the oracle's."""
    words = ("run", "--rm", "-i", "-e", "A", "busybox", "sh", "-c", "cat; echo $A >&2; exit 5")
    done = minirun(*ORACLE, "--", *words, input="from outside\n", env={"A": "b"})
    assert (done.returncode, done.stderr) == (0, "b\n")
    said, *report = done.stdout.splitlines()
    assert said == "from outside"
    assert report[-2] == "the command ended with status 5"
    assert report[-1].endswith(" system calls, 0 untrue, 0 missing")
    assert ["7", "init", "pivot_root", "1", "yes"] in [line.split() for line in report]


def test_every_row(minirun: Program) -> None:
    """What the image and the caller choose reaches the terminal as text, not as orders to it."""
    evil = "\x1b[31m[bold]"
    words = ("run", "--rm", "--gpus", "0", "--gpu-driver=simulated", "busybox", "true", evil)
    done = minirun(*ORACLE, "--verbose", *words, env={"LC_ALL": "C.UTF-8"})
    assert "\x1b" not in done.stdout
    assert r"\x1b[31m[bold]" in done.stdout
    heads, rows = done.stdout.split("what strace saw", 1)
    assert "what the log says" in heads
    assert 'symlinkat("/proc/self/fd", ' in rows
    assert "SIMULATED" in rows
    assert not done.stdout.isascii()
    plain = minirun(*ORACLE, "--", "run", "--rm", "busybox", "true", env={"LC_ALL": "C"})
    assert plain.stdout.isascii()


def test_as_json(minirun: Program, tmp_path: Path) -> None:
    kept = tmp_path / "trace"
    words = ("run", "--rm", "busybox", "sh", "-c", "echo said; exit 3")
    done = minirun(*ORACLE, "--json", "--verbose", "--keep", str(kept), "--", *words)
    assert (done.returncode, done.stderr) == (0, "said\n")
    found = json.loads(done.stdout)
    assert (found["status"], found["untrue"], found["missing"]) == (3, [], [])
    assert len(found["rows"]) == found["events"] == sum(row["count"] for row in found["counts"])
    row = next(row for row in found["rows"] if row["event"] == "pivot_root")
    assert (row["stage"], row["actor"], row["agree"]) == (7, "init", True)
    assert row["log"]["args"] == {"new_root": ".", "put_old": "."}
    assert row["strace"] == 'pivot_root(".", ".") = 0'
    assert f"{row['pid']} " in kept.read_text()
    assert 'pivot_root(".", ".") = 0' in kept.read_text()


def test_global_flags_before_and_behind(minirun: Program, tmp_path: Path) -> None:
    minirun.flags = ("--cgroup", "v1")
    other = tmp_path / "other"
    words = ("--root", str(other), "run", "--name", f"t-{os.getpid()}", "busybox", "true")
    found = json.loads(minirun(*ORACLE, "--json", "--", *words).stdout)
    there = Program(minirun.path, other)
    made = there.directory(f"t-{os.getpid()}")
    assert made.parent == other and made.is_dir()
    assert found["logs"] == [f"{made}/events.jsonl"]
    state = json.loads((made / "state.json").read_text())
    assert state["cgroup_version"] == "v1"
    there.clean()


def test_a_container_that_lives_on_is_let_go(minirun: Program) -> None:
    name = f"t-{os.getpid()}"
    done = minirun(*ORACLE, "--", "run", "-d", "--name", name, "busybox", "sleep", "100")
    assert done.returncode == 0
    assert "lives on: strace has let go of it" in done.stdout
    state = json.loads(minirun("state", name).stdout)
    assert state["status"] == "running"
    assert "\nTracerPid:\t0\n" in Path(f"/proc/{state['pid']}/status").read_text()
    assert "\nSeccomp_filters:\t1\n" in Path(f"/proc/{state['pid']}/status").read_text()
    assert minirun("exec", name, "echo", "well").stdout == "well\n"


def test_start_shows_what_init_does(minirun: Program, layer: Path) -> None:
    name = f"t-{os.getpid()}"
    config = json.loads(minirun("spec", "busybox", "sleep", "100").stdout)
    (layer.parent / "config.json").write_text(json.dumps(config))
    with minirun.start("create", "-b", str(layer.parent), name) as creating:
        assert creating.wait(20) == 0
        pid = json.loads(minirun("state", name).stdout)["pid"]
        words = minirun.argv("start", name)[1:]
        report = layer.parent / "report"
        with report.open("wb") as out:
            argv = minirun.argv(*ORACLE, "--json", "--verbose", "--", *words)
            assert subprocess.run(argv, stdout=out, check=False).returncode == 0
        rows = json.loads(report.read_text())["rows"]
        assert [(row["pid"], row["event"]) for row in rows] == [(pid, "execve")] * 2
        minirun("delete", "--force", name)


@pytest.mark.parametrize("name", ["INT", "QUIT", "TERM", "HUP"])
def test_signals_reach_the_command(minirun: Program, name: str) -> None:
    """Of a process without a terminal: no keyboard sends ^C to the command as well."""
    script = f"trap 'exit 9' {name}; echo ready; while :; do sleep 0.05; done"
    words = (*ORACLE, "--", "run", "--rm", "busybox", "sh", "-c", script)
    oracle = minirun.start(*words, start_new_session=True)
    assert oracle.stdout
    assert oracle.stdout.readline() == "ready\n"
    oracle.send_signal(signal.Signals[f"SIG{name}"])
    said, _ = oracle.communicate(timeout=30)
    assert oracle.returncode == 0
    assert "the command ended with status 9" in said


def test_the_keyboards_signals_come_once(minirun: Program) -> None:
    """The terminal sends ^C to all: the oracle does not end, and does not pass it on again."""
    script = "trap 'echo caught' INT; trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    words = (*ORACLE, "--", "run", "--rm", "busybox", "sh", "-c", script)
    screen = Screen(minirun.argv(*words), {})
    screen.expect("ready\r\n")
    screen.type("\x03")
    seen = screen.expect("caught\r\n")
    screen.child.send_signal(signal.SIGTERM)
    said = seen + screen.rest()
    assert screen.wait() == 0
    assert "the command ended with status 9" in said
    assert said.count("caught") == 1


LIE = 'tail -n 1 "$0" | sed "s/\\"pid\\":[0-9]*/\\"pid\\":1/" >>"$0"'
GAP = 'sed -i 1d "$0"'


@pytest.mark.parametrize("script", [LIE, GAP], ids=["a line more", "a line less"])
def test_a_log_that_somebody_has_touched(minirun: Program, layer: Path, script: str) -> None:
    name = f"t-{os.getpid()}"
    log = minirun.directory(name) / "events.jsonl"
    config = json.loads(minirun("spec", "busybox", "true").stdout)
    hook = {
        "path": "/bin/sh",
        "args": ["sh", "-c", script, str(log)],
        "env": ["PATH=/bin:/usr/bin"],
    }
    config["hooks"] = {"prestart": [hook]}
    (layer.parent / "config.json").write_text(json.dumps(config))
    done = minirun(*ORACLE, "--", "run", "-b", str(layer.parent), name)
    assert done.returncode == 1
    assert "UNTRUE: stage " in done.stdout
    assert "the file does not hold what process" in done.stdout
    assert not done.stdout.splitlines()[-1].endswith(" 0 untrue, 0 missing")


def test_nothing_of_it_is_left(minirun: Program, tmp_path: Path) -> None:
    done = minirun(*ORACLE, "--", "run", "--rm", "busybox", "true", env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0
    assert not list(tmp_path.glob("minirun-oracle.*"))
