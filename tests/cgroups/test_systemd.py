"""--systemd-cgroup with a real systemd, PID 1 of a sealed cell, on both versions of cgroups."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import minirun.cgroups.systemd as systemd
from cgroups.conftest import require_mounted
from cgroups.systemd_cell import DBUS, SYSTEMD, SystemdCell
from conftest import STORE, Program, wait_until
from layers import layer_of
from minirun.core.errors import MinirunError
from minirun.gpu import simulated
from required import installed, skip

MINIRUN = f"{Path(sys.executable).with_name('minirun')} --root /run/mr"
SCOPE = "cell-one.scope"
PLACE = f"/machine.slice/machine-test.slice/{SCOPE}"
RESOURCES = {
    "devices": [{"allow": False, "access": "rwm"}], "pids": {"limit": 50},
    "memory": {"limit": 1 << 25}, "cpu": {"shares": 512, "quota": 50_500, "period": 100_000},
}  # fmt: skip


@pytest.fixture(scope="module", params=["v1", "v2"])
def cell(request: pytest.FixtureRequest) -> Iterator[SystemdCell]:
    require_mounted(request.param)
    if os.geteuid() != 0:
        skip("namespaces and cgroups need root")
    installed("systemd", os.path.dirname(SYSTEMD))
    version = subprocess.run([SYSTEMD, "--version"], capture_output=True, text=True, check=True)
    if request.param == "v1" and int(version.stdout.split()[1]) >= 258:
        pytest.skip("systemd knows cgroup2 alone from version 258 on")
    cell = SystemdCell(request.param)
    yield cell
    cell.close()


@pytest.fixture
def bundle(cell: SystemdCell) -> Iterator[dict[str, Any]]:
    """A bundle in the cell's /run/b for a container `one`, which is gone after the test."""
    layer = layer_of("busybox")
    cell.sh(f"systemctl stop {SCOPE} 2>/dev/null || true")  # of a test that has failed
    cell.sh(f"rm -rf /run/b; mkdir /run/b; cp -a {layer} /run/b/rootfs")
    config = json.loads(cell.sh(f"{MINIRUN} spec -b /run/b >/dev/null; cat /run/b/config.json"))
    config["process"] |= {"terminal": False, "args": ["sleep", "600"]}
    config["linux"]["cgroupsPath"] = "machine-test.slice:cell:one"
    limits = RESOURCES if cell.version == "v1" else {"devices": RESOURCES["devices"]}
    config["linux"]["resources"] = limits
    write(cell, config)
    yield config
    cell.wait()  # it may still be busy with a reload
    deleted = cell(*f"{MINIRUN} delete --force one".split())
    assert (deleted.returncode, deleted.stderr) == (0, ""), cell.said()
    assert cell.sh("systemctl list-units --all --plain --no-legend 'cell-*' 'minirun-*'") == ""
    assert cell.sh("find /sys/fs/cgroup -name 'cell-*' -o -name 'minirun-*'") == ""
    cell.sh("rm -rf /run/b")


def write(cell: SystemdCell, config: dict[str, Any]) -> None:
    subprocess.run(
        ["nsenter", f"--target={cell.pid}", "--mount", "tee", "/run/b/config.json"],
        input=json.dumps(config).encode(), stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip


def create(
    cell: SystemdCell, name: str = "one", also: str = ""
) -> subprocess.CompletedProcess[str]:
    """Create a container; its init's output would hold a pipe open, so none is handed to it."""
    flags = f"--systemd-cgroup create -b /run/b --pid-file /run/pid {also} {name}"
    script = f"{MINIRUN} {flags} > /run/said 2>&1 || {{ cat /run/said >&2; exit 1; }}"
    return cell("sh", "-c", script)


def shown(cell: SystemdCell, unit: str = SCOPE) -> dict[str, str]:
    """What systemd knows of a unit; DeviceAllow's lines joined."""
    found: dict[str, str] = {}
    for line in cell.sh(f"systemctl show {unit}").splitlines():
        name, _, value = line.partition("=")
        found[name] = f"{found[name]};{value}" if name in found else value
    return found


def joined(cell: SystemdCell) -> dict[str, str]:
    """Controller to cgroup of the container's init, as the cell sees it."""
    rows = [line.split(":") for line in cell.sh("cat /proc/$(cat /run/pid)/cgroup").splitlines()]
    return {names: path for _, names, path in rows if not path.startswith("/..")}


def file(cell: SystemdCell, name: str) -> str:
    controller = "/" + name.partition(".")[0] if cell.version == "v1" else ""
    return cell.sh(f"cat /sys/fs/cgroup{controller}{PLACE}/{name}").strip()


def test_the_container_is_a_scope_in_its_slice(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    assert create(cell).returncode == 0
    cell.sh(f"{MINIRUN} start one")
    unit = shown(cell)
    assert unit["ActiveState"] == "active"
    assert (unit["Slice"], unit["ControlGroup"]) == ("machine-test.slice", PLACE)
    assert (unit["Delegate"], unit["DefaultDependencies"]) == ("yes", "no")
    groups = joined(cell)
    assert {"", "devices", "name=systemd"} <= set(groups) or set(groups) == {""}
    assert set(groups.values()) == {PLACE}
    assert (
        cell.sh(f"{MINIRUN} ps --format json one | tr -d '[]\\n '")
        == cell.sh("cat /run/pid").strip()
    )
    state = json.loads(cell.sh("cat /run/mr/one/state.json"))
    assert (state["cgroup"]["slice"], state["cgroup"]["scope"]) == ("machine-test.slice", SCOPE)
    cell.sh(f"{MINIRUN} kill one KILL; {MINIRUN} pause one 2>/dev/null || true")
    wait_until(lambda: '"stopped"' in cell.sh(f"{MINIRUN} state one"))
    cell.sh(f"{MINIRUN} delete one")  # without --systemd-cgroup, as podman calls it


def test_limits_are_told_and_written(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    if cell.version == "v2":
        pytest.skip("cgroup2 of this machine has no controllers: version 1 has them")
    assert create(cell).returncode == 0
    unit = shown(cell)
    assert (unit["MemoryLimit"], unit["TasksMax"]) == (str(1 << 25), "50")
    assert (unit["CPUShares"], unit["CPUQuotaPerSecUSec"]) == ("512", "510ms")
    assert file(cell, "memory.limit_in_bytes") == str(1 << 25)
    assert file(cell, "cpu.cfs_quota_us") == "50500"  # exact, where systemd rounds
    cell.sh(f"{MINIRUN} update --pids-limit 33 --memory 64m one")
    for reload in ("true", "systemctl daemon-reload"):
        cell.sh(reload)
        unit = shown(cell)
        assert (unit["MemoryLimit"], unit["TasksMax"]) == (str(1 << 26), "33")
        quotas = ("50500",) if reload == "true" else ("51000", "50500")  # not all write it anew
        assert file(cell, "cpu.cfs_quota_us") in quotas
        assert (file(cell, "memory.limit_in_bytes"), file(cell, "pids.max")) == (str(1 << 26), "33")
        assert set(joined(cell).values()) == {PLACE}


def test_devices_stay_after_a_daemon_reload(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    """Elsewhere a reload takes GPUs away, since systemd was not told what a hook has allowed."""
    simulated.inventory(STORE)  # its files are made out here: the store is read-only in there
    args = "--systemd-cgroup run -d --name one --gpus 0 --gpu-driver=simulated busybox sleep 600"
    cell.sh(f"{MINIRUN} {args} > /run/said 2>&1 || {{ cat /run/said; false; }}")
    unit = json.loads(cell.sh("cat /run/mr/.names/one/state.json"))["cgroup"]["scope"]
    assert re.fullmatch(r"minirun-[0-9a-f]{64}\.[0-9a-f]{8}\.scope", unit)
    assert "/dev/char/195:0 rw" in shown(cell, unit)["DeviceAllow"]
    kmsg = "mknod /tmp/k c 1 11; : < /tmp/k"  # any node may be made, not any opened
    for reload in ("true", "systemctl daemon-reload"):
        cell.sh(reload)
        assert shown(cell, unit)["DevicePolicy"] == "strict"
        scripts = (": < /dev/nvidia0", ": < /dev/null", f"rm -f /tmp/k; {kmsg}")
        argv = f"{MINIRUN} exec one sh -c".split()
        said = [cell(*argv, script).stderr.strip() for script in scripts]
        assert said[0].endswith("No such device or address")  # ENXIO: allowed, and SIMULATED
        assert said[1] == ""
        assert said[2].endswith("/tmp/k: Operation not permitted")


def test_a_unit_that_exists_is_refused(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    run = f"systemd-run --quiet --scope --slice=machine-test.slice --unit={SCOPE} sleep 600"
    cell.sh(
        f"{run} >/dev/null 2>&1 & until systemctl is-active --quiet {SCOPE}; do sleep 0.05; done"
    )
    refused = create(cell)
    assert refused.returncode == 1
    assert f"systemd: the unit {SCOPE} exists already" in refused.stderr
    assert shown(cell)["ActiveState"] == "active"  # a stranger's, and left alone
    cell.sh(f"systemctl stop {SCOPE}")
    assert create(cell).returncode == 0


def test_a_create_that_fails_leaves_nothing(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    bundle["hooks"] = {"prestart": [{"path": "/bin/false"}]}
    write(cell, bundle)
    assert create(cell).returncode == 1
    assert cell.sh("find /sys/fs/cgroup -name 'cell-*'; ls /run/mr") == ""
    assert "minirun:holder" not in cell.sh("ps -e -o comm=")


def test_a_runtime_that_is_killed_is_cleaned_up_after(
    cell: SystemdCell, bundle: dict[str, Any]
) -> None:
    bundle["hooks"] = {"prestart": [{"path": "/bin/sh", "args": ["sh", "-c", "kill -9 $PPID"]}]}
    write(cell, bundle)
    assert create(cell).returncode != 0
    cell.sh(f"{MINIRUN} delete --force one")
    assert cell("systemctl", "status", SCOPE).returncode == 4  # no such unit


def test_a_wrong_path_is_refused(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    bundle["linux"]["cgroupsPath"] = "/minirun/one"
    write(cell, bundle)
    refused = create(cell)
    assert refused.returncode == 1
    assert "with --systemd-cgroup it is slice:prefix:name" in refused.stderr
    assert cell.sh("ls /run/mr") == ""


def test_exec_joins_the_scope(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    assert create(cell).returncode == 0
    cell.sh(
        f"{MINIRUN} start one; {MINIRUN} exec --pid-file /run/pid -d one sleep 600 >/dev/null 2>&1"
    )
    assert set(joined(cell).values()) == {PLACE}
    cell.sh(f"{MINIRUN} pause one; {MINIRUN} resume one")


def test_all_devices_may_be_used_in_any_slice(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    """podman run --privileged: a program that systemd left attached would still deny them."""
    bundle["linux"]["resources"] = {"devices": [{"allow": True, "access": "rwm"}]}
    write(cell, bundle)
    created = create(cell)
    assert created.returncode == 0, created.stderr
    cell.sh(f"{MINIRUN} start one")
    opened = "mknod /dev/k c 250 99; : < /dev/k"
    said = cell(*f"{MINIRUN} exec --cap CAP_MKNOD one sh -c".split(), opened).stderr.strip()
    assert said.endswith("No such device or address")  # ENXIO: allowed, and nothing is there
    assert shown(cell)["DevicePolicy"] == ("strict" if cell.version == "v1" else "auto")


def test_sigkill_ends_what_is_paused(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    """podman rm --force; on version 2 systemd removes the cgroup as soon as nothing is in it."""
    assert create(cell).returncode == 0
    cell.sh(f"{MINIRUN} start one; {MINIRUN} pause one; {MINIRUN} kill one KILL")
    wait_until(lambda: '"stopped"' in cell.sh(f"{MINIRUN} state one"))


def test_over_the_system_bus(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    """From here on the cell has a dbus-daemon."""
    installed("dbus-daemon")
    cell.sh(DBUS)
    cell.sh("mv /run/systemd/private /run/systemd/hidden")  # so that it cannot be that one
    try:
        assert create(cell).returncode == 0
        cell.sh(f"{MINIRUN} delete --force one")
    finally:
        cell.sh("mv /run/systemd/hidden /run/systemd/private")


def test_podman_with_its_systemd_manager(cell: SystemdCell, bundle: dict[str, Any]) -> None:
    """What podman does where nobody has configured it; it asks over the bus of the test above."""
    installed("podman")
    cell.sh(f"""{DBUS}
        printf '#!/bin/sh\nexec {MINIRUN} "$@"\n' > /run/minirun; chmod +x /run/minirun
        mkdir -p /run/b/rootfs/proc /run/b/rootfs/sys /run/b/rootfs/dev /run/b/rootfs/etc""")
    podman = "podman --cgroup-manager systemd --runtime /run/minirun --storage-driver vfs"
    limits = "--pids-limit 40" if cell.version == "v1" else "--pids-limit 0"
    run = f"run -d --name p --network none {limits} --rootfs /run/b/rootfs sleep 600"
    cell.sh(f"{podman} {run} > /run/said 2>&1")
    cell.sh(f"{podman} inspect p --format '{{{{.State.Pid}}}}' > /run/pid")
    (place,) = set(joined(cell).values())
    assert re.fullmatch(r"/machine\.slice/libpod-[0-9a-f]{64}\.scope", place)
    unit = place.rpartition("/")[2]
    assert (shown(cell, unit)["TasksMax"] == "40") is (cell.version == "v1")
    cell.sh(f"{podman} pause p; {podman} unpause p; {podman} rm --force --time 0 p")
    assert cell("systemctl", "status", unit).returncode == 4  # no such unit


def test_without_systemd_the_flag_is_refused(minirun: Program) -> None:
    if os.path.isdir(systemd.BOOTED):
        pytest.skip("systemd runs on this machine")
    refused = minirun("--systemd-cgroup", "run", "busybox", "true")
    assert refused.returncode == 125
    assert "--systemd-cgroup: systemd is not running on this host" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not list(minirun.root.glob("*"))


def test_without_jeepney_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "BOOTED", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jeepney", None)
    with pytest.raises(MinirunError, match="jeepney") as caught:
        systemd.check()
    assert caught.value.hint == "make setup, or pip install jeepney"
