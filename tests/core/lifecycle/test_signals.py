"""Signals: before the command runs they end the run, then they are the command's."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Program, wait_until
from core.lifecycle.held import CASES, GPUS, Held
from core.lifecycle.leftovers import Family, assert_nothing, call
from minirun.core import gates
from night import SEEDS
from required import installed

NAME = f"signals-{os.getpid()}"
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


@pytest.mark.parametrize(("boundary", "flags"), CASES, ids=lambda value: "".join(value[:1]) or "-")
def test_a_signal_ends_the_run(minirun: Program, boundary: str, flags: tuple[str, ...]) -> None:
    for number in ENDING:
        held = Held(minirun, boundary, *flags)
        held.runtime.send_signal(number)
        said = f"minirun: interrupted by signal {int(number)}\n"
        assert held.end() == (128 + number, said)
        assert_nothing(minirun, held.name, held.family)


@pytest.mark.parametrize("boundary", ["1:end", "2:begin", "4:begin", "5:end", "7:begin", "7:end"])
def test_interrupt_from_the_terminal(minirun: Program, boundary: str) -> None:
    """^C reaches the whole process group: the hook and, before its setsid, init too."""
    held = Held(minirun, boundary, *GPUS)
    os.killpg(held.runtime.pid, signal.SIGINT)
    assert held.end() == (130, "minirun: interrupted by signal 2\n")
    assert_nothing(minirun, held.name, held.family)


def test_impatience(minirun: Program) -> None:
    """More signals, while the first one is being obeyed, change nothing."""
    held = Held(minirun, "5:begin", *GPUS)
    while held.runtime.poll() is None:
        held.runtime.send_signal(random.choice(ENDING))
    status, said = held.end()
    assert status - 128 in ENDING
    assert said == f"minirun: interrupted by signal {status - 128}\n"
    assert_nothing(minirun, held.name, held.family)


def test_detached(minirun: Program) -> None:
    """Who waits for a detached start is interrupted: so is the start."""
    for boundary in ("1:begin", "3:begin", "7:begin"):
        held = Held(minirun, boundary, "-d")
        held.runtime.send_signal(signal.SIGTERM)
        assert held.end() == (143, "minirun: interrupted by signal 15\n")
        assert_nothing(minirun, held.name, held.family)


def test_caller_of_a_detached_start_killed(minirun: Program) -> None:
    """Nobody has learnt its name: it goes."""
    held = Held(minirun, "7:begin", "-d")
    held.runtime.kill()
    held.runtime.wait()
    gates.open_gate(str(minirun.directory(held.name)))
    assert held.end() == (-signal.SIGKILL, "")
    wait_until(lambda: not minirun.directory(held.name).exists())
    assert_nothing(minirun, held.name, held.family)


@pytest.mark.parametrize("seed", SEEDS)
def test_at_a_random_moment(minirun: Program, seed: int) -> None:
    """From the interpreter's start to the running command, which ends with status 7."""
    chance = random.Random(seed)
    name = f"random-{os.getpid()}-{seed}"
    script = "trap 'exit 7' TERM; while :; do sleep 0.01; done"
    flags = (*chance.choice([(), GPUS]), "--rm", "--name", name)
    runtime = minirun.start("run", *flags, "busybox", "sh", "-c", script)
    time.sleep(chance.uniform(0.01, 0.06))
    family = Family(runtime.pid)
    while runtime.poll() is None:  # as pid 1 it gets no signal before its trap
        runtime.terminate()
        time.sleep(0.1)
    assert runtime.returncode in (-15, 143, 7), runtime.communicate()
    said = {"", "minirun: interrupted by signal 15\n" * (runtime.returncode == 143)}
    assert runtime.communicate()[1] in said  # nothing, before there is a container
    assert_nothing(minirun, name, family)


def _wait_for_a_gate(minirun: Program, name: str) -> None:
    wait_until(lambda: '"kind":"gate"' in minirun.log(name))
    time.sleep(0.01)


def _bundle(minirun: Program, layer: Path, *command: str, **hooks: object) -> str:
    """Make a bundle of `layer`; `hooks`: kind → the rows of config.json."""
    config = json.loads(minirun("spec", "busybox", *command).stdout)
    config["hooks"] = hooks
    (layer.parent / "config.json").write_text(json.dumps(config))
    return str(layer.parent)


def test_create_is_interrupted(minirun: Program, layer: Path) -> None:
    bundle = _bundle(minirun, layer, "sleep", "100")
    for boundary in ("1:begin", "3:end", "7:begin"):
        name = f"create-{os.getpid()}"
        env = os.environ | {"MINIRUN_GATES": boundary}
        runtime = minirun.start("create", "--bundle", bundle, name, env=env)
        _wait_for_a_gate(minirun, name)
        runtime.terminate()
        assert runtime.communicate(timeout=20)[1] == "minirun: interrupted by signal 15\n"
        assert runtime.returncode == 143
        assert_nothing(minirun, name)


@pytest.mark.parametrize("number", ENDING)
def test_what_is_created_ends_by_a_signal(minirun: Program, layer: Path, number: int) -> None:
    """As runc's does, though process 1 of a namespace gets no signal that it does not handle."""
    _created(minirun, layer)
    assert minirun("kill", NAME, str(int(number))).returncode == 0
    wait_until(lambda: '"stopped"' in minirun("state", NAME).stdout)
    minirun("delete", NAME)
    assert_nothing(minirun, NAME)


def test_it_can_be_ended_as_soon_as_it_is_said_to_be_created(
    minirun: Program, layer: Path, tmp_path: Path
) -> None:
    """init handles the signals before it tells the runtime that it waits: strace sees the order."""
    installed("strace")
    trace = tmp_path / "trace"
    calls = ("-e", "trace=rt_sigaction,write", "-e", "signal=none")
    words = ("strace", "-f", "-qq", "-o", str(trace), *calls)
    bundle, null = _bundle(minirun, layer, "sleep", "100"), subprocess.DEVNULL
    command = minirun.argv("create", "--bundle", bundle, NAME)
    with subprocess.Popen([*words, *command], stdin=null, stdout=null):
        wait_until(lambda: '"status": "created"' in minirun("state", NAME).stdout)
        minirun("delete", "--force", NAME)
    lines = trace.read_text().splitlines()
    (said,) = [number for number, line in enumerate(lines) if '"WAITING' in line]
    init = lines[said].split()[0]
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"):
        handled = [n for n, line in enumerate(lines)
                   if line.split()[0] == init and f"rt_sigaction({name}, {{" in line]  # fmt: skip
        assert handled and handled[-1] < said, name


LOST = """
import os, time, weakref
from minirun.running import signals

class Thing: pass

def callback(reference):
    os.kill(os.getpid(), 15)
    for each in range(1000): pass

signals.catch()
thing = Thing()
kept = weakref.ref(thing, callback)
try:
    del thing
    time.sleep(10)
except signals.Interrupted as error:
    print(error, error.status)
"""


def test_a_signal_is_not_lost_where_python_drops_errors() -> None:
    """The import system has such callbacks: a run was not interrupted, and a traceback shown."""
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("interrupted by signal 15 143\n", "")


def _on_one_processor(argv: list[str]) -> str:
    """Run a command as taskset(1) would; what it prints."""
    first = min(os.sched_getaffinity(0))
    done = subprocess.run(argv, capture_output=True, text=True, check=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {first}))  # fmt: skip
    return done.stdout


def test_the_callers_processors_are_not_handed_on(minirun: Program) -> None:
    look = ("grep", "Cpus_allowed_list", "/proc/self/status")
    allowed = Path("/proc/self/status").read_text().partition("Cpus_allowed_list:")[2].split()[0]
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("this process may use one processor only")
    said = _on_one_processor(minirun.argv("run", "busybox", *look))
    assert said.split() == ["Cpus_allowed_list:", allowed]
    assert minirun("run", "-d", "--name", NAME, "busybox", "sleep", "60").returncode == 0
    said = _on_one_processor(minirun.argv("exec", NAME, *look))
    assert said.split() == ["Cpus_allowed_list:", allowed]
    minirun("delete", "--force", NAME)


def test_what_is_created_holds_nothing_of_its_callers(minirun: Program, layer: Path) -> None:
    """A caller that waits for the end of its pipe would wait for init."""
    ours, theirs = os.pipe()
    os.dup2(theirs, 250)  # inheritable
    try:
        init = _created(minirun, layer, pass_fds=(250,))
        held = [os.readlink(path) for path in Path(f"/proc/{init}/fd").iterdir()]
    finally:
        for fd in (ours, theirs, 250):
            os.close(fd)
    assert held.count("/dev/null") == 3
    names = {name.rpartition("/")[2] for name in held}
    rest = {name for name in names if name != "null" and not name.startswith("libffi")}  # its own
    log = {"events.jsonl", "init.fifo", "runtime.fifo"}
    assert rest == {"exec.fifo", "memfd:minirun:exec (deleted)", *log}


def _created(minirun: Program, layer: Path, **more: object) -> int:
    """Create a container, and return its init."""
    argv = minirun.argv("create", "--bundle", _bundle(minirun, layer, "sleep", "100"), NAME)
    null = subprocess.DEVNULL  # init keeps what it is given: no pipe
    subprocess.run(argv, stdin=null, stdout=null, stderr=null, check=True, **more)
    pid: int = json.loads(minirun("state", NAME).stdout)["pid"]
    return pid


def test_signals_go_to_the_command(minirun: Program) -> None:
    name = f"signals-{os.getpid()}"
    names = ("HUP", "INT", "QUIT", "USR1", "USR2", "CONT", "WINCH")
    traps = "; ".join(f"trap 'echo {word}' {word}" for word in names)
    script = f"{traps}; trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"
    runtime = minirun.start("run", "--rm", "--name", name, "busybox", "sh", "-c", script)
    wait_until(lambda: '"status":"running"' in minirun.log(name, "state.json"))
    assert runtime.stdout
    assert runtime.stdout.readline() == "ready\n"
    for word in names:
        runtime.send_signal(getattr(signal, f"SIG{word}"))
        assert runtime.stdout.readline() == f"{word}\n"
    runtime.terminate()
    assert runtime.wait(timeout=10) == 9
    runtime.communicate()


def _block_all() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def test_blocked_and_ignored_by_the_caller(minirun: Program) -> None:
    """wait(2) with SIGCHLD ignored learns no status; a blocked SIGTERM would never come."""
    script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; exit 7"
    runtime = minirun.start("run", "--rm", "busybox", "sh", "-c", script, preexec_fn=_block_all)
    stdout, stderr = runtime.communicate(timeout=20)
    assert (runtime.returncode, stderr) == (7, "")
    assert [line.split()[1] for line in stdout.splitlines()] == ["0" * 16] * 2
    argv = minirun.argv("run", "--rm", "--name", f"blocked-{os.getpid()}", "busybox", "sleep", "9")
    env = os.environ | {"MINIRUN_GATES": "3:begin"}
    waiting = subprocess.Popen(argv, preexec_fn=_block_all, env=env, stderr=subprocess.DEVNULL)
    try:
        _wait_for_a_gate(minirun, f"blocked-{os.getpid()}")
        waiting.terminate()
        assert waiting.wait(timeout=10) == 143
    finally:
        waiting.kill()


SAYS_7 = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"


def _while_it_stands_still(client: subprocess.Popen[str], begin: Callable[[], object]) -> None:
    """Send SIGTERM to `client`, which has not heard yet that its command runs, and let it end."""
    client.send_signal(signal.SIGSTOP)
    begin()
    assert client.stdout
    assert client.stdout.readline() == "ready\n"
    client.send_signal(signal.SIGTERM)
    client.send_signal(signal.SIGCONT)
    assert client.communicate(timeout=20) == ("", "")
    assert client.returncode == 7


def test_the_command_has_begun_and_nobody_knows(minirun: Program, layer: Path) -> None:
    script = "touch /begins; while ! [ -e /go ]; do sleep 0.01; done"
    late = {"path": "/bin/sh", "args": ["sh", "-c", script]}
    bundle = _bundle(minirun, layer, "sh", "-c", SAYS_7, startContainer=[late])
    client = minirun.start("run", "--bundle", bundle, name := f"late-{os.getpid()}")
    wait_until((layer / "begins").exists)
    _while_it_stands_still(client, (layer / "go").touch)
    assert_nothing(minirun, name)


def test_a_signal_comes_before_the_command_of_exec_is_let_go_on(
    minirun: Program, layer: Path
) -> None:
    """The command waits until `exec` has moved it into the cgroup; a signal of that time is its."""
    name = f"late-{os.getpid()}"
    bundle = _bundle(minirun, layer, "sleep", "100")
    assert call(minirun, "run", "-d", "--bundle", bundle, name) == (0, "")
    minirun("pause", name)
    client = minirun.start("exec", "--ignore-paused", name, "sh", "-c", SAYS_7)
    children = Path(f"/proc/{client.pid}/task/{client.pid}/children")
    wait_until(children.read_text)
    (joiner,) = children.read_text().split()
    client.send_signal(signal.SIGSTOP)
    minirun("resume", name)
    wait_until(lambda: children.read_text().split() not in ([], [joiner]))  # the command's process
    client.send_signal(signal.SIGTERM)
    client.send_signal(signal.SIGCONT)
    stdout, stderr = client.communicate(timeout=20)
    assert (client.returncode, stdout, stderr) in ((7, "ready\n", ""), (143, "", ""))
    minirun("delete", "--force", name)
    assert_nothing(minirun, name)
