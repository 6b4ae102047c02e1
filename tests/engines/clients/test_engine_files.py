"""The configuration files that users are given, each read by the program that it is for.

containerd's and Slurm's are read by the engines of test_containerd and test_more_engines.
"""

import json
import tomllib
from collections.abc import Iterator

import pytest

from engines.clients import images
from engines.clients.containerd_engine import REFERENCE
from engines.clients.cri_engine import CRI, runtime_class
from engines.clients.engine import IMAGE, Dockerlike, Podman, program

PATH = "/usr/local/bin/minirun"
"""Where the files say that minirun is."""


class PodmanByFile(Podman):
    """podman that is told of its runtime by containers.conf alone."""

    def set_up(self) -> None:
        super().set_up()
        text = (REFERENCE / "podman-containers.conf").read_text().replace(PATH, self.minirun)
        (self.home / "containers.conf").write_text(self.ULIMITS + text)
        at = self.client.index("--runtime")
        self.client = self.client[:at] + self.client[at + 2 :]


class DockerByFile(Dockerlike):
    """dockerd that is told of minirun by daemon.json alone."""

    def set_up(self) -> None:
        home = self.home
        text = (REFERENCE / "docker-daemon.json").read_text().replace(PATH, self.minirun)
        (home / "daemon.json").write_text(text)
        self.cell.start(
            program("dockerd"), "--config-file", f"{home}/daemon.json",
            "--data-root", f"{home}/data", "--exec-root", "/run/docker",
            "--pidfile", "/run/dockerd.pid", "--host", "unix:///run/docker.sock",
            "--cgroup-parent", self.cell.parent, log="dockerd", env=self.env,
        )  # fmt: skip
        self.client = (program("docker"), "--host", "unix:///run/docker.sock")
        self.cell.wait_for(lambda: self.full("version").returncode == 0, "dockerd")
        self("load", "--input", str(images.archive(home / "image.tar", IMAGE)))


@pytest.fixture
def podman(command: str) -> Iterator[PodmanByFile]:
    engine = PodmanByFile("minirun", command)
    yield engine
    engine.clean()
    engine.close()


@pytest.fixture
def docker(command: str) -> Iterator[DockerByFile]:
    engine = DockerByFile("minirun", command)
    yield engine
    engine.close()


def test_podman(podman: PodmanByFile) -> None:
    assert podman.json("inspect", podman.detached())[0]["OCIRuntime"] == "minirun"
    assert podman.run("--runtime=minirun", "echo", "hello") == "hello"


def test_podman_gives_simulated_gpus_by_a_cdi_file(podman: PodmanByFile) -> None:
    """podman 4.3 refuses a file with a field that its version of the specification lacks."""
    words = ("nvidia-ctk", "cdi", "generate", "--output=/run/cdi/nvidia.yaml")
    made = podman.cell.run(podman.minirun, *words, env={"MINIRUN_SIM": "count=2"})
    assert made.returncode == 0, made.stderr
    command = "ls /dev/nvidia0 /dev/nvidiactl /usr/bin/nvidia-smi; env | grep SIMULATED"
    said = podman.run("--device=nvidia.com/gpu=0", "sh", "-c", command).split()
    assert said[:3] == ["/dev/nvidia0", "/dev/nvidiactl", "/usr/bin/nvidia-smi"]
    assert said[3:] == ["MINIRUN_GPUS=SIMULATED"]


def test_docker(docker: DockerByFile) -> None:
    assert docker.run("--runtime=minirun", "echo", "hello") == "hello"
    assert docker.json("info", "--format={{json .Runtimes}}")["minirun"]["path"] == docker.minirun


def test_every_kubernetes_node_has_the_handler() -> None:
    """Debian has no CRI-O: of its file only the form is looked at."""
    handler = runtime_class()["handler"]
    crio = tomllib.loads((REFERENCE / "crio.conf").read_text())["crio"]["runtime"]["runtimes"]
    assert (crio[handler]["runtime_path"], crio[handler]["runtime_type"]) == (PATH, "oci")
    containerd = tomllib.loads((REFERENCE / "containerd-config.toml").read_text())
    options = containerd["plugins"][CRI]["containerd"]["runtimes"][handler]["options"]
    assert options == {"BinaryName": PATH}


def test_the_page_names_every_file() -> None:
    page = (REFERENCE / "README.md").read_text()
    files = {path.name for path in REFERENCE.iterdir()} - {"README.md"}
    assert files and all(f"({name})" in page for name in files)
    assert json.loads((REFERENCE / "docker-daemon.json").read_text())["runtimes"]
