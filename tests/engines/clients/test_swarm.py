"""docker's swarm chooses GPUs for its tasks, and minirun puts these in. The GPUs are SIMULATED."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from conftest import wait_until
from engines.clients.containerd_engine import REFERENCE
from engines.clients.engine import IMAGE
from engines.clients.swarm_engine import Node, Swarm, Task
from engines.clients.typed import play

PAGE = REFERENCE / "many-machines.md"
NAMES = ("node1", "node2", "node3")
VARIABLE = "DOCKER_RESOURCE_NVIDIA-GPU"
Start = Callable[..., Swarm]


class NoVariable(Node):
    """A node on which config.toml says nothing of swarm's variable."""

    def config_toml(self) -> str:
        lines = super().config_toml().splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("swarm-resource"))


class PlainMinirun(Node):
    """A node whose default runtime is minirun itself, without NVIDIA's runtime."""

    daemon_json: ClassVar[dict[str, Any]] = {
        "runtimes": {"minirun": {"path": "/usr/local/bin/minirun"}},
        "default-runtime": "minirun",
    }


@pytest.fixture
def start(command: str) -> Iterator[Start]:
    """Start a swarm; it ends with the test."""
    made: list[Swarm] = []

    def begin(**options: Any) -> Swarm:
        made.append(Swarm(command, **options))
        return made[-1]

    yield begin
    for swarm in made:
        swarm.close()


def tasks_in(state: str, count: int, swarm: Swarm, *services: str) -> list[Task]:
    """Wait until so many tasks of services run, or are pending with a reason; return them."""
    found: list[Task] = []

    def enough() -> bool:
        tasks = [task for task in swarm.tasks(*services) if task.state == state]
        found[:] = [task for task in tasks if bool(task.error) == (state == "pending")]
        return len(found) >= count

    wait_until(enough)
    return found


def given(tasks: list[Task]) -> set[tuple[str, str]]:
    """The GPUs of tasks, node and UUID; none is given twice."""
    gpus = [(task.node, uuid) for task in tasks for uuid in task.gpus]
    assert len(set(gpus)) == len(gpus)
    return set(gpus)


def noted(node: Node, container: str) -> dict[str, dict[str, Any]]:
    """The notes of stages 4 and 5 in minirun's log of a container."""
    path = f"/run/docker/runtime-runc/moby/{container}/events.jsonl"
    events = map(json.loads, node.cell.run("cat", path, check=True).stdout.splitlines())
    return {e["name"]: e["args"] for e in events if e["kind"] == "note" and e["stage"] in (4, 5)}


def test_the_page_says_what_happens(start: Start) -> None:
    swarm = start()
    for node in swarm.nodes:
        node("tag", IMAGE, "busybox")
    play(PAGE, "docker's swarm", swarm.typed)


def test_a_task_gets_the_gpus_that_the_scheduler_has_chosen(start: Start) -> None:
    """The same UUIDs in all places, from the manager's scheduler to nvidia-smi in the container."""
    swarm = start()
    swarm.service("pair", 2, "--replicas=3")
    tasks = tasks_in("running", 3, swarm, "pair")
    assert {task.node for task in tasks} == {"node1", "node2", "node3"}
    for task in tasks:
        node, uuids = swarm.node(task.node), ",".join(task.gpus)
        (row,) = node.json("inspect", task.container)
        assert row["HostConfig"]["Runtime"] == "nvidia" and len(task.gpus) == 2
        assert f"{VARIABLE}={uuids}" in row["Config"]["Env"]

        numbers = sorted(node.uuids.index(uuid) for uuid in task.gpus)
        notes = noted(node, task.container)
        assert notes["environment"][VARIABLE] == uuids
        assert f"--device={uuids}" in notes["nvidia-container-cli"]["argv"]
        assert notes["gpus chosen"] == {"gpus": [str(number) for number in numbers], "of": 4}

        seen = node("exec", task.container, "nvidia-smi", "-L")
        assert re.findall(r"UUID: (.*)\)", seen) == sorted(task.gpus) and "SIMULATED" in seen
        paths = node("exec", task.container, "sh", "-c", "ls -d /dev/nvidia[0-9]").split()
        assert paths == [f"/dev/nvidia{number}" for number in numbers]

        names = ",".join(map(str, numbers))
        assert f" running  1234567  started  {names} SIMULATED" in node.says("timeline")
        assert f"{VARIABLE}={uuids}" in node.says("gpu", "why", task.container)


def test_no_gpu_is_given_twice_also_after_the_end_of_a_node(start: Start) -> None:
    swarm = start(heartbeat="1s")
    swarm.service("eight", 1, "--replicas=8")
    swarm.service("four", 1, "--replicas=4")
    everything = {(node.name, uuid) for node in swarm.nodes for uuid in node.uuids}
    assert given(tasks_in("running", 12, swarm, "eight", "four")) == everything
    swarm.service("late", 1)
    (late,) = tasks_in("pending", 1, swarm, "late")
    assert late.error == "no suitable node (insufficient resources on 3 nodes)"

    swarm.end(swarm.node("node3"))
    state = ("node", "ls", "--filter=name=node3", "--format={{.Status}}")
    wait_until(lambda: swarm(*state) == "Down")
    for task in tasks_in("pending", 5, swarm, "eight", "four", "late"):
        assert "insufficient resources on 2 nodes" in task.error
        assert "1 node not available for new tasks" in task.error

    swarm("service", "rm", "four")
    left = {gpu for gpu in everything if gpu[0] != "node3"}
    assert given(tasks_in("running", 8, swarm, "eight", "late")) == left
    assert len(tasks_in("pending", 1, swarm, "eight", "late")) == 1


def test_a_node_that_is_not_told_of_the_variable_gives_nothing(start: Start) -> None:
    """swarm has given the GPUs all the same: only the container lacks them."""
    swarm = start(kinds=(Node, NoVariable, PlainMinirun))
    swarm.service("each", 1, "--mode=global")
    found = {}
    for task in tasks_in("running", 3, swarm, "each"):
        node = swarm.node(task.node)
        assert f"{VARIABLE}={task.gpus[0]}" in node("inspect", task.container)
        found[task.node] = "nvidiactl" in node("exec", task.container, "ls", "/dev").split()
        assert (task.container in node.says("gpu", "ps")) == found[task.node]
    assert found == {"node1": True, "node2": False, "node3": False}


def test_a_node_that_is_cut_off_goes_on(start: Start) -> None:
    """For a while a task runs twice: its node is not told to end it until the link is back."""
    swarm = start(heartbeat="1s")
    swarm.service("each", 1, "--replicas=3")
    assert {task.node for task in tasks_in("running", 3, swarm, "each")} == set(NAMES)
    lonely = swarm.node("node3")
    link = ("ip", "link", "set", "eth0")
    lonely.cell.run(*link, "down", check=True)
    wait_until(lambda: "node3" not in {t.node for t in tasks_in("running", 3, swarm, "each")})
    (name,) = lonely("ps", "--quiet").split()
    assert lonely("exec", name, "nvidia-smi", "-L").count("SIMULATED") == 1
    lonely.cell.run(*link, "up", check=True)
    wait_until(lambda: not lonely("ps", "--quiet"))
    assert len(tasks_in("running", 3, swarm, "each")) == 3
