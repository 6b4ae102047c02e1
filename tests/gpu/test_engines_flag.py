"""`minirun --gpus=1 create`: an engine's configuration says which GPUs, and the bundle does not."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from minirun.core.config import Config
from minirun.core.keeping.choices import Choices
from minirun.gpu.nvidia import hook

HOOK = {"path": "/opt/nvidia-container-runtime-hook", "args": ["hook", "prestart"]}
LIST = ("sh", "-c", "ls /dev | grep 'nvidia[0-9]'; env | grep NVIDIA")
STATE = {"pid": 1, "bundle": "/"}
MOUNTS = "/var/run/nvidia-container-devices"
Maker = Callable[..., str]


@pytest.fixture
def bundle(minirun: Program, layer: Path) -> Maker:
    """Make a bundle with variables, which an image may have set, and hooks."""

    def make(*env: str, hooks: list[dict[str, Any]] | None = None) -> str:
        config = json.loads(minirun("spec", "busybox", *LIST).stdout)
        config["process"]["env"] += env
        config["root"] = {"path": str(layer)}
        if hooks:
            config["hooks"] = {"createRuntime": hooks}
        folder = layer.parent / "bundle"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        return str(folder)

    return make


def run(minirun: Program, folder: str, *flags: str) -> subprocess.CompletedProcess[str]:
    words = ("--gpu-driver=simulated", *flags, "run", "--bundle", folder, f"flag-{os.getpid()}")
    return minirun(*words)


def test_the_flag_counts_more_than_the_variable(minirun: Program, bundle: Maker) -> None:
    asked = ("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility")
    done = run(minirun, bundle(*asked), "--gpus=1,2")
    assert done.stdout.splitlines() == [
        "nvidia1",
        "nvidia2",
        asked[1],
        "NVIDIA_VISIBLE_DEVICES=1,2",
    ]


def test_an_empty_flag_asks_for_nothing(minirun: Program, bundle: Maker) -> None:
    """The variable alone has no hook that reads it."""
    done = run(minirun, bundle("NVIDIA_VISIBLE_DEVICES=all"), "--gpus=")
    assert done.stdout.splitlines() == ["NVIDIA_VISIBLE_DEVICES=all"]


CONFIG = """
swarm-resource = "DOCKER_RESOURCE_GPU"
accept-nvidia-visible-devices-envvar-when-unprivileged = false
accept-nvidia-visible-devices-as-volume-mounts = true
"""


def test_no_other_way_of_the_bundle_counts(
    minirun: Program, bundle: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """config.toml lets a variable of swarm's, and mounts, ask; another variable it does not."""
    (tmp_path / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("NVIDIA_CTK_CONFIG_FILE_PATH", str(tmp_path / "config.toml"))
    folder = bundle("DOCKER_RESOURCE_GPU=0,3")
    path = Path(folder, "config.json")
    config = json.loads(path.read_text())
    config["mounts"].append({"source": "/dev/null", "destination": f"{MOUNTS}/3", "type": "bind",
                             "options": ["bind"]})  # fmt: skip
    path.write_text(json.dumps(config))
    done = run(minirun, folder, "--gpus=1")
    assert done.stdout.split()[:2] == ["nvidia1", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"]


def test_a_hook_that_is_there_is_enough(minirun: Program, bundle: Maker) -> None:
    done = run(minirun, bundle(hooks=[HOOK]), "--gpus=3")
    assert done.stdout.split()[0] == "nvidia3" and "nvidia0" not in done.stdout


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        ("count=2", "--gpus count=2: a count, with a bundle"),
        ("7", "device error: 7: unknown device"),
        ("0;1", "'0;1' is no gpu"),
    ],
)
def test_what_names_no_gpu_is_refused(
    minirun: Program, bundle: Maker, gpus: str, text: str
) -> None:
    done = run(minirun, bundle(), f"--gpus={gpus}")
    assert done.returncode == 1 and text in done.stderr
    assert not minirun("list", "--quiet").stdout.split()


def test_who_asked(minirun: Program, bundle: Maker) -> None:
    name = f"asked-{os.getpid()}"
    words = ("--gpu-driver=simulated", "--gpus=2", "create", "--bundle", bundle(), name)
    null = subprocess.DEVNULL
    subprocess.run(minirun.argv(*words), check=True, stdin=null, stdout=null)
    found = json.loads(minirun("gpu", "why", "--json", name).stdout)
    assert [(row["by"], row["what"]) for row in found["asked"]] == [("engine's flag", "--gpus 2")]
    assert [gpu["index"] for gpu in found["given"]["gpus"]] == ["2"]


def test_the_flag_for_another_vendor_is_none_for_nvidias_hook() -> None:
    """docker's --gpus may have put NVIDIA's hook into a bundle whose GPUs are AMD's."""
    raw = {"root": {"path": "/"}, "process": {"env": []}, "hooks": {"prestart": [HOOK]}}
    asked = {
        driver: hook.in_line(Config(raw, "/", Choices(gpu_driver=driver, gpus="1")), STATE)
        for driver in ("amd", "intel", "simulated")
    }
    assert asked["amd"] is None and asked["intel"] is None
    assert "--device=1" in (asked["simulated"] or [])
