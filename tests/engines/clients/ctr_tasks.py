"""Scenarios of ctr: the life of a task, from create to delete; terminals, exec, GPUs."""

import json
import os
import signal
import time
from subprocess import CompletedProcess

from conftest import wait_until
from engines.clients.cell import child
from engines.clients.conftest import NODES
from engines.clients.containerd_engine import Ctr
from engines.clients.engine import IMAGE


def terminal(ctr: Ctr) -> None:
    screen = ctr.screen("run", "--rm", "--tty", *ctr.words("sh"))
    screen.expect("# ")
    screen.type("tty; stty size; exit 5\r")
    assert "/dev/pts/0" in screen.expect("24 80") and screen.wait() == 5


def terminal_follows_its_window(ctr: Ctr) -> None:
    screen = ctr.screen("run", "--rm", "--tty", *ctr.words("sh"))
    screen.expect("# ")
    screen.resize(33, 101)
    time.sleep(0.2)
    screen.type("stty size; exit\r")
    screen.expect("33 101")
    assert screen.wait() == 0


def terminal_attached_later(ctr: Ctr) -> None:
    name = ctr.name()
    assert ctr.screen("run", "--detach", "--tty", *ctr.words("sh", name=name)).wait() == 0
    screen = ctr.screen("tasks", "attach", name)
    screen.type("echo a$((1+1))b; exit 4\r")
    screen.expect("a2b")
    assert screen.wait() == 4


def created_and_then_started(ctr: Ctr) -> None:
    """`containers create` 1.6 has no --runc-binary: the runtime stands as `runc` in PATH."""
    name = ctr.name()
    ctr("containers", "create", IMAGE, name, "ls", "/etc/motd", "/nosuch")
    assert ctr.status(name) == ""
    assert ctr("tasks", "start", name, code=1) == "/etc/motd"


def status_of_a_running_one(ctr: Ctr) -> None:
    name = ctr.detached()
    assert ctr.status(name) == "RUNNING"
    ctr("tasks", "kill", "--signal=KILL", name)
    ctr.wait(name)


def processes_listed(ctr: Ctr) -> None:
    name = ctr.detached("sh", "-c", "sleep 300 & wait")
    wait_until(lambda: len(ctr("tasks", "ps", name).splitlines()) == 3)
    pids = [line.split()[0] for line in ctr("tasks", "ps", name).splitlines()[1:]]
    names = [ctr.cell.run("cat", f"/proc/{pid}/comm").stdout.strip() for pid in pids]
    assert sorted(names) == ["sh", "sleep"]


def kill_with_a_signal(ctr: Ctr) -> None:
    name = ctr.detached("sh", "-c", "trap 'exit 4' USR1; touch /ready; while :; do sleep 0.1; done")
    ctr.exec(name, "sh", "-c", "until test -e /ready; do sleep 0.01; done")
    ctr("tasks", "kill", "--signal=USR1", name)
    assert ctr.ended(name) == "4"


def kill_of_all(ctr: Ctr) -> None:
    name = ctr.detached("sh", "-c", "sleep 300 & wait")
    ctr("tasks", "kill", "--all", "--signal=KILL", name)
    ctr.wait(name)


def kill_of_a_stopped_one(ctr: Ctr) -> None:
    name = ctr.detached("true")
    ctr.wait(name)
    done = ctr.full("tasks", "kill", name)
    assert done.returncode == 1 and "process already finished" in done.stderr


def kill_of_all_of_a_stopped_one(ctr: Ctr) -> None:
    name = ctr.detached("true")
    ctr.wait(name)
    ctr("tasks", "kill", "--all", "--signal=KILL", name)


def child_dies_with_the_container(ctr: Ctr) -> None:
    name = ctr.detached("sh", "-c", "sleep 301 & wait")
    ctr("tasks", "kill", "--signal=KILL", name)
    ctr.wait(name)
    assert "301" not in ctr.cell.run("ps", "-eo", "args").stdout


def delete_of_a_running_one_is_refused(ctr: Ctr) -> None:
    name = ctr.detached()
    done = ctr.full("tasks", "delete", name)
    assert done.returncode == 1 and "must be stopped before deletion" in done.stderr
    ctr("tasks", "delete", "--force", name)
    assert ctr.status(name) == ""


def pause_and_resume(ctr: Ctr) -> None:
    name = ctr.detached("sh", "-c", "while :; do date +%s%N > /now; done")
    ctr("tasks", "pause", name)
    assert ctr.status(name) == "PAUSED"
    ctr("tasks", "resume", name)
    assert ctr.status(name) == "RUNNING"
    ctr.exec(name, "true")


def a_paused_one_stands_still(ctr: Ctr) -> None:
    (ctr.home / "beat").mkdir(exist_ok=True)
    flag = f"--mount=type=bind,src={ctr.home}/beat,dst=/beat,options=rbind:rw"
    name = ctr.detached(flag, "sh", "-c", "while :; do date +%N > /beat/now; done")
    wait_until((ctr.home / "beat/now").exists)
    ctr("tasks", "pause", name)
    before = (ctr.home / "beat/now").stat().st_mtime_ns
    time.sleep(0.2)
    assert (ctr.home / "beat/now").stat().st_mtime_ns == before
    ctr("tasks", "resume", name)
    wait_until(lambda: (ctr.home / "beat/now").stat().st_mtime_ns != before)


def metrics(ctr: Ctr) -> None:
    name = ctr.detached(f"--memory-limit={64 << 20}", "sleep", "300")
    found = ctr.json("tasks", "metrics", "--format=json", name)
    assert found["memory"]["usage"]["limit"] == 64 << 20 and found["pids"]["current"] == 1


def exec_of_a_command(ctr: Ctr) -> None:
    assert ctr.exec(ctr.detached(), "cat", "/proc/1/comm") == "sleep"


def exec_has_its_status(ctr: Ctr) -> None:
    ctr.exec(ctr.detached(), "sh", "-c", "exit 6", code=6)


def exec_with_input(ctr: Ctr) -> None:
    assert ctr.exec(ctr.detached(), "cat", input="through\n") == "through"


def exec_with_flags(ctr: Ctr) -> None:
    text = ctr.exec(ctr.detached(), "--cwd=/tmp", "--user=12:34", "sh", "-c", "pwd; id -u; id -g")
    assert text == "/tmp\n12\n34"


def exec_not_found(ctr: Ctr) -> None:
    done = ctr.full("tasks", "exec", "--exec-id=x", ctr.detached(), "nosuch")
    assert done.returncode == 1
    assert 'exec: "nosuch": executable file not found in $PATH' in done.stderr


def exec_with_a_terminal(ctr: Ctr) -> None:
    screen = ctr.screen("tasks", "exec", "--tty", "--exec-id=x", ctr.detached(), "sh")
    screen.expect("# ")
    screen.type("tty; exit 3\r")
    assert "/dev/pts/" in screen.rest() and screen.wait() == 3


def exec_is_in_the_cgroup(ctr: Ctr) -> None:
    name = ctr.detached()
    assert ctr.exec(name, "cat", "/proc/1/cgroup") == ctr.exec(name, "cat", "/proc/self/cgroup")


def exec_in_a_stopped_one(ctr: Ctr) -> None:
    name = ctr.detached("true")
    ctr.wait(name)
    assert ctr.full("tasks", "exec", "--exec-id=x", name, "true").returncode == 1


def exec_ended_by_a_signal(ctr: Ctr) -> None:
    name = ctr.detached()
    ctr("tasks", "exec", "--detach", "--exec-id=long", name, "sleep", "300")
    assert "sleep" in ctr("tasks", "ps", name) or len(ctr("tasks", "ps", name).splitlines()) == 3
    ctr("tasks", "kill", "--exec-id=long", "--signal=KILL", name)
    wait_until(lambda: len(ctr("tasks", "ps", name).splitlines()) == 2)
    assert ctr.status(name) == "RUNNING"


def checkpoint_without_criu_is_refused(ctr: Ctr) -> None:
    name = ctr.detached()
    with ctr.cell.without("criu"):
        assert ctr.full("tasks", "checkpoint", name).returncode == 1
    assert ctr.status(name) == "RUNNING"


def annotation(ctr: Ctr) -> None:
    name = ctr.detached("--annotation=com.example.word=given", "sleep", "300")
    root = f"/run/containerd/runc/{ctr.space}"
    state = ctr.cell.run(ctr.path, "--root", root, "state", name).stdout
    assert json.loads(state)["annotations"]["com.example.word"] == "given"


def one_name_in_two_namespaces(ctr: Ctr) -> None:
    name = ctr.detached()
    ctr("--namespace=two", "images", "import", str(ctr.home / "image.tar"))
    path = f"--cgroup={ctr.cell.parent}/two"
    ctr("--namespace=two", "run", "--rm", *ctr.words(path, "true", name=name))
    assert ctr.status(name) == "RUNNING"


def the_daemon_comes_back(ctr: Ctr) -> None:
    """Shims outlive their daemon, and so do containers."""
    name = ctr.detached()
    os.kill(child(ctr.daemon.pid), signal.SIGKILL)
    ctr.daemon.wait()
    ctr.begin()
    assert ctr.status(name) == "RUNNING"
    assert ctr.exec(name, "echo", "still here") == "still here"


def gpus(ctr: Ctr) -> None:
    """ctr's own flag: a prestart hook that calls nvidia-container-cli. SIMULATED GPUs."""
    done = _with_gpus(
        ctr, "--gpus=0", "--gpus=1", "sh", "-c", "ls /dev | grep nvidia; nvidia-smi -L"
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in NODES] == NODES, done.stderr
    names = [line for line in lines if line.startswith("GPU ")]
    assert len(names) == 2 and all("SIMULATED" in line for line in names)


def gpu_that_is_not_there(ctr: Ctr) -> None:
    done = _with_gpus(ctr, "--gpus=9", "true")
    assert done.returncode == 1 and "9: unknown device" in done.stderr


def _with_gpus(ctr: Ctr, *args: str) -> CompletedProcess[str]:
    """`ctr run` where minirun's nvidia-container-cli, told to simulate, stands in PATH."""
    path = ctr.home / "bin/nvidia-container-cli"
    path.write_text(f'#!/bin/sh\nexec {ctr.minirun} {path.name} --gpu-driver=simulated "$@"\n')
    path.chmod(0o755)
    env = ctr.env | {"MINIRUN_SIM": "count=4"}
    return ctr.cell.run(*ctr.client, "run", "--rm", *ctr.words(*args), env=env)
