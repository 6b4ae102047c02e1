"""A driver root with absolute links inside: Debian's driver, as its packages install it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu import debian_driver
from gpu.debian_driver import CURRENT, TRIPLET, DebianDriver
from gpu.nvidia import toolhost
from gpu.pretend import Host, cli
from gpu.sandbox import debian_root
from gpu.test_driver_root import MOVED, run
from minirun.core.kernel import mounts
from minirun.gpu.nvidia.shared import catalog


@pytest.fixture(scope="session")
def packages(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianDriver]:
    """Debian's driver; its libnvidia-ml is the pretend host's, since no module is behind it."""
    run = tmp_path_factory.getbasetemp()
    shared = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
    places = (tmp_path_factory.mktemp("debian"), shared / "debian-driver")
    found = debian_driver.unpack(*places)
    nvml = next((driver / f"usr/lib/{TRIPLET}").glob("libnvidia-ml.so.*.*"))
    shutil.copy(nvml, found.root / CURRENT / f"libnvidia-ml.so.{found.version}")
    for name in ("dev", "proc"):
        (found.root / name).mkdir()
    yield found
    debian_driver.remove(*places)


@pytest.fixture
def host(driver: Path, packages: DebianDriver, tmp_path: Path) -> Host:
    """A host with Debian's driver below MOVED."""
    found = Host(driver, tmp_path, debian_root(tmp_path / "root"), {})
    found.moved, found.version = True, packages.version

    def change() -> None:
        for name in ("dev", "proc"):
            mounts.mount(f"{MOVED}/{name}", f"{packages.root}/{name}", None, mounts.MS_BIND)
        mounts.mount(str(packages.root), MOVED, None, mounts.MS_BIND | mounts.MS_REC)

    found.change = change
    return found


def libraries(packages: DebianDriver, *capabilities: str) -> set[str]:
    """The names of Debian's libraries that these capabilities bring."""
    there = {path.name for path in (packages.root / "usr/lib" / TRIPLET).rglob("*.so.*.*")}
    known = [name for name, needs in catalog.LIBRARIES if {*needs.split()} & {*capabilities}]
    return there & {f"{name}.{packages.version}" for name in known}


def test_in_line(minirun: Program, host: Host, packages: DebianDriver) -> None:
    found = host.run(lambda: run(minirun, "--driver-root", MOVED))
    assert f"/usr/lib/{TRIPLET}/libcuda.so.{packages.version}" in found["out"], found
    assert "/usr/bin/nvidia-smi" in found["out"]
    opened = [event["args"] for event in found["events"] if event["name"] == "open_tree"]
    sources = [row["source"] for row in opened if str(row.get("source")).startswith(f"{MOVED}/")]
    mounted = {path.rpartition("/")[2] for path in sources if ".so." in path}
    assert mounted == libraries(packages, "compute", "utility")


def test_gpu_list(minirun: Program, host: Host, packages: DebianDriver) -> None:
    words = ("gpu", "list", "--driver-root", MOVED)
    done = host.run(lambda: toolhost.run(*words))
    assert (done["rc"], done["stderr"]) == (0, "")
    first, _, *gpus = done["stdout"].splitlines()
    assert first == f"driver {packages.version}, CUDA 12.4" and len(gpus) == 4


def test_nvidia_container_cli(host: Host, packages: DebianDriver) -> None:
    """What it lists are the files themselves, with no link on the way."""
    done = host.run(lambda: cli(f"--root={MOVED}", "list", "--libraries", "--binaries"))
    assert (done["rc"], done["stderr"]) == (0, "")
    paths = done["stdout"].splitlines()
    everything = {need for _, needs in catalog.LIBRARIES for need in needs.split()}
    listed = {path.rpartition("/")[2] for path in paths if ".so." in path}
    assert listed == libraries(packages, *everything) and len(listed) >= 18
    assert {f"/{CURRENT}/libcuda.so.{packages.version}", "/usr/lib/nvidia/current/nvidia-smi"} <= {
        *paths
    }
    assert not [path for path in paths if (packages.root / path[1:]).is_symlink()]


def test_a_cdi_spec(host: Host, packages: DebianDriver) -> None:
    """A runtime that knows of no driver root mounts what it names: no link may lead out of it."""

    def task() -> dict[str, Any]:
        words = ("nvidia-ctk", "cdi", "generate", "--format=json", f"--driver-root={MOVED}")
        done = toolhost.run(*words)
        assert done["rc"] == 0, done["stderr"]
        edits = json.loads(done["stdout"])["containerEdits"]
        links = [row["hostPath"] for row in edits["mounts"] if Path(row["hostPath"]).is_symlink()]
        return {"mounts": edits["mounts"], "links": links}

    done = host.run(task)
    rows = {row["containerPath"]: row["hostPath"] for row in done["mounts"]}
    assert rows["/usr/bin/nvidia-smi"] == f"{MOVED}/usr/lib/nvidia/current/nvidia-smi"
    library = f"/{CURRENT}/libcuda.so.{packages.version}"
    assert rows[library] == MOVED + library
    assert done["links"] == []
