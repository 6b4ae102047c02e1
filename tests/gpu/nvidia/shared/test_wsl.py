"""WSL2 on the pretend host: the driver of Windows behind /dev/dxg, found by libdxcore."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from gpu import pretend
from gpu.nvidia import toolhost
from gpu.nvidia.toolkit_cases import document
from gpu.pretend import ROOT, Host, cli
from gpu.sandbox import debian_root
from gpu.test_driver_root import run
from minirun.core.kernel import mounts
from minirun.gpu.nvidia.shared import wsl
from minirun.gpu.simulated import elf

LIBRARIES, STORE = "/usr/lib/wsl/lib", "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1"
FIXED = ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-encode.so.1", "libnvcuvid.so.1")
MORE = ("libnvwgf2umx.so", "nvngx.bin", "nvd3dum.dll")
INSIDE = "/usr/lib/x86_64-linux-gnu"
ENV = {"PRETEND_FAIL": "minor:3"}
"""There are no minors to ask for: NVML says "not supported"."""


def as_wsl(driver: Path) -> None:
    """Make of the files of a Linux driver those that Windows mounts."""
    nvml = next((driver / "usr/lib/x86_64-linux-gnu").glob("libnvidia-ml.so.*.*"))
    fixed, store = driver / LIBRARIES[1:], driver / STORE[1:]
    for folder in (fixed, store):
        folder.mkdir(parents=True)
    names = [(fixed, name) for name in FIXED] + [
        (store, name) for name in (*wsl.STORE_FILES, *MORE)
    ]
    for folder, name in names:
        soname = "libcuda.so.1" if name == "libcuda.so.1.1" else name
        data = elf.shared_object(soname, "x86_64", ("libc.so.6",), "Windows' own")
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o755)
    for folder in (fixed, store):
        shutil.copy(nvml, folder / "libnvidia-ml.so.1")
    code = Path(__file__).parents[2] / "pretend_dxcore.c"
    words = ("-shared", "-fPIC", "-o", str(fixed / "libdxcore.so"), str(code))
    subprocess.run(["gcc", *words], check=True)
    for name in ("x86_64-linux-gnu", "i386-linux-gnu", "firmware"):
        shutil.rmtree(driver / "usr/lib" / name)
    for path in (driver / "usr/bin").iterdir():
        path.unlink()
    shutil.rmtree(driver / "run")
    (driver / "run").mkdir()
    (driver / "etc").mkdir(exist_ok=True)
    (driver / "etc/ld.so.conf").write_text(f"{LIBRARIES}\n")
    subprocess.run(["/sbin/ldconfig", "-r", str(driver)], check=True, capture_output=True)


def as_its_kernel() -> None:
    """No module of NVIDIA's, and one node; as the container sees it too."""
    for top in ("", ROOT):
        mounts.umount2(f"{top}/proc/driver", mounts.MNT_DETACH)
    for path in Path("/dev").glob("nvidia*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    os.mknod("/dev/dxg", 0o020666, os.makedev(10, 125))
    os.chmod("/dev/dxg", 0o666)


@pytest.fixture
def host(driver: Path, tmp_path: Path) -> Host:
    found = Host(driver, tmp_path, debian_root(tmp_path / "root"), {})
    found._cache = as_wsl  # type: ignore[method-assign]
    found.change = as_its_kernel
    return found


def test_info_and_list(host: Host) -> None:
    def task() -> dict[str, Any]:
        return {name: cli(name, env=ENV) for name in ("info", "list")}

    done = host.run(task)
    assert done["info"]["rc"] == 0, done["info"]["stderr"]
    lines = done["info"]["stdout"].splitlines()
    assert lines[0].split() == ["NVRM", "version:", "550.163.01"]
    assert sum(line.startswith("GPU UUID:") for line in lines) == 4
    listed = done["list"]["stdout"].splitlines()
    assert listed[:2] == ["/dev/dxg", f"{STORE}/nvidia-smi"]
    assert set(listed[2:]) == {f"{LIBRARIES}/{name}" for name in (*FIXED, "libdxcore.so")}


def test_configure(host: Host) -> None:
    words = ("--ldconfig=@/sbin/ldconfig", "--no-cgroups", "--device=all", "--load-kmods")

    def task() -> dict[str, Any]:
        pid = pretend.sleeper()
        flags = ("--compute", "--utility", "--graphics", *words[:3])
        done = cli(words[3], "configure", f"--pid={pid}", *flags, ROOT, env=ENV)
        pretend.end(pid)
        rows = [row["at"] for row in pretend.mount_rows()]
        return {"done": done, "rows": rows, "link": os.readlink(f"{ROOT}{INSIDE}/libcuda.so")}

    found = host.run(task)
    assert found["done"] == {"rc": 0, "stdout": "", "stderr": ""}
    rows = found["rows"][found["rows"].index("/usr/bin/nvidia-smi") :]
    at = rows.index("/dev/dxg")
    names = ("libcuda.so.1", "libdxcore.so", "libnvidia-ml.so.1")
    assert set(rows[1:at]) == {f"{INSIDE}/{name}" for name in names}
    assert rows[at + 1 :] == [f"{STORE}/{name}" for name in wsl.STORE_FILES]
    assert found["link"] == "libcuda.so.1"
    assert not [row for row in found["rows"] if "/proc/driver" in row or "profile" in row]


def test_in_line(minirun: Program, host: Host) -> None:
    found = host.run(lambda: run(minirun, **ENV))
    assert f"{INSIDE}/libcuda.so.1" in found["out"] and "/usr/bin/nvidia-smi" in found["out"], found
    opened = [event["args"] for event in found["events"] if event["name"] == "open_tree"]
    assert f"{STORE}/libcuda_loader.so" in {row.get("source") for row in opened}
    assert not [event for event in found["events"] if event["name"] == "kernel modules"]


@pytest.mark.parametrize("mode", ["wsl", "auto"])
def test_a_cdi_spec(host: Host, mode: str) -> None:
    words = ("nvidia-ctk", "cdi", "generate", f"--mode={mode}", "--format=json")
    done = host.run(lambda: toolhost.run(*words, "--nvidia-cdi-hook-path=/x/nvidia-cdi-hook"))
    assert done["rc"] == 0, done["stderr"]
    assert ("Auto-detected mode as 'wsl'" in done["stderr"]) == (mode == "auto")
    assert f"Using WSL driver store path: {STORE}" in done["stderr"]
    spec = json.loads(done["stdout"])
    (device,) = spec["devices"]
    node = {"path": "/dev/dxg", "major": 10, "minor": 125, "fileMode": 0o666, "permissions": "rwm"}
    assert (device["name"], device["containerEdits"]["deviceNodes"]) == ("all", [node])
    edits = spec["containerEdits"]
    assert edits["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    files = [f"{STORE}/{name}" for name in (*wsl.STORE_FILES, *MORE)]
    assert {row["hostPath"] for row in edits["mounts"]} == {*files, f"{LIBRARIES}/libdxcore.so"}
    assert all(row["hostPath"] == row["containerPath"] for row in edits["mounts"])
    assert [row["args"][1:] for row in edits["hooks"]] == [
        ["create-symlinks", "--link", f"{STORE}/nvidia-smi::/usr/bin/nvidia-smi"],
        ["update-ldcache", "--folder", STORE, "--folder", LIBRARIES],
    ]


def test_an_adapter_of_another_maker(host: Host) -> None:
    host.change = lambda: (as_its_kernel(), mounts.mount("tmpfs", STORE, "tmpfs"))[1]
    done = host.run(lambda: cli("info", env=ENV))
    text = "nvidia-container-cli: initialization error: no NVIDIA adapter behind /dev/dxg\n"
    assert (done["rc"], done["stderr"]) == (1, text)


def test_the_runtime_in_mode_auto(host: Host) -> None:
    asked = document({"NVIDIA_VISIBLE_DEVICES": "all"})
    toml = (
        'nvidia-container-runtime.mode = "auto"\nminirun.toolkit-version = "1.20"\n'
        'nvidia-ctk.path = "/usr/bin/nvidia-ctk"\n'
    )
    done = host.run(lambda: toolhost.create(asked, toml, ENV))
    assert (done["rc"], done["called"]) == (0, f"create --bundle {toolhost.BUNDLE} c1"), done
    paths = [row["path"] for row in done["config"]["linux"]["devices"]]
    assert paths == ["/dev/dxg"]
    assert f"{STORE}/nvidia-smi" in {row["destination"] for row in done["config"]["mounts"]}
