"""`minirun timeline` on an engine's machine: every container it has started, stage by stage."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engines.clients.conftest import hook
from engines.clients.containerd_engine import Ctr
from engines.clients.cri_engine import Cri
from engines.clients.engine import Docker, Engine, Podman
from minirun.core.keeping.places import STORE

ALL, NO_GPUS = "1234567", "123--67"
BRIEF = "io.minirun.log"


class _Fresh(Engine):
    """An engine on a machine where minirun has made nothing yet."""

    def set_up(self) -> None:
        self.cell.run("mkdir", "-p", STORE, check=True)
        self.cell.run("mount", "-t", "tmpfs", "none", STORE, check=True)
        super().set_up()

    def minirun_says(self, *args: str) -> str:
        """What minirun prints to a user at this machine's shell."""
        store = self.env.get("MINIRUN_STORE", STORE)
        env = {"MINIRUN_STORE": store, "MINIRUN_ROOT": ""}
        done = self.cell.run(self.minirun, *args, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def row(self, name: str) -> str:
        """The line of `minirun timeline` about a container."""
        lines = self.minirun_says("timeline", "--last=0").splitlines()
        (row,) = [" ".join(line.split()) for line in lines if name[:12] in line.split()[:2]]
        return row

    def log(self, name: str, root: str) -> list[dict[str, Any]]:
        """The events of a container, living or gone."""
        found = self.cell.run(
            "sh", "-c", f"cat {root}/{name}/events.jsonl {root}/.history/*{name}*"
        )
        return [json.loads(line) for line in found.stdout.splitlines()]


class _Podman(_Fresh, Podman):
    def set_up(self) -> None:
        super().set_up()
        folder = self.home / "hooks.d"
        folder.mkdir()
        path = self.home / "nvidia-container-runtime-hook"
        path.symlink_to(self.minirun)
        when = {"annotations": {"^gpus$": "^yes$"}}
        row = {"version": "1.0.0", "hook": hook(str(path)), "stages": ["prestart"], "when": when}
        (folder / "gpu.json").write_text(json.dumps(row))
        self.client = (*self.client, "--hooks-dir", str(folder))


class _Docker(_Fresh, Docker):
    pass


class _Ctr(_Fresh, Ctr):
    pass


class _Cri(_Fresh, Cri):
    pass


Start = Callable[[type[_Fresh]], Any]


@pytest.fixture
def start(command: str) -> Iterator[Start]:
    """Start an engine with minirun as its runtime; it ends with the test."""
    made: list[_Fresh] = []

    def begin(kind: type[_Fresh]) -> _Fresh:
        made.append(kind("minirun", command))
        return made[-1]

    yield begin
    for engine in made:
        engine.clean()
        engine.close()


def in_order(events: list[dict[str, Any]], stages: str) -> None:
    """Check that these stages have begun and ended without an error, one after the other.

    docker lists its network's hook after NVIDIA's: stage 3 goes on for it after stage 5.
    """
    numbers = [int(mark) for mark in stages if mark != "-"]
    for kind in ("begin", "end"):
        first = [e for e in reversed(events) if e["kind"] == kind and e["ret"] == 0]
        times = {e["stage"]: e["t"] for e in first}
        assert sorted(times) == numbers
        assert sorted(times, key=lambda stage: times[stage]) == numbers, kind


def syscalls(events: list[dict[str, Any]]) -> int:
    return sum(event["kind"] == "syscall" for event in events)


def test_podman(start: Start) -> None:
    podman, root = start(_Podman), f"{STORE}/containers"
    gpus = ("--annotation=gpus=yes", "--env=NVIDIA_VISIBLE_DEVICES=0,1")
    name = podman.detached("--name=trainer", *gpus, "sleep", "300")
    brief = podman.detached(f"--annotation={BRIEF}=stages", "sleep", "301")
    row = podman.row(name)
    assert " podman " in row and f" running {ALL} started 0,1 SIMULATED sleep 300" in row
    assert f" running {NO_GPUS} started sleep 301" in podman.row(brief)
    in_order(podman.log(name, root), ALL)
    in_order(podman.log(brief, root), NO_GPUS)
    assert syscalls(podman.log(name, root)) > 50 and syscalls(podman.log(brief, root)) == 0
    assert podman.minirun_says("timeline", name[:12]).startswith(f"container {name} (GPUs SIM")
    assert podman.minirun_says("gpu", "ps").count(name) == 2
    assert podman.minirun_says("inspect", "--text", name[:12]).startswith(f"{name}: running")
    podman("rm", "--force", "--time=0", name)
    assert f" removed {ALL} started " in podman.row(name)
    in_order(podman.log(name, root), ALL)
    refused = podman.error(f"--annotation={BRIEF}=everything", "true")
    assert refused.returncode == 126
    assert f"annotations.{BRIEF}: unknown detail 'everything'" in refused.stderr


def test_docker(start: Start) -> None:
    docker, root = start(_Docker), "/run/docker/runtime-runc/moby"
    name = docker.detached("--gpus=device=1", "sleep", "300")
    assert docker.row(name).startswith(f"{name[:12]} ") and " docker " in docker.row(name)
    assert f" running {ALL} started 1 SIMULATED sleep 300" in docker.row(name)
    in_order(docker.log(name, root), ALL)
    docker("rm", "--force", name)
    assert f" removed {ALL} started " in docker.row(name)
    in_order(docker.log(name, root), ALL)


def test_containerd(start: Start) -> None:
    ctr = start(_Ctr)
    root = f"/run/containerd/runc/{ctr.space}"
    name = ctr.detached(f"--annotation={BRIEF}=stages", "sleep", "300")
    other = ctr.detached("sleep", "301")
    assert " containerd " in ctr.row(name)
    assert f" running {NO_GPUS} started sleep 300" in ctr.row(name)
    assert f" running {NO_GPUS} started sleep 301" in ctr.row(other)
    assert syscalls(ctr.log(name, root)) == 0 and syscalls(ctr.log(other, root)) > 50
    ctr.clean()
    assert f" removed {NO_GPUS} started " in ctr.row(name)
    in_order(ctr.log(name, root), NO_GPUS)


def test_kubernetes(start: Start) -> None:
    """containerd's CRI: the pod is a container too, and both say whose they are."""
    cri, root = start(_Cri), "/run/containerd/runc/k8s.io"
    pod = cri.pod(annotations={BRIEF: "stages"})
    name = cri.start("sleep", "300", pod=pod)
    whose = f"test/{cri.pods[pod]['metadata']['name']}"
    assert cri.row(pod).startswith(f"{whose} {pod[:12]} containerd/cri ")
    row = cri.row(name)
    assert row.startswith(f"{whose}/c") and f" {name[:12]} containerd/cri " in row
    assert f" running {NO_GPUS} started test.local/busybox:1 sleep 300" in row
    assert syscalls(cri.log(pod, root)) == 0
    in_order(cri.log(pod, root), NO_GPUS)
    cri.clean()
    assert f" removed {NO_GPUS} started " in cri.row(name)
    in_order(cri.log(name, root), NO_GPUS)
