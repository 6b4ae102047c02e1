"""The dev container as docker starts it: its own root is an overlay, which holds no upper layer."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engines.clients.engine import IMAGE, Docker
from layers import layer_of
from minirun.core.keeping.places import ROOT
from minirun.core.process import caps
from minirun.faces.teach.lab import labs
from minirun.faces.teach.levels import programs

TOP = Path(__file__).parents[2]
SAID = json.loads((TOP / ".devcontainer" / "devcontainer.json").read_text())
VOLUMES = [f"--mount={each.replace('${devcontainerId}', 'test')}" for each in SAID["mounts"]]
HINT = "(no overlay, NFS or FUSE can hold it: --root on ext4, xfs, btrfs or tmpfs)"
SHARED = ("/usr", "/lib", "/lib64", "/etc/alternatives", str(TOP))
"""What of this machine the container has: Python with its libraries, and minirun."""

QUARTER = os.environ.get("MUTANTS", "1")
"""Which quarter of the levels and labs is tried, or all: it takes a while."""


def chosen(names: list[str]) -> list[str]:
    """This quarter of them."""
    return names if QUARTER == "all" else names[int(QUARTER) - 1 :: 4]


def privileged() -> list[str]:
    """--privileged; piece by piece if this machine lacks a capability, which runc refuses then."""
    names = caps.names(caps.held())
    if len(names) == len(caps.NUMBERS):
        return ["--privileged"]
    options = [f"--security-opt={one}=unconfined" for one in ("seccomp", "systempaths")]
    rules = ["--device-cgroup-rule=a *:* rwm", "--volume=/sys/fs/cgroup:/sys/fs/cgroup"]
    added = [name for name in names if caps.NUMBERS[name] <= caps.NUMBERS["CAP_AUDIT_READ"]]
    return [*options, *rules, *(f"--cap-add={name}" for name in added)]  # that docker 20.10 knows


@pytest.fixture
def docker(command: str) -> Iterator[Docker]:
    engine = Docker("runc", command)
    yield engine
    engine.clean()
    engine("volume", "prune", "--force")
    engine.close()


@pytest.fixture
def minirun(docker: Docker, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run minirun in a container that has the dev container's flags, and these volumes.

    It has the images that `make demo` leaves there.
    """
    for name in ("busybox", "ubuntu"):
        archive = tmp_path / f"{name}.tar"
        subprocess.run(["tar", "-C", layer_of(name), "-cf", archive, "."], check=True)
    shared = [f"--volume={path}:{path}:ro" for path in (*SHARED, str(Path(docker.minirun).parent))]
    flags = [f"--volume={tmp_path}:/images:ro", *shared, *SAID["runArgs"]]
    load = f"{docker.minirun} import /images/{{0}}.tar {{0}} >/dev/null && "
    steps = f"{load.format('busybox')}{load.format('ubuntu')}{docker.minirun} "

    def run(volumes: list[str], words: str, image: str = IMAGE) -> subprocess.CompletedProcess[str]:
        argv = ["--rm", *privileged(), "--network=none", *flags, *volumes, image]
        return docker.full("run", *argv, "sh", "-c", steps + words, timeout=1000)

    return run


def test_it_runs_a_container_with_gpus(minirun: Callable[..., Any]) -> None:
    words = "run --rm --gpu-driver=simulated --gpus 0,1 busybox"
    done = minirun(VOLUMES, f"{words} nvidia-smi -L")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("SIMULATED") == 2


def test_without_its_volume_the_error_says_what_to_do(minirun: Callable[..., Any]) -> None:
    done = minirun([], "run --rm busybox true")
    assert done.returncode == 125
    *_, line = done.stderr.splitlines()
    assert line.startswith(f"minirun: mount: overlay with its upper layer in {ROOT}/")
    assert line.endswith(HINT)


@pytest.fixture
def debian(docker: Docker, tmp_path: Path) -> str:
    """Debian's image, whose programs are this machine's: it has what `make setup` installs."""
    archive = tmp_path / "debian.tar"
    subprocess.run(["tar", "-C", layer_of("debian"), "-cf", archive, "."], check=True)
    docker("import", str(archive), "debian-here")
    return "debian-here"


@pytest.mark.timeout(1200)
def test_levels_hold(docker: Docker, minirun: Callable[..., Any], debian: str) -> None:
    levels = [level for level in programs.levels() if not level.is_open]
    numbers = chosen([str(level.number) for level in levels])
    paths = [programs.find(number).path for number in numbers]
    check = f"{docker.minirun} --lang en level check"
    lines = [f"{check} {number} {path}" for number, path in zip(numbers, paths, strict=True)]
    done = minirun(VOLUMES, f"--version; {'; '.join(lines)}", debian)
    held = re.findall(r"^Level (\d) holds", done.stdout, re.MULTILINE)
    assert held == numbers, done.stdout + done.stderr


@pytest.mark.timeout(1200)
def test_labs_are_solved(docker: Docker, minirun: Callable[..., Any], debian: str) -> None:
    names = chosen([lab.name for lab in labs.labs()])
    lab = f"{docker.minirun} --lang en lab"
    steps = "start {0} && {1} solution {0} --apply && {1} check {0}; {1} reset {0}"
    lines = [f"echo {name}: ; {lab} {steps.format(name, lab)}" for name in names]
    done = minirun(VOLUMES, f"--version; {'; '.join(lines)}", debian)
    solved = re.findall(r"^(\S+):\n(?:(?!\S+:\n).*\n)*?Solved\.", done.stdout, re.MULTILINE)
    assert solved == names, done.stdout + done.stderr
