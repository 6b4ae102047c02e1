"""Every recorded case of nvidia-container-runtime and of nvidia-ctk cdi, on the same host.

Compared are: exit status and standard error; of the runtime the whole config.json and how it calls
the runtime underneath; of `cdi generate` the whole spec, byte for byte.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu.nvidia import toolhost
from gpu.nvidia.differences import DIFFERENT
from gpu.nvidia.toolhost import without_time
from gpu.nvidia.toolkit_cases import document
from gpu.pretend import Host
from gpu.recorded import recorded_names, recorded_text
from gpu.sandbox import debian_root

RUNTIME = recorded_names("runtime", ".json")
SPECS = recorded_names("cdi", ".json")
HOOK = "--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook"
FLAGS = {
    "dev0": ("--device-id=0",),
    "gdrcopy": ("--mode=gdrcopy",),
    "management": ("--mode=management",),
    "mofed": ("--mode=mofed",),
    "noall": ("--no-all-device",),
    "nvswitch": ("--mode=nvswitch",),
    "typeindex": ("--device-name-strategy=type-index",),
    "vendor": ("--vendor=example.com", "--class=gpu2"),
}
"""Case → the flags that it was recorded with."""


@pytest.fixture
def host(driver: Path, tmp_path: Path) -> Callable[[str], Host]:
    """Make the recorded host; of MIG by the case's name."""

    def make(name: str) -> Host:
        found = Host(driver, tmp_path, debian_root(tmp_path / "root"), {"mig": "mig" in name})
        found.change = toolhost.add_drm
        return found

    return make


def toml(case: dict[str, Any]) -> str:
    version = case["version"].removeprefix("v").rpartition(".")[0]
    return (
        f'minirun.toolkit-version = "{version}"\n'
        f'nvidia-container-runtime.mode = "{case["mode"]}"\n'
        'nvidia-container-runtime-hook.path = "/usr/bin/nvidia-container-runtime-hook"\n'
        'nvidia-ctk.path = "/usr/bin/nvidia-ctk"\n'
    )


def ordered(config: dict[str, Any]) -> dict[str, Any]:
    """1.17's order of the nodes below /dev/dri changes from run to run."""
    linux = config["linux"]
    linux.get("devices", []).sort(key=lambda row: row["path"])
    linux["resources"]["devices"].sort(key=lambda row: (row.get("major", 0), row.get("minor", 0)))
    return config


@pytest.mark.parametrize("name", RUNTIME)
def test_runtime(name: str, host: Callable[[str], Host]) -> None:
    case = json.loads(recorded_text(f"runtime/{name}.json"))
    before = document(case["env"], case["annotations"])
    env = {"PRETEND_MIG": "3"} if "mig" in name else {}
    done = host(name).run(lambda: toolhost.create(before, toml(case), env))
    called = case["low_level_runtime_args"]
    wanted = {
        "rc": case["rc"],
        "stderr": without_time(case["stderr"]),
        "called": called and called.replace("/tmp/rtw/b", toolhost.BUNDLE),
        "config": before | case["changed_sections"],
    }
    found = {key: done[key] for key in wanted} | {"stderr": without_time(done["stderr"])}
    if case["version"].startswith("v1.17"):
        found["config"], wanted["config"] = ordered(found["config"]), ordered(wanted["config"])
    if name in DIFFERENT:
        assert found != wanted and done["rc"] == 1 and done["stderr"].count("\n") == 1
        pytest.xfail(DIFFERENT[name])
    assert found == wanted


@pytest.mark.parametrize("name", SPECS)
def test_cdi_generate(name: str, host: Callable[[str], Host]) -> None:
    words = FLAGS[name.split("-")[1]]
    command = ("nvidia-ctk", "cdi", "generate", "--format=json", HOOK, *words)
    done = host(name).run(lambda: toolhost.run(*command))
    assert without_time(done["stderr"]) == recorded_text(f"cdi/{name}.stderr")
    wanted = json.loads(recorded_text(f"cdi/{name}.json") or "null")
    assert json.loads(done["stdout"] or "null") == wanted
    line = json.dumps(wanted, separators=(",", ":")) if wanted else ""  # as Go's encoder writes it
    assert (done["stdout"], done["rc"]) == (line, 0 if wanted else 1)


def test_cdi_list(host: Callable[[str], Host]) -> None:
    def work() -> dict[str, Any]:
        made = toolhost.run("nvidia-ctk", "cdi", "generate", "--output=/mnt/cdi/nvidia.yaml", HOOK)
        assert made["rc"] == 0, made
        return toolhost.run("nvidia-ctk", "cdi", "list", "--spec-dir=/mnt/cdi")

    done = host("list").run(work)
    lines = [without_time(line) for line in recorded_text("cdi/cdi-list.txt").splitlines()]
    assert without_time(done["stderr"]).splitlines() == lines[:1]
    assert (done["rc"], done["stdout"].splitlines()) == (0, lines[1:])
