"""`attach`, the detach keys, and health checks: what goes on beside a container that runs."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, processes, wait_until
from faces.show.terminal import Terminal
from minirun.core.errors import UsageError
from minirun.core.keeping import places, state
from minirun.oci import descriptors
from minirun.oci.terminal import keys
from required import installed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", b"\x10\x11"), ("ctrl-p,ctrl-q", b"\x10\x11"), ("a", b"a"), ("ctrl-@", b"\0"),
        ("ctrl-[,x", b"\x1bx"), ("ctrl-_", b"\x1f"), ("ctrl-A,B", b"\x01B"),
    ],
)  # fmt: skip
def test_keys_are_read(text: str, expected: bytes) -> None:
    assert keys.parse(text) == expected


@pytest.mark.parametrize("text", [",", "ctrl-", "ctrl-1", "ab", "ctrl-pq", "é", "ctrl-p,,"])
def test_wrong_keys(text: str) -> None:
    with pytest.raises(UsageError, match="invalid --detach-keys"):
        keys.parse(text)


@pytest.mark.parametrize(
    ("typed", "passed", "left"),
    [
        ([b"ls\n"], b"ls\n", False), ([b"\x10\x11"], b"", True), ([b"\x10", b"\x11"], b"", True),
        ([b"\x10x"], b"\x10x", False), ([b"\x10\x10\x11"], b"\x10", True),
        ([b"a\x10", b"b\x10\x11c"], b"a\x10b", True), ([b"\x11\x10"], b"\x11", False),
    ],
)  # fmt: skip
def test_keys_are_found(typed: list[bytes], passed: bytes, left: bool) -> None:
    looked, found, is_left = keys.DetachKeys(keys.DEFAULT), b"", False
    for chunk in typed:
        data, is_left = looked.feed(chunk)
        found += data
    assert (found, is_left) == (passed, left)


def test_who_is_attached_may_be_killed(minirun: Program) -> None:
    """The container, its supervisor and those who attach later go on."""
    script = "while :; do echo xxxxxxxxxxxxxxxxx; done"
    words = ("--log-driver", "none", "--name", "c", "busybox", "sh", "-c", script)
    assert minirun("run", "-d", *words).returncode == 0
    for _ in range(20):
        client = minirun.start("attach", "--no-stdin", "c")
        assert client.stdout and client.stdout.read(10_000)
        client.kill()
        client.communicate()
    supervisor = json.loads((minirun.directory("c") / "state.json").read_text())["supervisor"]
    assert state.is_alive(supervisor)
    assert minirun("rm", "-f", "c").returncode == 0


def test_attach_shows_and_types(minirun: Program) -> None:
    script = "while read line; do echo got $line; echo no >&2; [ $line = end ] && exit 9; done"
    minirun("run", "-di", "--name", "c", "busybox", "sh", "-c", script)
    done = minirun("attach", "c", input="one\nend\n")
    assert (done.stdout, done.stderr, done.returncode) == ("got one\ngot end\n", "no\nno\n", 9)
    assert minirun("logs", "c").stdout == "got one\ngot end\n"
    minirun("rm", "c")


def test_two_at_once_see_the_same(minirun: Program) -> None:
    script = "read line; for i in 1 2 3 4 5; do echo line $i; done; exit 3"
    minirun("run", "-di", "--name", "c", "busybox", "sh", "-c", script)
    other = minirun.start("attach", "--no-stdin", "c")
    time.sleep(0.7)
    done = minirun("attach", "c", input="go\n")
    text, _ = other.communicate(timeout=10)
    assert done.stdout == text == "".join(f"line {n}\n" for n in range(1, 6))
    assert (done.returncode, other.returncode) == (3, 3)
    minirun("rm", "c")


def test_nothing_is_lost_to_a_slow_reader(minirun: Program) -> None:
    """Its output waits, as with docker: 4 MB through a client that is stopped for a while."""
    script = "read line; head -c 4000000 /dev/zero | tr '\\0' x"
    minirun("run", "-di", "--name", "c", "busybox", "sh", "-c", script)
    slow = minirun.start("attach", "--no-stdin", "c")
    time.sleep(0.7)
    slow.send_signal(signal.SIGSTOP)
    socket = descriptors.packets()
    descriptors.connect(socket, str(minirun.directory("c") / "attach.sock"))
    assert socket.recv(1) == b"h"
    socket.send(b"igo\n")
    socket.close()
    time.sleep(0.5)
    slow.send_signal(signal.SIGCONT)
    text, _ = slow.communicate(timeout=20)
    assert len(text) == 4_000_000 and slow.returncode == 0
    minirun("rm", "c")


def test_a_signal_is_the_containers(minirun: Program) -> None:
    script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    minirun("run", "-d", "--name", "c", "busybox", "sh", "-c", script)
    client = minirun.start("attach", "c")
    time.sleep(0.7)
    client.terminate()
    text, _ = client.communicate(timeout=10)
    assert text == "caught\n" and client.returncode == 5
    minirun("rm", "c")


def test_the_terminal_of_a_container_in_the_background(minirun: Program, tmp_path: Path) -> None:
    """Keys, the window's size, and the detach keys; it goes on, and a second one attaches."""
    minirun("run", "-dit", "--name", "c", "busybox", "sh")
    for columns in (70, 90):
        screen = Terminal(f"attach-{os.getpid()}", minirun.argv("attach", "c"), columns, 20)
        try:
            time.sleep(0.5)
            screen.press("stty size; echo $((6*7))", "Enter")
            screen.wait(f"20 {columns}")
            screen.wait("42")
            screen.press("C-p", "C-q")
            screen.wait("ended with 0")
            assert "read escape sequence" in screen.screen()
        finally:
            screen.close()
    assert "Up" in minirun("ps").stdout
    minirun("rm", "-f", "c")


def test_leaving_what_was_started_in_front(minirun: Program) -> None:
    argv = minirun.argv("run", "-it", "--name", "c", "--detach-keys", "ctrl-x,q", "busybox", "sh")
    screen = Terminal(f"leave-{os.getpid()}", argv, 80, 20)
    try:
        screen.wait("/ #")
        screen.press("echo $((6*7))", "Enter")
        screen.wait("42")
        screen.press("C-x", "q")
        screen.wait("ended with 0")
        assert "the container goes on in the background" in screen.screen()
    finally:
        screen.close()
    assert minirun("exec", "c", "echo", "there").stdout == "there\n"
    screen = Terminal(f"again-{os.getpid()}", minirun.argv("attach", "c"), 80, 20)
    try:
        time.sleep(0.5)
        screen.press("exit 6", "Enter")
        screen.wait("ended with 6")
    finally:
        screen.close()
    record = json.loads((minirun.directory("c") / "state.json").read_text())
    assert record["exit_status"] == 6
    minirun("rm", "c")


def test_the_end_in_front_has_its_status(minirun: Program) -> None:
    argv = minirun.argv("run", "--rm", "-it", "busybox", "sh", "-c", "exit 5")
    screen = Terminal(f"end-{os.getpid()}", argv, 80, 20)
    try:
        screen.wait("ended with 5")
    finally:
        screen.close()


@pytest.mark.parametrize(
    ("before", "words", "text", "status"),
    [
        ((), ("attach", "nosuch"), "container 'nosuch' does not exist", 1),
        ((), ("attach",), '"minirun attach" requires exactly 1 argument (see', 1),
        ((), ("attach", "--detach-keys", "ab", "c"), "container 'c' does not exist", 1),
        (("true",), ("attach", "c"), "you cannot attach to a stopped container", 1),
        (("true",), ("start", "-a", "c", "d"), "you cannot start and attach multiple", 1),
    ],
)
def test_wrong_words(
    minirun: Program, before: tuple[str, ...], words: tuple[str, ...], text: str, status: int
) -> None:
    if before:
        minirun("run", "--name", "c", "busybox", *before)
    done = minirun(*words)
    assert done.returncode == status and text in done.stderr + done.stdout


# --- health --------------------------------------------------------------------------------------


def health(minirun: Program, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((minirun.directory(name) / "health.json").read_text())
    except FileNotFoundError:
        return {"Status": "", "FailingStreak": 0, "Log": []}
    return found


def watchers(minirun: Program) -> list[int]:
    """The processes that check this test's containers: others' have another root, or cell."""
    own, found = "\0".join(minirun.argv()[1:3]).encode(), []
    cell = os.readlink("/proc/thread-self/ns/mnt")
    for pid, name, _ in processes():
        try:
            if name != "minirun:health" or os.readlink(f"/proc/{pid}/ns/mnt") != cell:
                continue
            if own in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue  # it has just ended
    return found


def test_health(minirun: Program) -> None:
    """From starting to unhealthy, to healthy; what the check wrote; and it ends with init."""
    minirun(
        "run", "-d", "--name", "c", "--health-cmd", "echo looked; test -e /ok",
        "--health-interval", "200ms", "--health-retries", "2", "busybox", "sleep", "99",
    )  # fmt: skip
    wait_until(lambda: health(minirun, "c")["Status"] == "unhealthy", 20)
    assert health(minirun, "c")["FailingStreak"] >= 2
    assert health(minirun, "c")["Log"][-1]["Output"] == "looked\n"
    minirun("exec", "c", "touch", "/ok")
    wait_until(lambda: health(minirun, "c")["Status"] == "healthy", 20)
    assert health(minirun, "c")["FailingStreak"] == 0 and len(health(minirun, "c")["Log"]) <= 5
    minirun("rm", "-f", "c")
    wait_until(lambda: not watchers(minirun), 20)


def test_a_check_that_takes_too_long_is_ended(minirun: Program) -> None:
    minirun(
        "run", "-d", "--name", "c", "--health-cmd", "sleep 77", "--health-interval", "200ms",
        "--health-timeout", "500ms", "--health-retries", "1", "busybox", "sleep", "99",
    )  # fmt: skip
    wait_until(lambda: health(minirun, "c")["Status"] == "unhealthy", 20)
    row = health(minirun, "c")["Log"][0]
    assert (row["ExitCode"], row["Output"]) == (-1, "Health check exceeded timeout (0.5s)")
    assert minirun("exec", "c", "ps").stdout.count("sleep 77") <= 1
    minirun("rm", "-f", "c")


def test_a_check_that_writes_without_end_fills_no_memory(minirun: Program) -> None:
    """What it writes is read to its end, and the first 4096 bytes are kept, as with docker."""
    minirun(
        "run", "-d", "--name", "c", "--health-cmd", "head -c 300000000 /dev/zero | tr '\\0' x",
        "--health-interval", "200ms", "busybox", "sleep", "99",
    )  # fmt: skip
    wait_until(lambda: health(minirun, "c")["Status"] == "healthy", 30)
    assert health(minirun, "c")["Log"][0]["Output"] == "x" * 4096
    (pid,) = watchers(minirun)
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert peak and int(peak[1]) < 100_000
    minirun("rm", "-f", "c")
    wait_until(lambda: not watchers(minirun), 20)


def test_what_fails_at_first_does_not_count(minirun: Program) -> None:
    minirun(
        "run", "-d", "--name", "c", "--health-cmd", "false", "--health-start-interval", "100ms",
        "--health-interval", "100ms", "--health-retries", "1", "--health-start-period", "1m",
        "busybox", "sleep", "99",
    )  # fmt: skip
    wait_until(lambda: len(health(minirun, "c")["Log"]) >= 3, 20)
    assert (health(minirun, "c")["Status"], health(minirun, "c")["FailingStreak"]) == (
        "starting",
        0,
    )
    minirun("rm", "-f", "c")


@pytest.mark.parametrize("words", [("run", "-d"), ("run", "-d", "-t"), ("run", "-d", "-i")])
def test_one_can_attach_as_soon_as_it_is_said_to_run(
    minirun: Program, words: tuple[str, ...]
) -> None:
    """Each bind(2) takes half a second longer: the line that says the name waits for it."""
    installed("strace")
    slowly = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=bind:delay_enter=500000")
    command = minirun.argv(*words, "--name", "c", "busybox", "sleep", "100")
    with subprocess.Popen([*slowly, *command], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout and started.stdout.readline() == f"{minirun.id('c')}\n"
        there = (minirun.directory("c") / places.ATTACH).exists()
        minirun("rm", "--force", "c")
    assert there
