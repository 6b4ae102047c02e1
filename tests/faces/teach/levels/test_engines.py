"""Engines start containers with level 9 of the ladder in place of runc."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program
from engines.clients.containerd_engine import Ctr
from engines.clients.engine import IMAGE, Docker, Dockerlike, Engine, Podman
from faces.teach.levels import level10
from layers import copy_layer, layer_of
from minirun.faces.teach.levels import material, programs
from required import installed

TUTORIALS = Path(__file__).parents[4] / "tutorials"
BLOCK = re.compile(r"(?ms)^```text\n(.*?)^```$")
GPUS = "ls /dev | grep 'nvidia[0-9]'; nvidia-smi -L"


def lines(mark: str) -> str:
    """What the lesson has one type: its block with these words, in both languages the same."""
    texts = [path.read_text() for path in sorted(TUTORIALS.glob("level-9-*.md"))]
    found = {each for text in texts for each in BLOCK.findall(text) if mark in each}
    assert len(texts) == 2 and len(found) == 1, mark
    return found.pop()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which the program is ready, and the lesson's script, ladder-runtime."""
    tmp_path.chmod(0o755)
    shutil.copytree(programs.levels()[9].path.parent, tmp_path / "ladder")
    return tmp_path


@pytest.fixture
def runtime(minirun: Program, home: Path) -> str:
    """The program, called with a simulated driver, as the lesson has it."""
    path = f"{Path(minirun.path).parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = os.environ | {"HOME": str(home), "PATH": path, "MINIRUN_STORE": minirun.store}
    line = ["sh", "-ec", lines("cat > ladder-runtime")]
    done = subprocess.run(line, cwd=home, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return f"{home}/ladder-runtime"


def typed(engine: Engine, name: str, text: str) -> str:
    """Type lines of the lesson beside the script; its client is the cell's. What is printed."""
    folder = engine.cell.home / "typed"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(engine.client)} "$@"\n')
    (folder / name).chmod(0o755)
    script = f"cd {Path(engine.path).parent}; PATH={folder}:$PATH; {text}"
    done = engine.cell.run("sh", "-ec", script, env=engine.env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def ctr(runtime: str) -> Iterator[Ctr]:
    engine = Ctr("minirun", runtime)
    yield engine
    engine.close()


class Configured(Docker):
    """dockerd with the lesson's daemon.json, beside the runtime that is its default."""

    def set_up(self) -> None:
        text = lines('"runtimes"')
        self.daemon_json = json.loads(text.replace("/path/to/ladder-runtime", self.path))
        super().set_up()


@pytest.fixture(params=[Configured, Podman], ids=["docker", "podman"])
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
    ctr("images", "tag", IMAGE, "docker.io/library/busybox:latest")
    # on a busy machine ctr has once ended with 0, and had printed nothing
    seen = typed(ctr, "ctr", lines("ctr run")) or typed(ctr, "ctr", lines("ctr run"))
    assert seen.count("SIMULATED") == 2


def test_docker_and_podman(docker: Dockerlike, home: Path) -> None:
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
    docker("tag", IMAGE, "busybox")
    name = Path(docker.client[0]).name
    assert typed(docker, name, lines(f"{name} ")).count("SIMULATED") == 2
    (home / "ladder" / programs.levels()[9].file).write_text(level10.text())
    name = docker.detached()
    assert (
        docker("exec", "--user=1000", "--env=A=b", name, "sh", "-c", "id -u; echo $A") == "1000\nb"
    )
    assert docker.full("exec", name, "sh", "-c", "exit 7").returncode == 7
    assert docker("exec", "-t", name, "sh", "-c", "test -t 0 && tty").strip() == "/dev/pts/0"


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
