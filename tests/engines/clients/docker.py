"""Scenarios of docker alone."""

import shutil
import time

import pytest

from engines.clients.conftest import NODES
from engines.clients.engine import IMAGE, Docker

COMPOSE = f"""\
version: "3.8"
services:
  cuda:
    image: {IMAGE}
    network_mode: none
    command: sh -c "ls -d /dev/nvidia[0-9]"
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              device_ids: ["0", "1"]
              capabilities: [gpu]
"""


def gpus_of_the_flag(engine: Docker) -> None:
    """docker's own flag: a prestart hook, which is minirun's program here. SIMULATED GPUs."""
    flag = '--gpus="device=0,1"'
    lines = engine.run(flag, "sh", "-c", "ls /dev | grep nvidia; nvidia-smi -L").splitlines()
    assert lines[:5] == NODES and all("SIMULATED" in line for line in lines[5:])
    assert len(lines) == 7


def gpus_all(engine: Docker) -> None:
    text = engine.run("--gpus=all", "sh", "-c", "ls -d /dev/nvidia[0-9]")
    assert text.split() == [f"/dev/nvidia{n}" for n in range(4)]


def gpu_that_is_not_there(engine: Docker) -> None:
    done = engine.error("--gpus=device=9", "true")
    assert done.returncode != 0 and "9: unknown device" in done.stderr


def init_of_docker(engine: Docker) -> None:
    assert "init" in engine.run("--init", "cat", "/proc/1/comm")


def network_of_the_user(engine: Docker) -> None:
    engine("network", "create", "two")
    try:
        first = engine("run", "-d", "--network=two", "--name=first", IMAGE, "sleep", "300")
        assert engine("run", "--rm", "--network=two", IMAGE, "ping", "-c1", "-W5", "first")
        engine("rm", "--force", first)
    finally:
        engine.clean()
        engine("network", "rm", "two")


def restart_policy(engine: Docker) -> None:
    name = engine("run", "-d", "--restart=on-failure:2", "--network=none", IMAGE, "false")
    engine("wait", name)
    engine.cell.wait_for(lambda: engine.json("inspect", name)[0]["RestartCount"] == 2, "dockerd")


def build_with_run(engine: Docker) -> None:
    folder = engine.home / "context"
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo built > /made\nENV A=b\n")
    engine("build", "--network=none", "--tag=test.local/built", str(folder))
    words = ("--rm", "--network=none", "test.local/built", "sh", "-c", "cat /made; echo $A")
    assert engine("run", *words) == "built\nb"


def events_tell_of_its_life(engine: Docker) -> None:
    since = time.time() - 1
    name = engine.detached("true")
    engine("wait", name)
    span = (f"--since={since:.3f}", f"--until={time.time() + 0.5:.3f}")
    words = engine("events", *span, f"--filter=container={name}", "--format={{.Action}}").split()
    assert [word for word in words if word in ("start", "die")] == ["start", "die"], words


def runtime_is_named(engine: Docker) -> None:
    assert engine.json("inspect", engine.detached())[0]["HostConfig"]["Runtime"] == "under-test"


def runtime_chosen_by_the_user(engine: Docker) -> None:
    assert engine.run("--runtime=runc", "echo", "other") == "other"


def out_of_memory_is_told(engine: Docker) -> None:
    hog = "x=a; while :; do x=$x$x; done"
    name = engine.detached("--memory=16m", "--memory-swap=16m", "sh", "-c", hog)
    engine("wait", name)
    assert engine.json("inspect", name)[0]["State"]["OOMKilled"]


def tmpfs_with_an_owner(engine: Docker) -> None:
    flag = "--tmpfs=/work:exec,size=64k,uid=1000,gid=29,mode=0750"
    assert engine.run(flag, "stat", "-c", "%a %u %g", "/work") == "750 1000 29"


def cgroups_are_read_only(engine: Docker) -> None:
    text = engine.run("grep", "-E", " cgroup2? ", "/proc/mounts")
    assert all(line.split()[3].startswith("ro,") for line in text.splitlines())


def compose_with_gpus(engine: Docker) -> None:
    """A service reserves two GPUs; docker-compose asks docker, which calls the hook. SIMULATED."""
    compose = shutil.which("docker-compose")
    if not compose:
        pytest.skip("no docker-compose: `make test` leaves it out, as 14 packages come with it")
    path = engine.home / "compose.yaml"
    path.write_text(COMPOSE)
    words = (compose, "--host", engine.client[-1], "--file", str(path), "--project-name", "asked")
    done = engine.cell.run(*words, "up", "--no-color", "--exit-code-from", "cuda")
    assert done.returncode == 0, done.stderr
    assert [f"/dev/nvidia{n}" in done.stdout for n in range(4)] == [True, True, False, False]
    done = engine.cell.run(*words, "down")
    assert done.returncode == 0, done.stderr
