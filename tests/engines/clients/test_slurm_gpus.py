"""Slurm gives jobs GPUs on two nodes; minirun puts those in. The GPUs are SIMULATED.

tutorials/reference/engines/many-machines.md tells of it.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import wait_until
from engines.clients.containerd_engine import REFERENCE
from engines.clients.slurm_cluster import GPUS, LIST, SlurmWithGpus, SlurmWithNvidiasRuntime
from engines.clients.typed import play

PAGE = REFERENCE / "many-machines.md"
USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture(scope="module")
def cluster(command: str) -> Iterator[SlurmWithGpus]:
    engine = SlurmWithGpus("minirun", command)
    yield engine
    engine.close()


@pytest.fixture
def slurm(cluster: SlurmWithGpus) -> Iterator[SlurmWithGpus]:
    yield cluster
    cluster.clean()


def test_the_page_says_what_happens(command: str) -> None:
    """`srun --container` of the page's own words; a job with GPU 0 of node1 is there already."""
    slurm = SlurmWithGpus("minirun", command)
    try:
        flags = ("--gres=gpu:1", "--nodelist=node1", slurm.container())
        slurm.cell.start(*slurm.client, *flags, "sh", "-c", "sleep 1000", env=slurm.env)
        state = (slurm.path, f"--root={slurm.ROOT}/root", "state", "node1.root.1.0.0")
        wait_until(lambda: '"running"' in slurm.nodes["node1"].run(*state).stdout)
        play(PAGE, "Slurm", slurm.typed)
    finally:
        slurm.close()


def test_no_gpu_is_given_twice(slurm: SlurmWithGpus) -> None:
    """Eight jobs get a GPU each; a ninth waits until one has ended."""
    every = [[node, f"nvidia{number}"] for node in slurm.nodes for number in range(GPUS)]
    for _ in every:
        slurm.hold("--gres=gpu:1")
    wait_until(lambda: len(slurm.held()) == len(every))
    assert sorted(slurm.held()) == every
    slurm.hold("--gres=gpu:1")
    wait_until(lambda: "PENDING Resources" in slurm.queue("%T %r"))
    done = next(job for job in slurm.queue("%i %T %N") if job.endswith("node2")).split()[0]
    slurm.cell.run("scancel", done, env=slurm.env, check=True)
    wait_until(lambda: len(slurm.held()) == len(every) + 1)
    assert slurm.held()[-1][0] == "node2"


def test_the_choice_is_written_down_in_four_places(slurm: SlurmWithGpus) -> None:
    """The controller's record of the job, the prolog's file, minirun's log, and its list."""
    slurm.hold("--gres=gpu:1", "--nodelist=node1")
    wait_until(slurm.held)
    slurm.hold("--gres=gpu:2", "--nodelist=node1")
    wait_until(lambda: len(slurm.held()) == 2)
    assert slurm.held()[1] == ["node1", "nvidia1", "nvidia2"]
    job = max(slurm.queue("%i"), key=int)
    shown = slurm.cell.run("scontrol", "--details", "show", "job", job, env=slurm.env).stdout
    assert re.findall(r"Nodes=(\S+) .* GRES=gpu:2\(IDX:(\S+)\)", shown) == [("node1", "1-2")]
    node = slurm.nodes["node1"]
    assert node.run("cat", f"/run/minirun-slurm-gpus/{job}").stdout == "1,2\n"
    root = f"{slurm.ROOT}/root"
    container = f"node1.root.{job}.0.0"
    log = node.run("cat", f"{root}/{container}/events.jsonl", check=True).stdout
    notes = [event for event in map(json.loads, log.splitlines()) if event["kind"] == "note"]
    asked = next(event["args"] for event in notes if event["name"] == "environment")
    assert asked["NVIDIA_VISIBLE_DEVICES"] == "1,2"
    rows = node.run(slurm.path, f"--root={root}", "gpu", "ps").stdout.splitlines()
    assert [row.split()[0] for row in rows if container in row] == ["1", "2"]


def test_a_bundle_cannot_choose(slurm: SlurmWithGpus) -> None:
    """An image's NVIDIA_VISIBLE_DEVICES=all reaches the bundle; it counts for nothing there."""
    greedy = slurm.container(NVIDIA_VISIBLE_DEVICES="all")
    assert slurm("--gres=gpu:1", greedy, *LIST).split()[1:] == ["nvidia0"]
    assert slurm(greedy, *LIST).split()[1:] == []


def test_the_line_of_slurms_documentation_gives_no_gpu(command: str) -> None:
    """NVIDIA's runtime changes config.json for `create`, and Slurm is told to call `run`."""
    slurm = SlurmWithNvidiasRuntime("minirun", command)
    try:
        greedy = slurm.container(NVIDIA_VISIBLE_DEVICES="all")
        assert slurm("--gres=gpu:1", greedy, *LIST) == "node1"
    finally:
        slurm.close()


def test_a_job_on_both_nodes(slurm: SlurmWithGpus) -> None:
    said = slurm("--nodes=2", "--gres=gpu:3", slurm.container(), *LIST)
    gpus = "nvidia0 nvidia1 nvidia2"
    assert sorted(said.splitlines()) == [f"{node} {gpus}" for node in slurm.nodes]


def test_more_gpus_than_a_node_has(slurm: SlurmWithGpus) -> None:
    done = slurm.full("--gres=gpu:5", slurm.container(), *LIST)
    assert done.returncode == 1
    assert "Requested node configuration is not available" in done.stderr


def test_the_prologs_file_ends_with_the_job(slurm: SlurmWithGpus) -> None:
    slurm("--gres=gpu:1", "--nodelist=node1", slurm.container(), *LIST)
    files = ("ls", "/run/minirun-slurm-gpus")
    wait_until(lambda: not slurm.nodes["node1"].run(*files).stdout)


def test_an_ordinary_user(slurm: SlurmWithGpus) -> None:
    """slurmd's children are the job's user: a user namespace. Simulated nodes need root."""
    flag = slurm.container()
    for cell in slurm.nodes.values():
        give_to_user(slurm, cell.home / flag.partition("=")[2].lstrip("/"))
    words = (*USER, *slurm.client, flag)
    done = slurm.cell.run(*words, "id", "-u", env=slurm.env)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    done = slurm.cell.run(*words, "--gres=gpu:1", "true", env=slurm.env)
    assert done.returncode == 1 and "(run as root)" in done.stdout + done.stderr


def give_to_user(slurm: SlurmWithGpus, bundle: Path) -> None:
    """Give a bundle to an ordinary user, with the config.json that minirun writes for one."""
    path = bundle / "config.json"
    path.unlink()
    for entry in (bundle, *bundle.rglob("*")):
        os.lchown(entry, 65534, 65534)
    words = (slurm.path, "spec", "--rootless", f"--bundle={bundle}")
    slurm.cell.run(*USER, *words, check=True)
    config = json.loads(path.read_text())
    config["process"] |= {"terminal": False, "rlimits": []}
    path.write_text(json.dumps(config))


def test_a_node_that_dies(command: str) -> None:
    """Slurm takes its GPUs off the list, and ends its job; a job on the other node goes on."""
    slurm = SlurmWithGpus("minirun", command)
    try:
        for node in slurm.nodes:
            slurm.hold("--gres=gpu:2", f"--nodelist={node}")
        wait_until(lambda: len(slurm.held()) == 2)
        slurm.nodes.pop("node2").close()
        wait_until(lambda: slurm.states()[1].startswith("down"))
        wait_until(lambda: slurm.queue("%T %N") == ["RUNNING node1"])
        done = slurm.full("--gres=gpu:3", "--immediate=1", slurm.container(), *LIST)
        assert done.returncode != 0 and sorted(slurm.held()) == [
            ["node1", "nvidia0", "nvidia1"], ["node2", "nvidia0", "nvidia1"]
        ]  # fmt: skip
    finally:
        slurm.close()
