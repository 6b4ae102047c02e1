"""`podman container checkpoint` and `restore`, with minirun below: what users do with CRIU.

podman calls runtimes without a PATH, so the CRIU is bound over the installed one, in the cell.
(With runc below all of it passes too. It is not run here: of a hierarchy that the container has not
joined runc's CRIU saves every cgroup, and makes those of other tests again.)
"""

from collections.abc import Iterator

import pytest

from conftest import wait_until
from engines.clients.engine import Podman, program

SCRIPT = "i=0; while :; do i=$((i+1)); echo $i >/new; mv /new /count; sleep 0.05; done"


@pytest.fixture
def podman(command: str, criu: str) -> Iterator[Podman]:
    """An engine of its own, and a CRIU that works where it looks for one."""
    installed = program("criu")
    engine = Podman("minirun", command)
    try:
        engine.cell.run("mount", "--bind", f"{criu}/criu", installed, check=True)
        yield engine
    finally:
        engine.clean()
        engine.close()


def count(engine: Podman, name: str) -> int:
    """How far the container is."""
    return int(engine("exec", name, "cat", "/count"))


def test_it_goes_on(podman: Podman) -> None:
    name = podman.detached("sh", "-c", SCRIPT)
    wait_until(lambda: podman.full("exec", name, "test", "-e", "/count").returncode == 0)
    before = count(podman, name)
    podman("container", "checkpoint", name)
    assert podman.json("inspect", name)[0]["State"]["Checkpointed"]
    podman("container", "restore", name)
    assert podman.json("inspect", name)[0]["State"]["Status"] == "running"
    assert before < count(podman, name) < before + 1000
    podman("container", "checkpoint", "--leave-running", name)
    after = count(podman, name)
    wait_until(lambda: count(podman, name) > after)


def test_it_goes_on_under_another_name(podman: Podman) -> None:
    """All of it, with what it has written to its root filesystem, goes through one file."""
    name = podman.detached("sh", "-c", SCRIPT)
    wait_until(lambda: podman.full("exec", name, "test", "-e", "/count").returncode == 0)
    podman("exec", name, "sh", "-c", "echo written >/file")
    before = count(podman, name)
    archive = str(podman.home / "checkpoint.tar.gz")
    podman("container", "checkpoint", f"--export={archive}", name)
    podman("rm", "--force", name)
    podman("container", "restore", f"--import={archive}", "--name=other")
    assert before < count(podman, "other") < before + 1000
    assert podman("exec", "other", "cat", "/file") == "written"
    podman("stop", "--time=0", "other")
