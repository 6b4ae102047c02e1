"""The same request on the same host gives what the real nvidia-container-cli gave.

The host is built from the names of the real one: libraries found through a real ld.so.cache,
nodes that are real nodes. So this is minirun.gpu.real, the planner, the applier and ldconfig
together, compared with recorded results: mounts in order, with flags and sources; nodes; links;
what ldconfig cached.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu.sandbox import Recorder, Sandbox, debian_root, golden, tree
from minirun.gpu import apply, cli_args, inventory, ldcache, ldconfig, nvidia, real, simulated
from minirun.kernel import mounts
from minirun.rootfs.inroot import Root

CASES = (
    "compute-utility-dev0,1", "utility-dev0", "cap-all-compat32-dev0", "cap-all-dev0",
    "cap-compute-dev0", "cap-ngx-dev0", "cap-video-dev0", "nocaps-dev0",
    "fedora-compute-utility-dev0", "uuid-dev2", "dup-dev", "no-gsp-no-ipc",
    "err-driver-version-skew", "minors-permuted-dev0,1", "err-node-missing-uvm",
    "ldconfig-container-missing",
)  # fmt: skip
PROC = "/proc/driver/nvidia"
SANDBOX = ("/proc", "/dev", "/proc/driver")
"""Mounts that a real host's container has too, or that stand for its kernel module."""


@pytest.fixture
def host(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A driver root: the simulated driver's files with what else a real host has."""
    monkeypatch.setenv("MINIRUN_SIM", "mps=1")
    source = inventory.inventory("simulated", store).root
    root = str(tmp_path / "host")
    subprocess.run(["cp", "-a", source, root], check=True)
    for folder in ("etc", "dev"):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    folders = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/i386-linux-gnu")
    Path(f"{root}/etc/ld.so.conf").write_text("\n".join(folders) + "\n")
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True, capture_output=True)
    devices = "Character devices:\n195 nvidia\n508 nvidia-caps\n510 nvidia-uvm\n\nBlock devices:\n"
    Path(f"{root}/proc/devices").write_text(devices)
    nodes = [("nvidiactl", 195, 255), ("nvidia-modeset", 195, 254)]
    nodes += [("nvidia-uvm", 510, 0), ("nvidia-uvm-tools", 510, 1)]
    nodes += [(f"nvidia{minor}", 195, minor) for minor in range(4)]
    for name, major, minor in nodes:
        os.mknod(f"{root}/dev/{name}", 0o020666, os.makedev(major, minor))
        os.chmod(f"{root}/dev/{name}", 0o666)
    return root


def permute(host: str, minors: list[int]) -> None:
    """Give the GPUs of the host other minors, as their /proc entries say it."""
    for gpu, minor in zip(real.proc_gpus(host), minors, strict=True):
        path = Path(f"{host}{PROC}/gpus/{gpu.proc_name}/information")
        path.write_text(path.read_text().replace(f"Minor: \t {gpu.minor}", f"Minor: \t {minor}"))


def inject(box: Sandbox, host: str, case: dict[str, Any]) -> dict[str, Any]:
    """What `nvidia-container-cli configure` does, with the driver below `host`."""

    def work(root: Root) -> dict[str, Any]:
        mounts.mount("tmpfs", f"{box.root}/proc/driver", "tmpfs")  # this kernel has no nvidia there
        os.mkdir(f"{box.root}{PROC}")
        request = cli_args.parse(["configure", *case["configure_args"], box.root])
        found = real.inventory(host)
        fd = ldconfig.open_host(request.ldconfig)
        edits = nvidia.plan(found, request, nvidia.facts(root))
        recorder = Recorder()
        apply.apply(edits, root, None if request.no_cgroups else recorder, fd)
        return {"rules": recorder.rules}

    return box.inside(work)


def expected_tree(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    keep = ("type", "mode", "dev", "target")
    return {
        path: {key: row[key] for key in keep if key in row}
        for path, row in case["diff"]["added"].items()
    }


@pytest.mark.parametrize("name", CASES)
def test_same_result(
    name: str, host: str, tmp_path: Path, sandbox: Callable[[Path], Sandbox]
) -> None:
    case = golden(name)
    permute(host, case["minors"])
    if name == "err-node-missing-uvm":
        os.unlink(f"{host}/dev/nvidia-uvm")
    if name == "err-driver-version-skew":
        version = Path(f"{host}{PROC}/version")
        version.write_text(version.read_text().replace("550.163.01", "560.35.03"))
    root = debian_root(tmp_path / "root")
    if case["rootfs"] == "fedora":
        (root / "etc/debian_version").unlink()
        (root / "usr/lib64").mkdir()
    box = sandbox(root)
    before = tree(box.view())
    outcome = inject(box, host, case)
    assert outcome["error"] == "" and case["rc"] == 0

    added = {path: row for path, row in tree(box.view()).items() if path not in before}
    assert added == expected_tree(case)

    mounted = [row for row in box.mounts() if row["at"] not in SANDBOX]
    flags = [(row["at"], row["flags"]) for row in mounted]
    assert flags == [(row["at"], row["flags"]) for row in case["diff"]["mounts"]]
    for row, wanted in zip(mounted, case["diff"]["mounts"], strict=True):
        if row["type"] != "tmpfs":
            source = wanted["source"].replace("/usr/lib/firmware", "/lib/firmware")
            assert row["from"] == f"{host}{source}"

    cached = box.view("/etc/ld.so.cache")
    entries = ldcache.parse(cached.read_bytes()) if cached.exists() else []
    lines = [
        f"{entry.soname} (libc6{',x86-64' if entry.arch else ''}) => {entry.path}"
        for entry in entries
    ]
    assert sorted(lines) == sorted(case.get("ldcache_added") or [])


def test_the_view_of_proc(host: str, debian: Sandbox) -> None:
    inject(debian, host, golden("compute-utility-dev0,1"))
    view = debian.view(PROC)
    assert sorted(path.name for path in view.iterdir()) == ["gpus", "params", "registry", "version"]
    assert sorted(p.name for p in (view / "gpus").iterdir()) == ["0000:07:00.0", "0000:0f:00.0"]
    assert "ModifyDeviceFiles: 0\n" in (view / "params").read_text()
    assert oct(view.stat().st_mode & 0o777) == oct(0o555)
    assert oct((view / "params").stat().st_mode & 0o777) == oct(0o444)


def test_the_rules_for_the_cgroup(host: str, debian: Sandbox) -> None:
    case = golden("cgroupv1-compute-utility-dev0,1")
    assert inject(debian, host, case)["result"]["rules"] == case["cgroup_v1_added"]


@pytest.mark.parametrize("name", ("err-node-missing-nvidia0", "err-node-wrong-dev"))
def test_a_node_that_is_missing_or_another_device(name: str, host: str, debian: Sandbox) -> None:
    os.unlink(f"{host}/dev/nvidia0")
    if name == "err-node-wrong-dev":
        os.mknod(f"{host}/dev/nvidia0", 0o020666, os.makedev(1, 3))
    case = golden(name)
    text = case["stderr"].removeprefix("nvidia-container-cli: ").strip()
    assert inject(debian, host, case)["error"].startswith(text)


@pytest.mark.parametrize(
    "name", ("mig-dev-3:0", "mig-dev-3-parent-only", "require-ok", "require-or-ok", "utility-dev0")
)
def test_same_result_of_the_simulated_driver(name: str, store: str, debian: Sandbox) -> None:
    case = golden(name)
    before = tree(debian.view())
    options = [word for word in case["configure_args"] if "ldconfig" not in word]
    outcome = debian.configure(*options, store=store, MINIRUN_SIM="mig=3,mps=1")
    assert outcome["error"] == ""
    added = {path: row for path, row in tree(debian.view()).items() if path not in before}
    assert added == expected_tree(case)
    flags = [(row["at"], row["flags"]) for row in debian.mounts()]
    assert [row for row in flags if row[0] not in SANDBOX] == [
        (row["at"], row["flags"])
        for row in case["diff"]["mounts"]
        if not row["at"].startswith("/dev/")
    ]


def test_mig_rules(store: str, debian: Sandbox) -> None:
    case = golden("mig-cgroupv1-3:0")
    outcome = debian.configure("--device=3:0", "--utility", store=store, MINIRUN_SIM="mig=3")
    assert outcome["result"]["rules"] == case["cgroup_v1_added"]
    assert outcome["result"]["edits"]["gpus"][0]["index"] == "3:0"


@pytest.mark.parametrize(
    "name",
    (
        "bad-device-9",
        "mig-dev-3:5-bad",
        "require-arch-fail",
        "require-cuda-fail",
        "require-bad-expr",
    ),
)
def test_same_error(
    name: str, store: str, monkeypatch: pytest.MonkeyPatch, debian: Sandbox
) -> None:
    case = golden(name)
    monkeypatch.setenv("MINIRUN_SIM", "mig=3")
    before = tree(debian.view())
    outcome = debian.configure(*case["configure_args"][1:], store=store)
    text = case["stderr"].removeprefix("nvidia-container-cli: ").strip()
    assert outcome["error"].startswith(text)
    assert tree(debian.view()) == before


@pytest.mark.parametrize(
    ("case", "pick"),
    (
        ("list-libraries", "libraries"),
        ("list-libraries-compat32", "both"),
        ("list-binaries", "binaries"),
        ("list-firmwares", "firmware"),
    ),
)
def test_same_list(case: str, pick: str, host: str, store: str) -> None:
    text = (Path(__file__).parent / "data/cli" / f"{case}.txt").read_text()
    wanted = [line for line in text.splitlines() if line.startswith("/")]
    for found in (real.inventory(host), simulated.inventory(store)):
        files = {
            "libraries": found.libraries,
            "both": found.libraries + found.libraries32,
            "binaries": found.binaries,
            "firmware": found.firmware,
        }[pick]
        assert [file.path for file in files] == wanted
