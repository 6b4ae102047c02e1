"""The end of a stream is a message: of an input, of a log, of a command that watches."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import Program, wait_until
from minirun.core.keeping import state

COPY = ("--name", "c", "busybox", "cat")


def test_the_end_of_the_input_is_passed_on(minirun: Program) -> None:
    assert minirun("create", "-i", *COPY).returncode == 0
    done = minirun("start", "-ai", "c", input="x\n", timeout=20)
    assert (done.stdout, done.returncode) == ("x\n", 0)
    assert minirun("start", "-ai", "c", input="again\n", timeout=20).stdout == "again\n"
    form = "{{.Config.OpenStdin}} {{.Config.StdinOnce}}"
    assert minirun("inspect", "--format", form, "c").stdout == "true true\n"


def test_what_is_long_arrives_before_the_end(minirun: Program) -> None:
    text = "0123456789abcde\n" * 40_000
    minirun("create", "-i", "--name", "c", "busybox", "sh", "-c", "sleep 1; wc -c")
    assert minirun("start", "-ai", "c", input=text, timeout=30).stdout == f"{len(text)}\n"


def test_the_input_of_one_in_the_background_stays_open(minirun: Program) -> None:
    """As docker's: of two clients the second can type, too."""
    minirun("run", "-di", *COPY)
    for word in ("one", "two"):
        with minirun.start("attach", "c", stdin=subprocess.PIPE) as client:
            client.stdin.write(f"{word}\n")
            client.stdin.close()
            assert client.stdout.readline() == f"{word}\n"
            client.kill()
    assert minirun("inspect", "--format", "{{.Config.StdinOnce}}", "c").stdout == "false\n"
    minirun("rm", "-f", "c")


def test_a_signal_that_is_not_passed_on_ends_the_client(minirun: Program) -> None:
    script = "trap 'echo caught' TERM; echo ready; while :; do sleep 0.1; done"
    words = ("--sig-proxy=false", "--name", "c", "busybox", "sh", "-c", script)
    with minirun.start("run", *words) as client:
        assert client.stdout.readline() == "ready\n"
        client.send_signal(signal.SIGTERM)
        assert client.wait(10) != 0
    assert minirun("ps", "--format", "{{.Names}}").stdout == "c\n"
    assert minirun("logs", "c").stdout == "ready\n"
    minirun("rm", "-f", "c")


def test_a_terminal_needs_one(minirun: Program) -> None:
    minirun("run", "-dit", "--name", "c", "busybox", "sh")
    for words in (("exec", "-it", "c", "true"), ("attach", "c"), ("run", "-it", "busybox")):
        done = minirun(*words, input="")
        assert done.returncode == 1 and "the input device is not a TTY" in done.stderr, words
    assert minirun("exec", "-itd", "c", "true", input="").returncode == 0
    assert minirun("create", "-it", "busybox", input="").returncode == 0
    minirun("rm", "-f", "c")


def test_a_terminal_s_line_ends(minirun: Program) -> None:
    """With CR LF, in the log, and whatever is to show it."""
    argv = minirun.argv("run", "-t", "--name", "c", "busybox", "echo", "hi")
    read_fd, write_fd = os.pipe()
    if os.fork() == 0:
        os.dup2(write_fd, 1)
        os.execv(argv[0], argv)
    os.close(write_fd)
    with open(read_fd, "rb") as pipe:
        assert pipe.read() == b"hi\r\n"
    os.wait()
    assert b'"hi\\r\\n"' in (minirun.directory("c") / "log.json").read_bytes()


def test_an_output_that_is_not_kept_is_no_empty_one(minirun: Program) -> None:
    minirun("run", "--log-driver", "none", "--name", "c", "busybox", "echo", "hi")
    done = minirun("logs", "c")
    text = "configured logging driver does not support reading"
    assert (done.stdout, done.returncode) == ("", 1) and text in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_events_are_written_at_once(minirun: Program, number: int, tmp_path: Path) -> None:
    """Into a file, by a command that a signal ends."""
    with open(tmp_path / "events", "w") as file:
        words = ("--filter", "type=container", "--filter", "event=die")
        with minirun.start("events", *words, stdout=file) as watcher:
            time.sleep(1)
            minirun("run", "--name", "c", "busybox", "true")
            container_id = minirun.id("c")
            wait_until(lambda: (tmp_path / "events").read_text())
            watcher.send_signal(number)
    text = (tmp_path / "events").read_text()
    assert f"container die {container_id} (" in text and "name=c)" in text


@pytest.mark.parametrize("seconds", [-5, 2])
def test_events_have_an_end(minirun: Program, seconds: int) -> None:
    begin = time.time()
    until = f"{begin + seconds:.3f}"
    assert minirun("events", "--until", until, timeout=20).returncode == 0
    assert time.time() - begin >= seconds
    assert minirun("events", "--until", state.timestamp(begin), timeout=20).returncode == 0


STATE = "{{.State.Status}}|{{.State.Error}}|{{.State.ExitCode}}|{{.State.FinishedAt}}"
MISSING = 'exec: "nosuch": executable file not found in $PATH'
NEVER = "0001-01-01T00:00:00Z"


@pytest.mark.parametrize("flags", [(), ("-d",)])
def test_a_start_that_fails_leaves_the_container(minirun: Program, flags: tuple[str, ...]) -> None:
    """As docker's: it may be looked at, and started again."""
    assert minirun("run", *flags, "--name", "c", "busybox", "nosuch").returncode == 127
    assert minirun("inspect", "--format", STATE, "c").stdout == f"created|{MISSING}|127|{NEVER}\n"
    words = ("--filter", "status=created", "--format", "{{.Names}} {{.State}} {{.Status}}")
    assert minirun("ps", "-a", *words).stdout == "c created Created\n"
    copied = minirun("exec", "c", "true")
    assert copied.returncode == 1 and "is not running" in copied.stderr
    assert minirun("run", "--rm", "--name", "d", "busybox", "nosuch").returncode == 127
    assert minirun("start", "c").returncode == 1
    assert minirun("ps", "-a", "--format", "{{.Names}} {{.State}}").stdout == "c created\n"
    assert minirun("rm", "c").returncode == 0


def test_one_that_waits_for_its_start_stays_too(minirun: Program) -> None:
    minirun("create", "--name", "c", "busybox", "nosuch")
    done = minirun("start", "c")
    assert done.returncode == 1 and MISSING in done.stderr
    assert minirun("inspect", "--format", STATE, "c").stdout == f"created|{MISSING}|127|{NEVER}\n"


def test_a_later_start_that_fails_is_known_by_its_reason(minirun: Program) -> None:
    """Its command has run before: it has exited."""
    script = "cp /bin/busybox /bin/own; rm /bin/sh; ln -s nowhere /bin/sh"
    minirun("run", "--name", "c", "busybox", "/bin/sh", "-c", script)
    form = "{{.State.Status}}|{{ne .State.Error ``}}|{{eq .State.FinishedAt `" + NEVER + "`}}"
    assert minirun("inspect", "--format", form, "c").stdout == "exited|false|false\n"
    assert minirun("start", "c").returncode == 1
    assert minirun("inspect", "--format", form, "c").stdout == "exited|true|false\n"


def test_the_end_says_whether_memory_ran_out(minirun: Program) -> None:
    script = "a=x; while :; do a=$a$a; done"
    minirun("run", "--name", "full", "-m", "16m", "busybox", "sh", "-c", script)
    minirun("run", "--name", "fine", "-m", "16m", "busybox", "true")
    told = minirun("inspect", "--format", "{{.State.OOMKilled}}", "full", "fine").stdout
    assert told == "true\nfalse\n"


def test_events_of_one_that_is_gone_have_its_labels(minirun: Program) -> None:
    minirun("run", "--rm", "--name", "c", "--label", "a=b", "busybox", "true")
    words = ("--since", "10m", "--until", "0s", "--filter", "label=a=b", "--filter", "event=die")
    told = minirun("events", *words, "--format", "{{.Actor.Attributes.name}}").stdout
    assert "c" in told.split()
