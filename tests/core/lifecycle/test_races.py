"""Several commands at once on one container: one wins, the others say so, and nothing is left."""

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import Program, wait_until
from core.lifecycle.leftovers import Family, assert_nothing, call, together
from minirun.core import endings, handshake
from minirun.core.errors import StateError
from minirun.core.keeping import places
from records import whole


@pytest.fixture
def bundle(minirun: Program, tmp_path: Path, layer: Path) -> Path:
    """A bundle with the command `sleep 100`, and hooks that count."""
    config = json.loads(minirun("spec", "busybox", "sleep", "100").stdout)
    config["root"]["path"] = str(layer)
    count = f"cat >/dev/null; echo x >>{tmp_path}/"
    config["hooks"] = {
        kind: [{"path": "/bin/sh", "args": ["sh", "-c", count + kind]}]
        for kind in ("poststart", "poststop")
    }
    path = tmp_path / "bundle"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.fixture
def name(tmp_path: Path) -> str:
    return f"race-{os.getpid()}-{tmp_path.name[-20:]}"


def hook_runs(bundle: Path, kind: str) -> int:
    path = bundle.parent / kind
    return path.read_text().count("x") if path.exists() else 0


def test_eight_creators_of_one_name(minirun: Program, bundle: Path, name: str) -> None:
    ends = together(minirun, 8, "create", "--bundle", str(bundle), name)
    assert sorted(status for status, _ in ends) == [0] + [1] * 7
    said = "minirun: container with given ID already exists"
    assert all(line.startswith(said) for status, line in ends if status)
    assert json.loads(minirun("state", name).stdout)["status"] == "created"
    minirun("delete", "--force", name)
    assert_nothing(minirun, name)


def test_eight_runs_of_one_name(minirun: Program, name: str) -> None:
    ends = together(minirun, 8, "run", "-d", "--name", name, "busybox", "sleep", "100")
    assert sorted(status for status, _ in ends) == [0] + [125] * 7
    assert "Up" in minirun("ps").stdout
    minirun("delete", "--force", name)
    assert_nothing(minirun, name)


def create(minirun: Program, bundle: Path, name: str) -> Family:
    assert call(minirun, "create", "--bundle", str(bundle), name) == (0, "")
    return Family(json.loads(minirun("state", name).stdout)["pid"])


@pytest.mark.parametrize("started", [False, True], ids=["created", "running"])
def test_eight_deletes(minirun: Program, bundle: Path, name: str, started: bool) -> None:
    family = create(minirun, bundle, name)
    if started:
        minirun("start", name)
    assert together(minirun, 8, "delete", "--force", name) == [(0, "")] * 8
    assert_nothing(minirun, name, family)
    assert hook_runs(bundle, "poststop") == 1


def test_eight_deletes_of_a_stopped_one(minirun: Program, bundle: Path, name: str) -> None:
    """Without --force, who comes too late is told so."""
    create(minirun, bundle, name)
    minirun("start", name)
    minirun("kill", name, "KILL")
    wait_until(lambda: json.loads(minirun("state", name).stdout)["status"] == "stopped")
    ends = together(minirun, 8, "delete", name)
    assert (0, "") in ends
    assert all(status == 0 or "does not exist" in said for status, said in ends), ends
    assert_nothing(minirun, name)
    assert hook_runs(bundle, "poststop") == 1


def test_start_four_times(minirun: Program, bundle: Path, name: str) -> None:
    family = create(minirun, bundle, name)
    ends = together(minirun, 4, "start", name)
    assert sorted(status for status, _ in ends) == [0, 1, 1, 1], ends
    for status, said in ends:
        assert said == "" or (status == 1 and "start" in said and said.count("\n") == 1)
    again = minirun("start", name)
    assert again.returncode == 1
    assert "cannot start a container in the running state" in again.stderr
    assert hook_runs(bundle, "poststart") == 1
    minirun("delete", "--force", name)
    assert_nothing(minirun, name, family)


def test_start_against_kill(minirun: Program, bundle: Path, name: str) -> None:
    """Which one comes first does not matter: no hang, no traceback, and delete cleans up."""
    for _ in range(5):
        family = create(minirun, bundle, name)
        start = minirun.start("start", name)
        kill = minirun.start("kill", name, "KILL")
        for process in (start, kill):
            _, stderr = process.communicate(timeout=20)
            assert process.returncode in (0, 1, 125), stderr
            assert stderr.count("\n") <= 1, stderr
        assert minirun("delete", "--force", name).returncode == 0
        assert_nothing(minirun, name, family)


def test_init_ends_while_start_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end of exec.fifo is gone between two calls of `start`: EPIPE, told in one line."""
    handshake.make_fifos(str(tmp_path))
    init = os.open(tmp_path / places.EXEC, os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(os, "unlink", lambda _: os.close(init))
    container = SimpleNamespace(name="c", record=whole(str(tmp_path)), directory=str(tmp_path))
    with pytest.raises(StateError, match="'c' is not waiting for a start"):
        endings.start(container, None)


def test_delete_against_create(minirun: Program, bundle: Path, name: str) -> None:
    """A container whose creation goes on is deleted with --force; its creator says why it ends."""
    for _ in range(5):
        argv = minirun.argv("create", "--bundle", str(bundle), name)
        with open(os.devnull, "w") as null:
            creator = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null)
        wait_until(lambda: minirun.directory(name).exists())
        assert minirun("delete", "--force", name).returncode == 0
        assert creator.wait(timeout=20) in (0, 1, 125, -9)
        minirun("delete", "--force", name)
        assert_nothing(minirun, name)


def test_fifty_cycles(minirun: Program, bundle: Path, name: str) -> None:
    for _ in range(50):
        assert call(minirun, "create", "--bundle", str(bundle), name) == (0, "")
        assert call(minirun, "start", name) == (0, "")
        assert call(minirun, "delete", "--force", name) == (0, "")
    assert_nothing(minirun, name)
    assert (hook_runs(bundle, "poststart"), hook_runs(bundle, "poststop")) == (50, 50)


@pytest.mark.parametrize("removed", [False, True], ids=["before", "after it removed exec.fifo"])
def test_a_start_that_was_killed(minirun: Program, bundle: Path, name: str, removed: bool) -> None:
    """Between its open(2) and its write(2): the container waits for the next one, or runs."""
    family = create(minirun, bundle, name)
    fifo = minirun.directory(name) / places.EXEC
    fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    if removed:
        fifo.unlink()
    os.close(fd)
    if removed:
        pid = json.loads(minirun("state", name).stdout)["pid"]
        wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    assert call(minirun, "start", name)[0] == removed
    assert json.loads(minirun("state", name).stdout)["status"] == "running"
    minirun("delete", "--force", name)
    assert_nothing(minirun, name, family)
