"""The runtime alone: what lies beside it, three shelves and the workshop, is not there.

minirun/ is copied without docker/, toolkit/ and faces/, into a folder of its own, with an
interpreter that finds nothing else of minirun: -I. Then it is asked for what a runtime does.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import minirun as package
from conftest import Program, wait_until
from engines.clients.engine import Podman
from test_rings import SHELVES

SOURCE = Path(package.__file__).parent
NAME = f"bare-{os.getpid()}"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the program that runs the runtime without its shelves."""
    folder = tmp_path_factory.mktemp("bare")

    def unwanted(path: str, names: list[str]) -> set[str]:
        shelves = SHELVES if Path(path) == SOURCE else set()
        return {name for name in names if name in shelves or name == "__pycache__"}

    shutil.copytree(SOURCE, folder / "minirun", ignore=unwanted)
    program = folder / "program"
    python = os.path.realpath(sys.executable)
    code = f"import sys; sys.path[:0] = [{str(folder)!r}]; from minirun import cli"
    program.write_text(f"#!/bin/sh\nexec {python} -ISc {code!r}'; sys.exit(cli.main())' \"$@\"\n")
    program.chmod(0o755)
    for each in (folder, folder.parent, folder.parent.parent):
        each.chmod(0o755)  # podman's conmon is root, an ordinary user's test is not
    return str(program)


@pytest.fixture
def alone(bare: str, minirun: Program) -> Iterator[Program]:
    made = Program(bare, minirun.root, store=minirun.store)
    yield made
    made.clean()
    assert made.left() == []


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def bundle(alone: Program, folder: Path, layer: Path, *command: str) -> Path:
    """Write a bundle with the config.json that `spec busybox` prints."""
    document = alone.spec(*command)
    document["root"]["path"] = str(layer)
    (folder / "config.json").write_text(json.dumps(document))
    return folder


def test_nothing_of_a_shelf_is_there(alone: Program) -> None:
    """Neither here nor by another way: each of docker's own verbs says that it is not."""
    folder = Path(alone.path).parent / "minirun"
    assert SHELVES.isdisjoint(path.name for path in folder.iterdir())
    done = alone("logs", NAME)
    assert done.returncode == 125
    assert done.stderr == "minirun: this needs minirun/docker, which is not here\n"


def test_create_start_kill_delete(alone: Program, tmp_path: Path, layer: Path) -> None:
    place = bundle(alone, tmp_path, layer, "sleep", "100")
    argv = alone.argv("create", "--bundle", str(place), NAME)
    assert subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert json.loads(said(alone("state", NAME)))["status"] == "created"
    said(alone("start", NAME))
    assert said(alone("exec", NAME, "echo", "inside")) == "inside\n"
    assert json.loads(said(alone("ps", "--format", "json", NAME)))
    assert NAME in said(alone("list"))
    said(alone("pause", NAME))
    said(alone("resume", NAME))
    said(alone("update", "--pids-limit", "50", NAME))
    assert json.loads(said(alone("events", "--stats", NAME)))["type"] == "stats"
    said(alone("kill", NAME, "KILL"))
    wait_until(lambda: json.loads(said(alone("state", NAME)))["status"] == "stopped")
    said(alone("delete", NAME))
    assert "does not exist" in alone("state", NAME).stderr
    assert alone("gc").returncode == 0


def test_run_a_bundle(alone: Program, tmp_path: Path, layer: Path) -> None:
    place = bundle(alone, tmp_path, layer, "sh", "-c", "echo hello; exit 7")
    done = alone("run", "--bundle", str(place), NAME)
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello\n", "")


def test_run_an_image_with_gpus(alone: Program) -> None:
    """All seven stages, with a folder of the host and limits; and its log says so."""
    flags = ("--gpus", "0,1", "--gpu-driver=simulated", "--memory", "64m", "-v", "/etc:/host:ro")
    done = alone("run", "--name", NAME, *flags, "busybox", "sh", "-c", "ls /dev /host")
    assert done.returncode == 0, done.stderr
    assert {"nvidia0", "nvidia1", "nvidiactl"} <= set(done.stdout.split())
    assert "hostname" in done.stdout.split()
    stages = [event["stage"] for event in alone.events(NAME) if event["kind"] == "end"]
    assert stages == [1, 2, 3, 4, 5, 6, 7]
    assert said(alone("delete", NAME)) == ""


def test_a_flag_that_needs_a_shelf_says_so(alone: Program) -> None:
    """Before anything is made."""
    for flag, shelf in (
        ("--restart=always", "docker"), ("--dry-run", "faces"), ("--progress=lanes", "faces"),
    ):  # fmt: skip
        done = alone("run", "--rm" if "restart" not in flag else "-q", flag, "busybox", "true")
        assert (done.returncode, done.stdout) == (125, ""), flag
        assert done.stderr == f"minirun: this needs minirun/{shelf}, which is not here\n"


def test_below_podman(bare: str) -> None:
    podman = Podman("minirun", bare)
    try:
        assert podman.run("echo", "hello") == "hello"
        podman.run("sh", "-c", "exit 9", code=9)
        name = podman.detached("sleep", "100")
        assert podman("exec", name, "cat", "/proc/1/comm") == "sleep"
        podman("stop", "--time=0", name)
        podman.clean()
    finally:
        podman.close()
