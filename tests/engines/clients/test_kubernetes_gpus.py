"""What Kubernetes hands on when its scheduler has chosen GPUs, by containerd's CRI to minirun.

A kubelet asks the device plugin (Allocate) or the driver of a resource claim for a device, and puts
the answer into CreateContainer: as a variable, an annotation, or a name of CDI. There is no kubelet
here: the calls are those that it makes. The GPUs are SIMULATED.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from debian_packages import Archive, unpack
from engines.clients.containerd_engine import REFERENCE
from engines.clients.cri_engine import Cri, CriWithCdi
from minirun.core.config import GPU_HOOK

PAGE = (REFERENCE / "many-machines.md").read_text().partition("\n## Kubernetes\n")[2]
ANSWERS = {
    name: json.loads(f"{{{fields}}}")
    for name, fields in re.findall(r"^\| `(\S+)` \| `(.*?)` \|", PAGE, re.MULTILINE)
}
"""Strategy → what is in CreateContainer, as the page has it."""
NODES = ("sh", "-c", "ls /dev | grep 'nvidia[0-9]'")


@pytest.fixture(scope="module")
def cri(command: str) -> Iterator[Cri]:
    engine = Cri("minirun", command)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def newer(command: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CriWithCdi]:
    """containerd 1.7 of Debian 13, which knows CDI; its files lie in a folder of their own."""
    folder = tmp_path_factory.mktemp("containerd")
    unpack(Archive(folder, release="trixie").fetch("containerd"), folder)

    class Newer(CriWithCdi):
        other = str(folder / "usr/bin/containerd")

    engine = Newer("minirun", command)
    words = ("nvidia-ctk", "cdi", "generate", f"--output={engine.home}/cdi/nvidia.yaml")
    engine.cell.run(command, *words, env={"MINIRUN_SIM": "count=4"}, check=True)
    yield engine
    engine.close()


def config_of(cri: Cri, container: str) -> dict[str, Any]:
    """The config.json that the runtime was given, as it stands after the start."""
    folder = f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{container}"
    text = cri.cell.run("cat", f"{folder}/config.json", check=True).stdout
    return dict(json.loads(text))


def test_the_device_plugins_answer_as_a_variable(cri: Cri) -> None:
    """Strategy `envvar`: the UUID that kubelet chose, and a handler that is NVIDIA's runtime."""
    pod = cri.pod(handler="nvidia")
    name = cri.start("sleep", "300", pod=pod, **ANSWERS["envvar"])
    assert cri.exec(name, *NODES) == "nvidia1"
    config = config_of(cri, name)
    asked = "NVIDIA_VISIBLE_DEVICES=GPU-aaaaaaaa-0000-4000-8000-000000000001"
    assert asked in config["process"]["env"]
    assert [hook["args"][0] for hook in config["hooks"]["prestart"]] == [GPU_HOOK]
    cri.clean()


def test_the_variable_needs_the_handler(cri: Cri) -> None:
    """A pod without runtimeClassName has runc's handler, or minirun's own: no GPU comes of it."""
    pod = cri.pod(handler="minirun")
    assert "nvidia" not in cri.run("ls", "/dev", pod=pod, **ANSWERS["envvar"])
    cri.clean()


@pytest.mark.parametrize("strategy", [name for name in ANSWERS if name.startswith("cdi")])
def test_the_answer_as_a_name_of_cdi(newer: CriWithCdi, strategy: str) -> None:
    """containerd looks the name up, for any handler."""
    pod = newer.pod(handler="minirun")
    name = newer.start("sleep", "300", pod=pod, **ANSWERS[strategy])
    assert newer.exec(name, *NODES) == "nvidia1"
    config = config_of(newer, name)
    nodes = [row["path"] for row in config["linux"]["devices"]]
    assert "/dev/nvidia1" in nodes and "/dev/nvidia0" not in nodes
    newer.clean()


def test_a_name_that_no_file_has(newer: CriWithCdi) -> None:
    devices = [{"name": "nvidia.com/gpu=9"}]
    said = newer.refused("true", pod=newer.pod(handler="minirun"), CDI_devices=devices)
    text = "unresolvable CDI devices nvidia.com/gpu=9"
    assert text in said and f"\n    {text}\n" in PAGE
    newer.clean()


def test_four_pods_have_four_gpus(newer: CriWithCdi) -> None:
    """What a kubelet with four devices does: each is in one pod; all of it stands in the logs."""
    names = [
        newer.start("sleep", "300", pod=newer.pod(handler="minirun"),
                    CDI_devices=[{"name": f"nvidia.com/gpu={number}"}])
        for number in range(4)
    ]  # fmt: skip
    assert [newer.exec(name, *NODES) for name in names] == [f"nvidia{n}" for n in range(4)]
    newer.clean()
