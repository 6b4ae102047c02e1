"""Engines start containers with level 9 of the ladder in place of runc."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from engines.clients.containerd_engine import Ctr
from engines.clients.engine import Docker, Dockerlike, Podman
from layers import copy_layer, layer_of
from minirun.faces.teach.levels import material, programs
from required import installed

GPUS = "ls /dev | grep 'nvidia[0-9]'; nvidia-smi -L"


@pytest.fixture
def runtime(minirun: Program, tmp_path: Path) -> str:
    """The program, called with a simulated driver."""
    done = minirun("level", "driver")
    assert done.returncode == 0, done.stderr
    tmp_path.chmod(0o755)
    path = tmp_path / "runtime"
    level = programs.levels()[9].path
    path.write_text(
        f"#!/bin/sh\nexport NVIDIA_DRIVER_ROOT={done.stdout.strip()}\n"
        f'exec {sys.executable} {level} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def ctr(runtime: str) -> Iterator[Ctr]:
    engine = Ctr("minirun", runtime)
    yield engine
    engine.close()


@pytest.fixture(params=[Docker, Podman], ids=["docker", "podman"])
def docker(request: pytest.FixtureRequest, runtime: str) -> Iterator[Dockerlike]:
    engine = request.param("minirun", runtime)
    yield engine
    engine.close()


def test_containerd(ctr: Ctr) -> None:
    assert ctr.run("echo", "hello") == "hello"
    ctr.run("sh", "-c", "exit 7", code=7)
    done = ctr.all("nosuch")
    assert done.returncode == 1 and "executable file not found in $PATH" in done.stderr
    name = ctr.detached()
    ctr("tasks", "kill", "--signal=KILL", name)
    assert ctr.ended(name) == "137"
    ctr.clean()
    seen = ctr.run("--env=NVIDIA_VISIBLE_DEVICES=0,2", "sh", "-c", GPUS)
    assert seen.splitlines()[:2] == ["nvidia0", "nvidia2"] and seen.count("SIMULATED") == 2


def test_docker_and_podman(docker: Dockerlike) -> None:
    assert docker.run("echo", "hello") == "hello"
    docker.run("sh", "-c", "exit 7", code=7)
    assert docker.error("nosuch").returncode == 127
    assert docker.run("--user=1000:1001", "id", "-u") == "1000"
    assert docker.run("-t", "sh", "-c", "test -t 0 && tty") == "/dev/pts/0"
    name = docker.detached()
    docker("kill", name)
    assert docker("wait", name) == "137"
    docker("rm", name)
    seen = docker.run("--env=NVIDIA_VISIBLE_DEVICES=0,2", "sh", "-c", GPUS)
    assert seen.splitlines()[:2] == ["nvidia0", "nvidia2"] and seen.count("SIMULATED") == 2


def test_observe_draws_its_seven_stages(minirun: Program, runtime: str, tmp_path: Path) -> None:
    """What `minirun observe` knows of runc's start, it sees in the learner's own runtime."""
    installed("strace")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    copy_layer(layer_of("busybox"), bundle / "rootfs")
    document = material.config(args=["sh", "-c", GPUS])
    document["process"]["env"].append("NVIDIA_VISIBLE_DEVICES=0,2")
    (bundle / "config.json").write_text(json.dumps(document))
    name = f"learner-{os.getpid()}"
    done = minirun("observe", "--", runtime, "run", "--bundle", str(bundle), name)
    assert done.returncode == 0, done.stderr
    drawn = done.stdout + done.stderr
    assert re.findall(r"(?m)^([1-7]) (?:runtime|init|hook|cli) ", drawn) == list("1234567")
    for word in ("clone", "RUN_HOOKS", "STATE to hook", "HOOKS_DONE", "pivot_root", "CREATED"):
        assert word in drawn
    assert drawn.count("(SIMULATED)") == 2
