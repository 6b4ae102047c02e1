"""Crash-only: SIGKILL at any moment leaves nothing that `gc` does not clean up."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import Program, wait_until
from core.lifecycle.held import ALL, CASES, GPUS, Held
from core.lifecycle.leftovers import Family, assert_collected, assert_nothing, call, cgroups, mounts
from minirun.core.gates import open_gate
from minirun.core.keeping.places import NEW
from night import SEEDS


@pytest.mark.parametrize(("boundary", "flags"), CASES, ids=lambda value: "".join(value[:1]) or "-")
def test_runtime_killed_at_a_boundary(
    minirun: Program, boundary: str, flags: tuple[str, ...]
) -> None:
    for _ in range(3):
        held = Held(minirun, boundary, *flags)
        held.runtime.kill()
        held.end()
        done = minirun("gc")
        assert (done.returncode, done.stderr) == (0, "")
        assert held.name in done.stdout
        assert_nothing(minirun, held.name, held.family)


@pytest.mark.parametrize("flags", [(), ("--uidmap", "0:100000:65536")], ids=["root", "user"])
def test_init_dies_with_the_runtime(reachable: Program, flags: tuple[str, ...]) -> None:
    """At once, and not only when the next command cleans up: a setuid(2) clears the signal."""
    held = Held(reachable, "2:begin", *flags)
    held.runtime.kill()
    held.end()
    wait_until(lambda: not held.family.alive())
    assert held.name in reachable("gc").stdout
    assert_nothing(reachable, held.name, held.family)


def test_init_that_its_maker_had_no_time_to_note(minirun: Program) -> None:
    """Killed between clone and the record, with init still ending: its cgroup goes all the same."""
    name = f"unnoted-{os.getpid()}"
    call(minirun, "run", "-d", "--name", name, "busybox", "sleep", "100")
    path = minirun.directory(name) / "state.json"
    record = json.loads(path.read_text())
    os.kill(record["supervisor"]["pid"], signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{record['supervisor']['pid']}").exists())
    init = record["init"]["pid"]
    path.write_text(json.dumps({
        key: value for key, value in record.items() if key != "cgroup"
    } | {"init": None, "pid": 0, "complete": False}))  # fmt: skip
    with subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -KILL {init}"]):
        assert name in minirun("gc").stdout
    wait_until(lambda: not Path(f"/proc/{init}").exists())
    assert_nothing(minirun, name)


@pytest.mark.parametrize("boundary", ALL[1:-1])
def test_init_killed_at_a_boundary(minirun: Program, boundary: str) -> None:
    held = Held(minirun, boundary, "--rm", *GPUS)
    os.kill(held.init, signal.SIGKILL)
    assert held.end() == (125, "minirun: init was killed by signal 9\n")
    assert_nothing(minirun, held.name, held.family)


def test_init_killed_when_all_is_done(minirun: Program) -> None:
    """At the end of stage 7 init is as good as the command: its end is the command's."""
    held = Held(minirun, "7:end", "--rm")
    os.kill(held.init, signal.SIGKILL)
    assert held.end() == (128 + 9, "")
    assert_nothing(minirun, held.name, held.family)


def test_hook_killed_at_a_boundary(minirun: Program) -> None:
    for boundary in ("3:end", "4:begin", "4:end", "5:begin", "5:end"):
        held = Held(minirun, boundary, "--rm", *GPUS)
        children = Path(f"/proc/{held.runtime.pid}/task/{held.runtime.pid}/children")
        hook = next(int(pid) for pid in children.read_text().split() if int(pid) != held.init)
        os.kill(hook, signal.SIGKILL)
        if boundary[0] not in "45":  # it is not the hook that waits there
            open_gate(str(minirun.directory(held.name)))
        status, said = held.end()
        assert status == 125
        assert said.startswith("minirun: nvidia-container-runtime-hook: "), said
        assert "signal 9" in said
        assert_nothing(minirun, held.name, held.family)


@pytest.mark.parametrize("seed", SEEDS)
def test_runtime_killed_at_a_random_moment(minirun: Program, seed: int) -> None:
    chance = random.Random(seed)
    name = f"random-{os.getpid()}-{seed}"
    flags = (*chance.choice([(), GPUS]), *chance.choice([(), ("--rm",)]))
    with open(os.devnull, "w") as null:  # not a pipe: the command may hold it open
        argv = minirun.argv("run", "--name", name, *flags, "busybox", "sleep", "100")
        runtime = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null)
    time.sleep(chance.uniform(0, 0.08))
    family = Family(runtime.pid)
    runtime.kill()
    runtime.wait()
    assert_collected(minirun, name, family)


def test_runtime_killed_when_all_is_made(minirun: Program) -> None:
    """From then on `gc` keeps the container's files, however fast the machine was."""
    name = f"made-{os.getpid()}"
    with open(os.devnull, "w") as null:
        argv = minirun.argv("run", "--name", name, "busybox", "sleep", "100")
        runtime = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null)
    wait_until(lambda: '"complete":true' in minirun.log(name, "state.json"))
    family = Family(runtime.pid)
    runtime.kill()
    runtime.wait()
    assert assert_collected(minirun, name, family)


@pytest.mark.parametrize("flags", [(), ("--rm",), GPUS])
def test_supervisor_of_a_detached_container_killed(
    minirun: Program, flags: tuple[str, ...]
) -> None:
    name = f"watched-{os.getpid()}"
    minirun("run", "-d", "--name", name, *flags, "busybox", "sh", "-c", "sleep 99 & sleep 100")
    record = json.loads((minirun.directory(name) / "state.json").read_text())
    supervisor = record["supervisor"]["pid"]
    wait_until(lambda: len(Family(supervisor).members) == 3)
    family = Family(supervisor)
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: len(family.alive()) == 2)
    assert "its supervisor died" in minirun("gc").stdout
    if "--rm" not in flags:  # it has ended, and its files are kept
        assert mounts(minirun.root) == [] and cgroups(minirun) == [] and not family.alive()
        minirun("rm", name)
    assert_nothing(minirun, name, family)


def test_two_collectors_at_once(minirun: Program) -> None:
    held = [Held(minirun, "6:begin") for _ in range(3)]
    for one in held:
        one.runtime.kill()
        one.end()
    collectors = [minirun.start("gc") for _ in range(2)]
    for collector in collectors:
        _, stderr = collector.communicate(timeout=20)
        assert (collector.returncode, stderr) == (0, "")
    for one in held:
        assert_nothing(minirun, one.name, one.family)


def test_gc_of_what_never_got_its_name(minirun: Program) -> None:
    new = minirun.root / NEW
    gone = subprocess.Popen(["true"])
    gone.wait()
    ours, theirs = new / f"{os.getpid()}-1", new / f"{gone.pid}-2"
    for path in (ours, theirs / "upper"):
        path.mkdir(parents=True)
    said = f"{NEW}/{gone.pid}-2: its maker died\n"
    assert minirun("gc", "--dry-run").stdout == f"would remove {said}"
    assert minirun("gc").stdout == f"removed {said}"
    assert minirun.left() == [str(ours)]
    ours.rmdir()


def test_killed_while_making(minirun: Program) -> None:
    """strace kills a run at each call that makes or renames something; `gc` removes what is left.

    Some are killed before the container has its name, some after.
    """
    seen = set()
    for number in range(1, 30):
        name = f"made-{os.getpid()}-{number}"
        fault = f"inject=mkdir,mkdirat,rename,mknod,mknodat:signal=KILL:when={number}"
        argv = minirun.argv("run", "--rm", "--name", name, "busybox", "true")
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", fault, *argv],
            capture_output=True, check=False,
        )  # fmt: skip
        left = minirun.left()
        seen |= {"named" if each == name else "unnamed" for each in left}
        assert minirun("gc").returncode == 0
        assert_nothing(minirun, name)
        if done.returncode == 0:
            break
    assert seen == {"named", "unnamed"}
    assert number > 3


def test_gc_leaves_the_living(minirun: Program) -> None:
    held = Held(minirun, "5:begin", "--rm", *GPUS)
    minirun("run", "-d", "--name", f"{held.name}-d", "busybox", "sleep", "100")
    minirun("run", "--name", f"{held.name}-s", "busybox", "true")
    done = minirun("gc")
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(minirun.left()) == [held.name, f"{held.name}-d", f"{held.name}-s"]
    held.runtime.kill()
    held.end()


@pytest.mark.parametrize(
    "words", [("delete", "--force"), ("gc",), ("start",), ("kill",), ("exec",)]
)
def test_other_commands_killed_at_a_random_moment(
    minirun: Program, words: tuple[str, ...], layer: Path
) -> None:
    """Whatever is cut off, the next `delete --force` finishes it."""
    chance = random.Random(" ".join(words))
    config = json.loads(minirun("spec", "busybox", "sleep", "100").stdout)
    config["root"]["path"] = str(layer)
    (layer.parent / "config.json").write_text(json.dumps(config))
    name = f"cut-{os.getpid()}-{words[0]}"
    more = {"gc": (), "kill": (name, "KILL"), "exec": (name, "sleep", "9")}.get(words[0], (name,))
    for _ in range(12):
        call(minirun, "create", "--bundle", str(layer.parent), name)
        if words[0] != "start":
            minirun("start", name)
        init = json.loads((minirun.directory(name) / "state.json").read_text())["init"]["pid"]
        family = Family(init)
        with open(os.devnull, "w") as null:
            argv = minirun.argv(*words, *more)
            command = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null)
        time.sleep(chance.uniform(0, 0.03))
        command.kill()
        command.wait()
        assert minirun("delete", "--force", name).returncode == 0
        assert_nothing(minirun, name, family)
