"""A pretend host with a driver of which a spec can be made."""

import os
import shutil
from pathlib import Path

import pytest

from minirun.gpu.drivers import inventory
from minirun.gpu.inventory import Inventory


def pretend(found: Inventory, root: Path) -> Inventory:
    """The simulated driver's files below `root`, with real nodes: a host that looks real."""
    shutil.copytree(found.root, root, symlinks=True, ignore=shutil.ignore_patterns("socket"))
    nodes = [(node.path, node.major, node.minor, 0o666) for node in found.nodes]
    nodes += [(gpu.node, found.major, gpu.minor, 0o666) for gpu in found.gpus]
    for gpu in found.gpus:
        for mig in gpu.migs:
            for minor in (mig.gi_minor, mig.ci_minor):
                path = f"/dev/nvidia-caps/nvidia-cap{minor}"
                nodes.append((path, found.caps_major, minor, 0o444))
    for path, major, minor, mode in nodes:
        place = Path(f"{root}{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(place, 0o020000 | mode, os.makedev(major, minor))
        place.chmod(mode)
    return found._replace(root=str(root), simulated=False)


@pytest.fixture
def host(store: str, tmp_path: Path) -> Inventory:
    return pretend(inventory("simulated", store), tmp_path / "host")


@pytest.fixture
def mig_host(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    monkeypatch.setenv("MINIRUN_SIM", "mig=3")
    return pretend(inventory("simulated", store), tmp_path / "host")
