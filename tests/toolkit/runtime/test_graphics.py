"""Mode legacy with graphics: what the real runtime adds next to the hook (auto in 1.17)."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from conftest import STORE
from gpu.nvidia.toolkit_cases import document
from gpu.recorded import DATA
from minirun.gpu.nvidia.shared import config
from minirun.gpu.nvidia.shared.log import ToolkitLog
from minirun.toolkit.runtime import wrapper

BUS = ("0000:07:00.0", "0000:0f:00.0", "0000:47:00.0", "0000:4e:00.0")
FOLDERS = ("/usr/share/", "/etc/", "/usr/lib/xorg/", "/usr/lib/x86_64-linux-gnu/")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A driver root with the files of the golden host, its GPUs and their nodes below /dev/dri."""
    manifest = json.loads((DATA / "host-manifest.json").read_text())
    for entry in manifest["entries"]:
        path = tmp_path / entry["path"].lstrip("/")
        if not entry["path"].startswith(FOLDERS) or entry["kind"] == "dir":
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry["kind"] == "symlink":
            path.symlink_to(entry["target"])
        else:
            path.touch()
    (tmp_path / "dev/dri/by-path").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: 550.163.01\n")
    for number, bus in enumerate(BUS):
        add_gpu(tmp_path, number, bus)
    return tmp_path


def add_gpu(root: Path, number: int, bus: str) -> None:
    folder = root / "proc/driver/nvidia/gpus" / bus
    folder.mkdir(parents=True)
    uuid = f"GPU-aaaaaaaa-0000-4000-8000-{number:012}"
    lines = f"GPU UUID: {uuid}\nBus Location: {bus}\nDevice Minor: {number}\n"
    (folder / "information").write_text(lines)
    for name, minor, kind in ((f"card{number + 1}", number + 1, "card"),
                              (f"renderD{128 + number}", 128 + number, "render")):  # fmt: skip
        os.mknod(root / "dev/dri" / name, 0o660 | stat.S_IFCHR, os.makedev(226, minor))
        (root / f"dev/dri/by-path/pci-{bus}-{kind}").symlink_to(f"../{name}")


def modified(
    env: dict[str, str], root: Path, version: str = "1.20", more: str = ""
) -> dict[str, Any]:
    """What the wrapper makes of a config.json; the driver root taken off the sources."""
    toolkit = config.parse(
        f'nvidia-container-cli.root = "{root}"\nnvidia-container-runtime.mode = "legacy"\n'
        'nvidia-container-runtime-hook.path = "/usr/bin/nvidia-container-runtime-hook"\n'
        'nvidia-ctk.path = "/usr/bin/nvidia-ctk"\n'
        f'minirun.toolkit-version = "{version}"\n{more}',
        "config.toml",
    )
    found = document(env)
    assert wrapper.modify(found, toolkit, ToolkitLog("error"), STORE)
    for row in found["mounts"]:
        row["source"] = row["source"].removeprefix(str(root))
    return found


def test_the_version_decides_how(host: Path) -> None:
    """All of 1.17's: tests/gpu/nvidia/test_golden_toolkit.py."""
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_DRIVER_CAPABILITIES": "graphics"}
    old, new = modified(env, host, "1.17"), modified(env, host, "1.20")
    assert {tuple(row["options"][3:]) for row in old["mounts"][1:]} == {("bind",)}
    assert {tuple(row["options"][3:]) for row in new["mounts"][1:]} == {("rbind", "rprivate")}
    icd = "/etc/OpenCL/vendors/nvidia.icd"
    assert [icd in [row["destination"] for row in found["mounts"]] for found in (old, new)] == [
        False,
        True,
    ]
    assert all("fileMode" not in row for row in old["linux"]["devices"])
    assert all("fileMode" in row for row in new["linux"]["devices"])


@pytest.mark.parametrize("visible", ("2", "0000:47:00.0", "0:47:0.0", "00000000:47:00.0"))
def test_the_nodes_of_a_gpu_by_index_or_pci_id(host: Path, visible: str) -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": visible, "NVIDIA_DRIVER_CAPABILITIES": "graphics"}
    nodes = [row["path"] for row in modified(env, host)["linux"]["devices"]]
    assert nodes == ["/dev/dri/card3", "/dev/dri/renderD130"]


def test_compute_alone_gets_the_hook_and_no_more(host: Path) -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_DRIVER_CAPABILITIES": "compute"}
    found = modified(env, host)
    assert len(found["hooks"]["prestart"]) == 1 and "createContainer" not in found["hooks"]
    assert found["mounts"] == document(env)["mounts"]


def test_a_wrong_request_is_left_to_the_hook(host: Path) -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "0", "NVIDIA_DRIVER_CAPABILITIES": "graphics,nonsense"}
    assert list(modified(env, host)["hooks"]) == ["prestart"]


def test_a_host_without_such_files_adds_nothing(tmp_path: Path) -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
    found = modified(env, tmp_path)
    assert found["mounts"] == document(env)["mounts"] and "devices" not in found["linux"]


@pytest.mark.parametrize(
    ("name", "nodes"),
    (
        ("NVIDIA_GDRCOPY", ["/dev/gdrdrv"]),
        ("NVIDIA_GDS", ["/dev/nvidia-fs0"]),
        ("NVIDIA_MOFED", ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"]),
        ("NVIDIA_NVSWITCH", ["/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitchctl"]),
        ("NVIDIA_OTHER", []),
    ),
)
def test_what_stands_beside_gpus_comes_with_gpus_alone(
    host: Path, name: str, nodes: list[str]
) -> None:
    for path in nodes:
        (host / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(f"{host}{path}", 0o666 | stat.S_IFCHR, os.makedev(230, 1))
    for visible, value in (("0", "enabled"), ("void", "enabled"), ("0", "true")):
        env = {"NVIDIA_VISIBLE_DEVICES": visible, name: value}
        found = modified(env, host)["linux"].get("devices", [])
        wanted = nodes if (visible, value) == ("0", "enabled") else []
        assert sorted(row["path"] for row in found) == wanted


def test_hooks_may_look_after_the_libraries_of_the_image(host: Path) -> None:
    more = 'nvidia-container-runtime.modes.legacy.cuda-compat-mode = "hook"\n'
    env = {"NVIDIA_VISIBLE_DEVICES": "0"}
    rows = modified(env, host, more=more)["hooks"]["createContainer"]
    assert [row["args"][2:] for row in rows] == [
        ["enable-cuda-compat", "--host-driver-version=550.163.01"],
        ["update-ldcache"],
    ]
    off = more + "features.disable-cuda-compat-lib-hook = true\n"
    assert "createContainer" not in modified(env, host, more=off)["hooks"]
    assert "createContainer" not in modified({}, host, more=more)["hooks"]


def test_files_come_where_mounts_or_privileges_ask_for_gpus(host: Path) -> None:
    env = {"NVIDIA_DRIVER_CAPABILITIES": "graphics", "NVIDIA_VISIBLE_DEVICES": "0"}
    more = "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"
    assert "devices" not in modified(env, host, more=more)["linux"]
