"""Spec files of tests, and a pretend host with a driver of which a spec can be made."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpu.sandbox import DATA
from minirun.gpu.drivers import inventory
from minirun.gpu.inventory import Inventory

KIND = "example.com/thing"
EDITS = {"env": ["THING=yes"]}


def spec(*devices: str, kind: str = KIND, **more: Any) -> dict[str, Any]:
    """A spec whose devices have an environment variable each; `more` are its other properties."""
    rows = [{"name": name, "containerEdits": {"env": [f"THING={name}"]}} for name in devices]
    return {"cdiVersion": "0.6.0", "kind": kind, "devices": rows, **more}


def write(folder: Path, name: str, content: Any) -> Path:
    """Write a spec file; YAML by its name."""
    folder.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    if name.endswith("ml") and not isinstance(content, str):
        import yaml

        text = yaml.safe_dump(content)
    (folder / name).write_text(text)
    return folder / name


def recorded(name: str) -> dict[str, Any]:
    """A spec of the real nvidia-ctk."""
    return json.loads((DATA / "cdi" / f"{name}.json").read_text())


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
