"""Hooks: real programs, as config.json names them."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import wait_until
from minirun.core import hooks
from minirun.core.errors import HookError

STATE = {
    "ociVersion": "1.2.0", "id": "c1", "status": "creating", "pid": 4711, "bundle": "/b",
    "annotations": {"이름": "값"},
}  # fmt: skip


def program(directory: Path, script: str, name: str = "hook") -> str:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def run(directory: Path, script: str, **hook: Any) -> None:
    state = hook.pop("state", STATE)
    row = {"path": program(directory, script), **hook}
    hooks.run("test", 0, row, state, str(directory))


def is_gone(pid: int) -> bool:
    """Whether a process is no more, or only waits for its parent."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return text.rpartition(")")[2].split()[0] == "Z"


def test_the_state_comes_on_stdin_to_its_end(tmp_path: Path) -> None:
    run(tmp_path, "cat > got")
    assert json.loads((tmp_path / "got").read_text()) == STATE


def test_the_environment_is_what_config_gives_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD_OF_THE_HOST", "secret")
    env = ["A=1", "B=x=y", "EMPTY=", "A=2", "no-sign"]
    run(tmp_path, "tr '\\0' '\\n' < /proc/$$/environ > got", env=env)
    found = (tmp_path / "got").read_text().splitlines()
    assert sorted(found) == ["A=2", "B=x=y", "EMPTY="]


def test_no_environment_at_all(tmp_path: Path) -> None:
    run(tmp_path, "tr '\\0' '\\n' < /proc/$$/environ > got")
    assert (tmp_path / "got").read_text() == ""


def test_arguments_directory_and_process_group(tmp_path: Path) -> None:
    script = (
        """echo "$0 $*" > args; pwd > pwd; cut -d" " -f5 /proc/$$/stat > group; echo $$ >> group"""
    )
    run(tmp_path, script, args=["ignored-by-the-shell", "one", "two"])
    assert (tmp_path / "args").read_text() == f"{tmp_path}/hook one two\n"
    assert (tmp_path / "pwd").read_text() == f"{tmp_path}\n"
    group, pid = (tmp_path / "group").read_text().split()
    assert group == pid != str(os.getpgrp())


def test_no_descriptor_of_ours_reaches_a_hook(tmp_path: Path) -> None:
    row = {"path": "/bin/ls", "args": ["ls", "/proc/self/fd", "/nosuch"]}
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            leaked = os.open("/etc/passwd", os.O_RDONLY)
            for number in (3, 50):
                os.dup2(leaked, number)
            with pytest.raises(HookError, match=r"fd: 0 1 2 3$"):  # 3: the directory that ls reads
                hooks.run("test", 0, row, STATE, str(tmp_path))
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_signals_are_as_for_any_program(tmp_path: Path) -> None:
    """The interpreter ignores SIGPIPE; a hook must not inherit that."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        run(tmp_path, "exec grep -E '^Sig(Blk|Ign)' /proc/self/status > got")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    masks = [line.split()[1] for line in (tmp_path / "got").read_text().splitlines()]
    assert masks == ["0" * 16, "0" * 16]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo one; echo two >&2; exit 3", "failed with exit status 3: one two"),
        ("exit 1", "failed with exit status 1: it said nothing"),
        ("kill -9 $$", "failed with signal 9 (killed): it said nothing"),
        ("printf 'a\\377b'; exit 1", "failed with exit status 1: a\ufffdb"),
    ],
)
def test_a_hook_that_fails(tmp_path: Path, script: str, text: str) -> None:
    with pytest.raises(HookError) as caught:
        run(tmp_path, script)
    assert str(caught.value) == f"error running test hook #0: {tmp_path}/hook {text}"
    assert "\n" not in caught.value.line()


def test_only_the_end_of_a_long_complaint_is_kept(tmp_path: Path) -> None:
    with pytest.raises(HookError) as caught:
        run(tmp_path, "i=0; while [ $i -lt 20000 ]; do echo line$i; i=$((i+1)); done; exit 1")
    assert str(caught.value).endswith("line19999")
    assert len(str(caught.value)) < hooks.LONGEST_TEXT + 300


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda path: None, "no such file or directory"),
        (lambda path: path.write_text("#!/bin/sh\n"), "permission denied"),
        (lambda path: path.mkdir(), "permission denied"),
    ],
)
def test_a_program_that_cannot_run(tmp_path: Path, make: Any, text: str) -> None:
    path = tmp_path / "hook"
    make(path)
    with pytest.raises(HookError, match=f"exit status 127: {path}: {text}"):
        hooks.run("test", 0, {"path": str(path)}, STATE, str(tmp_path))


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    row = {"path": program(tmp_path, "true")}
    with pytest.raises(HookError, match=f": {tmp_path}/nosuch: no such file"):
        hooks.run("test", 0, row, STATE, str(tmp_path / "nosuch"))


def test_hooks_run_in_order_and_the_first_failure_ends_them(tmp_path: Path) -> None:
    rows = [
        {"path": program(tmp_path, "echo 1 >> log", "a")},
        {"path": program(tmp_path, "echo 2 >> log; exit 1", "b")},
        {"path": program(tmp_path, "echo 3 >> log", "c")},
    ]
    with pytest.raises(HookError, match=r"error running prestart hook #1: /.*/b failed"):
        hooks.run_all(rows, "prestart", STATE, str(tmp_path))
    assert (tmp_path / "log").read_text() == "1\n2\n"


def test_the_timeout_ends_the_whole_process_group(tmp_path: Path) -> None:
    """A grandchild that holds stderr open neither prolongs the wait nor outlives it."""
    script = "sleep 100 & echo $! > pid; trap '' TERM; wait"
    before = time.monotonic()
    with pytest.raises(HookError, match="took longer than its timeout of 1 s"):
        run(tmp_path, script, timeout=1)
    assert 0.9 < time.monotonic() - before < 5
    grandchild = int((tmp_path / "pid").read_text())
    wait_until(lambda: is_gone(grandchild))


@pytest.mark.parametrize("script", ["while :; do echo noise; done", "exec yes >&2"])
def test_a_hook_that_never_stops_talking_has_a_timeout_too(tmp_path: Path, script: str) -> None:
    before = time.monotonic()
    with pytest.raises(HookError, match="timeout of 1 s"):
        run(tmp_path, script, timeout=1)
    assert time.monotonic() - before < 5


def test_a_grandchild_that_lives_on_does_not_hold_the_run(tmp_path: Path) -> None:
    """Without a timeout, the hook's own end counts; a daemon that it started is left alone."""
    before = time.monotonic()
    noise = "while :; do echo noise >&2; sleep 0.01; done"
    run(tmp_path, f"(trap '' PIPE; {noise}) & echo $! > pid; exit 0")
    assert time.monotonic() - before < 5
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


BIG = {**STATE, "annotations": {"big": "x" * 300_000}}  # more than a pipe holds


def test_a_big_state_arrives_whole(tmp_path: Path) -> None:
    run(tmp_path, "cat > got", state=BIG)
    assert json.loads((tmp_path / "got").read_text()) == BIG


@pytest.mark.parametrize("state", [STATE, BIG])
def test_a_hook_need_not_read_its_state(tmp_path: Path, state: dict[str, Any]) -> None:
    run(tmp_path, "exit 0", state=state)
    run(tmp_path, "exec 0<&-; sleep 0.1", state=state)


def test_a_hook_that_does_not_read_a_big_state_has_a_timeout_too(tmp_path: Path) -> None:
    with pytest.raises(HookError, match="timeout of 1 s"):
        run(tmp_path, "sleep 100", state=BIG, timeout=1)


def test_a_hook_may_talk_much_before_it_reads(tmp_path: Path) -> None:
    run(tmp_path, "head -c 300000 /dev/zero; cat > got", state=BIG)
    assert json.loads((tmp_path / "got").read_text()) == BIG


def test_a_timeout_of_centuries_is_no_problem(tmp_path: Path) -> None:
    run(tmp_path, "true", timeout=2**62)


def test_no_descriptor_and_no_process_is_left(tmp_path: Path) -> None:
    def all_we_have() -> tuple[list[str], str]:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        return os.listdir("/proc/self/fd"), children

    before = all_we_have()
    run(tmp_path, "true")
    for script, more in (("exit 1", {}), ("sleep 100", {"timeout": 1})):
        with pytest.raises(HookError):
            run(tmp_path, script, **more)
    assert all_we_have() == before


def test_an_interrupted_runtime_takes_its_hook_with_it(tmp_path: Path) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise InterruptedError("by a signal")

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(InterruptedError):
            run(tmp_path, "echo $$ > pid; sleep 100 & echo $! >> pid; wait")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    pids = [int(text) for text in (tmp_path / "pid").read_text().split()]
    wait_until(lambda: all(map(is_gone, pids)))
