"""`minirun observe` of what podman, docker and containerd start: nothing of theirs is changed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import wait_until
from engines.clients.containerd_engine import Ctr
from engines.clients.cri_engine import Cri
from engines.clients.engine import IMAGE, Docker, Engine, Podman
from minirun.faces.show.log.recording import Recording, read

FOLDERS = {Podman: "containers", Docker: "docker", Ctr: "containerd", Cri: "containerd"}
"""Where engines keep, below /etc, what a user has configured; a cell's own files are in its home.

Each engine's alone: dockerd, in the cell of another test, may make a key of its own meanwhile.
"""


@pytest.fixture(params=[Podman, Docker, Ctr, Cri], ids=["podman", "docker", "containerd", "cri"])
def engine(request: pytest.FixtureRequest, command: str) -> Iterator[Engine]:
    made: Engine = request.param("runc", command)
    yield made
    made.clean()
    made.close()


def files(engine: Engine) -> dict[str, str]:
    """Every file of an engine's configuration, and what it holds."""
    paths = list(Path("/etc", FOLDERS[type(engine)]).rglob("*"))
    paths += [path for kind in ("*.toml", "*.json", "*.conf") for path in engine.home.glob(kind)]
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()
    }


def flags(engine: Engine) -> tuple[str, ...]:
    if isinstance(engine, Docker):
        return ("--engine", "docker")
    if isinstance(engine, Cri):
        return ("--engine", "cri", "--address", engine.socket)
    if isinstance(engine, Ctr):
        return ("--engine", "containerd", "--address", engine.socket)
    return ("--engine", "podman")


def observe(
    engine: Engine, output: Path, *command: str, attach: str = ""
) -> subprocess.CompletedProcess[str]:
    """Observe a command in the engine's cell; `attach`: a container that runs."""
    more = ("--attach", attach) if attach else ()
    words = (engine.minirun, "observe", "-o", str(output), *flags(engine), *more, "--", *command)
    return engine.cell.run(*words, env=engine.env, timeout=120)


def start(engine: Engine, output: Path) -> tuple[str, int]:
    """Start a container that lives on, observed; return its id, and init's pid by the engine."""
    if isinstance(engine, Cri):
        gate = engine.home / "gate"
        wait = f"until [ -e {gate} ]; do sleep 0.05; done"
        args = (engine, output, "sh", "-c", wait)
        watcher = threading.Thread(target=observe, args=args)
        watcher.start()
        wait_until(lambda: _is_traced(engine))
        try:
            found = engine.start("sleep", "300")
        finally:
            gate.touch()
            watcher.join()
        info = engine.calls.ContainerStatus(container_id=found, verbose=True).info["info"]
        return found, int(json.loads(info)["pid"])
    if isinstance(engine, Ctr):
        words = engine.words("sleep", "300", name="seen")
        observe(engine, output, *engine.client, "run", "--detach", "--null-io", *words)
        rows = [line.split() for line in engine("tasks", "ls").splitlines()]
        engine.dirty = True
        return "seen", next(int(row[1]) for row in rows if row[0] == "seen")
    words = ["run", "-d", "--network=none", IMAGE, "sleep", "300"]
    if isinstance(engine, Podman):
        words.insert(1, f"--cgroup-parent={engine.cell.parent}")
    done = observe(engine, output, *engine.client, *words)
    assert done.returncode == 0, done.stderr
    found = done.stdout.strip().splitlines()[-1]
    pid = engine.json("inspect", found)[0]["State"]["Pid"]
    return found, int(pid)


def _is_traced(engine: Engine) -> bool:
    return "strace" in engine.cell.run("ps", "-eo", "comm").stdout


def test_the_whole_path_of_an_engine(engine: Engine, tmp_path: Path) -> None:
    before = files(engine)
    output = engine.home / "seen.jsonl"
    name, pid = start(engine, output)
    assert files(engine) == before
    found = {recording.id: recording for recording in read(output)}
    recording = found[name]
    assert [stage.number for stage in recording.stages] == [1, 2, 3, 6, 7]
    assert recording.complete
    assert found.keys() - {name} == set(getattr(engine, "pods", ())), "a pod has its own start"
    assert recording.init == pid, "the engine names the same process"
    said = _messages(recording)
    assert said >= {
        ("init", "runtime", "procHooks"),
        ("init", "runtime", "procReady"), ("runtime", "init", "procRun"),
    }  # fmt: skip
    answers = {"procResume", "procHooksDone"}  # up to runc 1.1; since 1.2
    assert said & {("runtime", "init", name) for name in answers}
    executed = [event for event in recording.events if event.kind == "exec"]
    last = [event for event in executed if event.actor == "init"][-1]
    assert last.args["argv"] == ["sleep", "300"]
    assert {event.actor for event in executed} >= {"runtime", "nsexec", "init"}
    if isinstance(engine, Podman):
        assert {"podman", "conmon"} <= {event.actor for event in executed}


def _messages(recording: Recording) -> set[tuple[str, str, str]]:
    return {(one.sender, one.receiver, one.name) for one in recording.messages}


@pytest.mark.parametrize("engine", [Podman, Docker, Ctr], indirect=True)
def test_an_exec_in_a_container_that_runs(engine: Engine) -> None:
    """The shim, or podman's own conmon, executes the runtime: the exec enters the container."""
    output = engine.home / "seen.jsonl"
    name, pid = start(engine, output)
    inside = ["readlink", "/proc/self/ns/mnt"]
    if isinstance(engine, Ctr):
        words = [*engine.client, "tasks", "exec", "--exec-id", "entered", name, *inside]
    else:
        words = [*engine.client, "exec", name, *inside]
    done = observe(engine, output, *words, attach=name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == engine.cell.run("readlink", f"/proc/{pid}/ns/mnt").stdout.strip()
    found = next(one for one in read(output) if "exec" in one.actors)
    assert (found.id, found.stages) == (name, [])
    entered = [event for event in found.events if event.actor == "exec"]
    assert "setns" in {event.name for event in found.events}
    assert [event.args["argv"] for event in entered if event.kind == "exec"][-1] == inside
