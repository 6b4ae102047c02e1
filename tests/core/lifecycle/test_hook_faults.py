"""Hooks in trouble, and containers that share or lose what they stand on."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, cgroup, wait_until
from core.lifecycle.leftovers import Family, assert_nothing, call
from minirun.core.gates import open_gate
from minirun.core.keeping.places import NAMES

NAME = f"hooks-{os.getpid()}"
Bundle = Callable[..., Path]


@pytest.fixture
def bundle(minirun: Program, layer: Path) -> Bundle:
    """Make a bundle with the command `sleep 100`; the arguments go into config.json."""

    def make(hooks: dict[str, str] | None = None, **linux: object) -> Path:
        config: dict[str, Any] = json.loads(minirun("spec", "busybox", "sleep", "100").stdout)
        config["root"]["path"] = str(layer)
        config["linux"] |= linux
        config["hooks"] = {
            kind: [{"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin:/usr/bin"]}]
            for kind, script in (hooks or {}).items()
        }
        (layer.parent / "config.json").write_text(json.dumps(config))
        return layer.parent

    return make


@pytest.mark.parametrize("kind", ["prestart", "createRuntime", "createContainer", "poststart"])
def test_runtime_killed_during_a_hook(
    minirun: Program, bundle: Bundle, tmp_path: Path, kind: str
) -> None:
    """The hook dies with it: nobody waits for it any more."""
    mark = tmp_path / "mark"
    path = bundle({kind: f"echo $$ >{mark}; exec sleep 100"})
    with open(os.devnull, "w") as null:  # not a pipe: after the start the command holds it open
        argv = minirun.argv("run", "--bundle", str(path), NAME)
        runtime = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null)
    wait_until(lambda: mark.exists() and mark.read_text())
    family = Family(runtime.pid)
    runtime.kill()
    runtime.wait()
    assert minirun("delete", "--force", NAME).returncode == 0
    assert_nothing(minirun, NAME, family)


@pytest.mark.parametrize("verb", ["run", "create"])
def test_the_reason_is_not_hidden_by_what_cannot_be_removed(
    minirun: Program, bundle: Bundle, verb: str
) -> None:
    """The hook mounts something on a file of the container, and then fails."""
    fifo = minirun.directory(NAME) / "exec.fifo"
    path = bundle({"prestart": f"mount --bind {fifo} {fifo}; echo the reason; exit 3"})
    try:
        done = minirun(verb, "--bundle", str(path), NAME)
        warning, error = done.stderr.splitlines()
        assert done.returncode == 1
        assert warning.startswith(f"minirun: warning: {NAME}: not all of it could be removed: ")
        assert warning.endswith(f" (minirun delete --force {NAME})")
        assert "the reason" in error and "prestart hook #0" in error
    finally:
        subprocess.run(["umount", str(fifo)], check=True)
    assert minirun("delete", "--force", NAME).returncode == 0
    assert_nothing(minirun, NAME)


def test_a_hook_that_kills_init(minirun: Program, bundle: Bundle) -> None:
    script = r'kill -9 $(sed -n "s/.*\"pid\":\([0-9]*\).*/\1/p")'
    for kind in ("prestart", "createRuntime"):
        done = minirun("run", "--bundle", str(bundle({kind: script})), NAME)
        assert (done.returncode, done.stderr) == (1, "minirun: init was killed by signal 9\n")
        assert_nothing(minirun, NAME)


def test_a_hook_that_kills_the_runtime(minirun: Program, bundle: Bundle) -> None:
    path = bundle({"prestart": "kill -9 $PPID; sleep 100"})
    assert minirun("run", "--bundle", str(path), NAME).returncode == -signal.SIGKILL
    assert "its creation was cut off" in minirun("gc").stdout
    assert_nothing(minirun, NAME)


def test_failing_hooks_after_the_start(minirun: Program, bundle: Bundle, tmp_path: Path) -> None:
    """A poststart that fails ends the container; a poststop that fails is a warning."""
    counter = tmp_path / "count"
    path = bundle({"poststart": "echo no; exit 3", "poststop": f"echo x >>{counter}; exit 4"})
    done = minirun("run", "--bundle", str(path), NAME)
    assert done.returncode == 1
    warning, error = sorted(done.stderr.splitlines(), key=lambda line: "poststart" in line)
    assert warning.startswith("minirun: warning: error running poststop hook #0: /bin/sh failed")
    start = "minirun: error running poststart hook #0: /bin/sh failed"
    assert error == f"{start} with exit status 3: no"
    assert counter.read_text() == "x\n"
    assert_nothing(minirun, NAME)


def test_a_poststop_hook_outlives_the_bundle(
    minirun: Program, bundle: Bundle, tmp_path: Path
) -> None:
    """An engine may have removed the bundle, in which the other hooks run."""
    mark, own = tmp_path / "mark", tmp_path / "own"
    path = bundle({"poststop": f"pwd >{mark}"})
    config = json.loads((path / "config.json").read_text())
    own.mkdir()
    (own / "config.json").write_text(json.dumps(config))
    assert call(minirun, "create", "--bundle", str(own), NAME)[0] == 0
    (own / "config.json").unlink()
    own.rmdir()
    done = minirun("delete", "--force", NAME)
    assert (done.returncode, done.stderr) == (0, "")
    assert mark.read_text() == "/\n"
    assert_nothing(minirun, NAME)


def test_a_child_that_holds_stderr_past_the_timeout(minirun: Program, layer: Path) -> None:
    config = json.loads(minirun("spec", "busybox", "true").stdout)
    config["root"]["path"] = str(layer)
    hook = {"path": "/bin/sh", "args": ["sh", "-c", "sleep 77 & wait"], "timeout": 1}
    config["hooks"] = {"prestart": [hook]}
    (layer.parent / "config.json").write_text(json.dumps(config))
    started = time.monotonic()
    done = minirun("run", "--bundle", str(layer.parent), NAME)
    assert time.monotonic() - started < 5
    assert done.returncode == 1
    assert "took longer than its timeout of 1 s" in done.stderr
    assert_nothing(minirun, NAME)


def test_dead_console_socket(minirun: Program, bundle: Bundle, tmp_path: Path) -> None:
    config_path = bundle() / "config.json"
    config = json.loads(config_path.read_text())
    config["process"]["terminal"] = True
    config_path.write_text(json.dumps(config))
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
        for where in (path, str(tmp_path / "nosuch")):
            argv = ("create", "--bundle", str(tmp_path), "--console-socket", where, NAME)
            done = minirun(*argv)
            assert done.returncode == 1
            assert done.stderr.count("\n") == 1
            assert where in done.stderr
            assert_nothing(minirun, NAME)


def test_delete_with_children_in_the_hosts_pid_namespace(minirun: Program, bundle: Bundle) -> None:
    """No pid namespace dies with init here: the cgroup tells who belongs to the container."""
    config_path = bundle() / "config.json"
    config = json.loads(config_path.read_text())
    namespaces = config["linux"]["namespaces"]
    config["linux"]["namespaces"] = [row for row in namespaces if row["type"] != "pid"]
    script = "setsid sleep 98 & setsid sleep 99 & exec sleep 100"
    config["process"]["args"] = ["sh", "-c", script]
    config_path.write_text(json.dumps(config))
    assert call(minirun, "run", "-d", "--bundle", str(config_path.parent), NAME) == (0, "")
    procs = Path(cgroup(minirun, NAME), "cgroup.procs")
    wait_until(lambda: len(procs.read_text().split()) == 3)
    pids = [int(pid) for pid in procs.read_text().split()]
    minirun("kill", NAME, "KILL")
    wait_until(lambda: json.loads(minirun("state", NAME).stdout)["status"] == "stopped")
    assert minirun("delete", NAME).returncode == 0
    wait_until(lambda: not any(_runs(pid) for pid in pids))
    assert_nothing(minirun, NAME)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_it_writes_cannot_be_kept(minirun: Program) -> None:
    """No log.json can be made: the command runs, is waited for, and nothing is left of it."""
    command = ("busybox", "sh", "-c", "echo out; exit 3")
    gates = os.environ | {"MINIRUN_GATES": "7:end"}
    held = minirun.start("run", "--name", NAME, *command, env=gates)
    wait_until(lambda: '"7:end"' in minirun.log(NAME))
    directory = minirun.directory(NAME)
    (directory / "log.json").mkdir()
    open_gate(str(directory))
    out, said = held.communicate(timeout=20)
    assert (held.returncode, out) == (3, "out\n")
    assert "what the container writes is not kept" in said and "Traceback" not in said
    assert minirun("delete", NAME).returncode == 0
    assert_nothing(minirun, NAME)


def test_state_directory_gone(minirun: Program) -> None:
    """Without its record the container still ends, and with it its cgroup.

    The link of its name counts for nothing: another container takes it, or `gc` removes it.
    """
    runtime = minirun.start("run", "--name", NAME, "busybox", "sleep", "100")
    wait_until(lambda: '"status":"running"' in minirun.log(NAME, "state.json"))
    pid = json.loads(minirun.log(NAME, "state.json"))["pid"]
    remove = ["rm", "-rf", str(minirun.directory(NAME))]  # while the runtime may still write there
    wait_until(lambda: subprocess.run(remove, check=False).returncode == 0)
    assert "does not exist" in minirun("state", NAME).stderr
    os.kill(pid, signal.SIGKILL)
    _, stderr = runtime.communicate(timeout=20)
    assert runtime.returncode == 137, stderr
    assert "Traceback" not in stderr
    link = minirun.root / NAMES / NAME
    assert minirun.left() == [str(link)]
    assert minirun("run", "--name", NAME, "busybox", "true").returncode == 0
    shutil.rmtree(minirun.directory(NAME))
    assert minirun.left() == [str(link)]
    assert minirun("gc").returncode == 0
    assert_nothing(minirun, NAME)
