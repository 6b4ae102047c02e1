"""--systemd-cgroup without root: a scope of the user's own manager, in the cell of test_systemd."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgroups.conftest import require_mounted
from cgroups.systemd_cell import DBUS, SYSTEMD, SystemdCell
from layers import layer_of
from required import installed, skip

MINIRUN = f"{Path(sys.executable).with_name('minirun')} --root /run/tester/mr"
AS_TESTER = (
    "setpriv --reuid=1234 --regid=1234 --clear-groups env -i PATH=/usr/sbin:/usr/bin"
    " XDG_RUNTIME_DIR=/run/user/1234"
)
MANAGER = f"""
{DBUS}
echo tester:x:1234:1234::/run/tester:/bin/sh >> /etc/passwd
echo tester:x:1234: >> /etc/group
mknod -m 666 /dev/tty c 5 0
mkdir -p /run/tester/b /run/user/1234; cp -a $LAYER /run/tester/b/rootfs
chown -R 1234:1234 /run/tester /run/user/1234; chmod 700 /run/user/1234
cat > /etc/systemd/system/as-tester.service <<X
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
Environment=HOME=/run/tester PATH=/usr/sbin:/usr/bin XDG_RUNTIME_DIR=/run/user/1234
ExecStart=/bin/sh -e /run/tester/script
StandardOutput=file:/run/tester/out
StandardError=inherit
X
systemd-run -q --unit=manager -p User=tester -p Delegate=yes -p Type=notify \\
  -p DefaultDependencies=no -E HOME=/run/tester -E XDG_RUNTIME_DIR=/run/user/1234 \\
  -E PATH=/usr/sbin:/usr/bin \\
  -E SYSTEMD_UNIT_PATH=/run/user/1234/systemd/transient:/etc/systemd/system \\
  -E SYSTEMD_GENERATOR_PATH=/etc/none -E SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/etc/none \\
  {SYSTEMD} --user --unit=cell.target --log-target=console
"""
"""A user's manager, as user@.service has it; commands of a oneshot unit are in its tree."""
CREATE = f"""
cd /run/tester/b
{MINIRUN} --systemd-cgroup create -b . --pid-file pid one > said 2>&1 || {{ cat said; exit 1; }}
{MINIRUN} start one
grep ^0: /proc/$(cat pid)/cgroup
{MINIRUN} exec one grep ^0: /proc/self/cgroup
{MINIRUN} pause one; {MINIRUN} state one | grep status; {MINIRUN} resume one
"""


@pytest.fixture
def cell() -> Iterator[SystemdCell]:
    require_mounted("v2")
    if os.geteuid() != 0:
        skip("namespaces and cgroups need root")
    installed("systemd", os.path.dirname(SYSTEMD))
    cell = SystemdCell("v2")
    cell.sh(MANAGER.replace("$LAYER", str(layer_of("busybox"))))
    yield cell
    cell.close()


def write(cell: SystemdCell, path: str, text: str) -> None:
    subprocess.run(
        ["nsenter", f"--target={cell.pid}", "--mount", "tee", path],
        input=text.encode(), stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip


def bundle(cell: SystemdCell, slice_name: str) -> None:
    """Write a config.json. The cell's /proc has mounts in it: no user may mount another."""
    config = json.loads(cell.sh(f"{MINIRUN} spec --rootless busybox sleep 600"))
    linux = config["linux"]
    for name in ("maskedPaths", "readonlyPaths"):
        del linux[name]
    config["process"]["terminal"] = False
    config["mounts"] = [
        {"destination": "/proc", "type": "none", "source": "/proc", "options": ["rbind"]},
        *(row for row in config["mounts"] if row["destination"] == "/dev"),
    ]
    linux["namespaces"] = [row for row in linux["namespaces"] if row["type"] != "pid"]
    linux["uidMappings"] = linux["gidMappings"] = [{"containerID": 0, "hostID": 1234, "size": 1}]
    linux["cgroupsPath"] = f"{slice_name}:libpod:one"
    config["root"]["path"] = "rootfs"
    write(cell, "/run/tester/b/config.json", json.dumps(config))


@pytest.mark.parametrize("slice_name", ["user.slice", "", "a-b.slice"])
def test_a_users_container_is_a_scope_of_the_users_manager(
    cell: SystemdCell, slice_name: str
) -> None:
    """podman without root asks for that wherever cgroup version 2 is all there is."""
    bundle(cell, slice_name)
    write(cell, "/run/tester/script", CREATE)
    done = cell("sh", "-c", f"{AS_TESTER} systemctl --user start as-tester.service")
    said = cell.sh("cat /run/tester/out")
    assert done.returncode == 0, said
    outside, inside, status = said.splitlines()
    slices = {"a-b.slice": "a.slice/a-b.slice"}.get(slice_name, "user.slice")
    assert outside == f"0::/system.slice/manager.service/{slices}/libpod-one.scope"
    assert inside == "0::/" and '"paused"' in status
    units = f"{AS_TESTER} systemctl --user list-units --all --plain --no-legend libpod-one.scope"
    assert "minirun container libpod-one" in cell.sh(units)
    assert cell.sh(f"{AS_TESTER} {MINIRUN} delete --force one") == ""  # podman's environment
    assert cell.sh(units) == cell.sh("find /sys/fs/cgroup -name 'libpod*'") == ""


FROM_A_LOGIN = f"""
cd /run/tester/b; grep ^0: /proc/self/cgroup
{MINIRUN} --systemd-cgroup create -b . --pid-file pid one > said 2>&1 || {{ cat said; exit 1; }}
{MINIRUN} exec one grep ^0: /proc/self/cgroup
{MINIRUN} start one
grep ^0: /proc/$(cat pid)/cgroup
{MINIRUN} exec one grep ^0: /proc/self/cgroup
mkdir /sys/fs/cgroup$(sed -n s/^0:://p /proc/$(cat pid)/cgroup)/in
{MINIRUN} exec --cgroup in one grep ^0: /proc/self/cgroup
{MINIRUN} pause one; {MINIRUN} state one | grep status; {MINIRUN} resume one
"""


def test_a_caller_in_another_part_of_the_tree(cell: SystemdCell) -> None:
    """Such as a login: above it and the manager's units is root's cgroup, so systemd moves init."""
    installed("dbus-daemon")
    bundle(cell, "user.slice")
    write(cell, "/run/tester/script", FROM_A_LOGIN)
    done = cell("sh", "-c", f"{AS_TESTER} HOME=/run/tester sh -e /run/tester/script")
    assert done.returncode == 0, (done.stdout, done.stderr)
    own, created, outside, inside, below, status = done.stdout.splitlines()
    assert own == "0::/visitors"
    assert outside == "0::/system.slice/manager.service/user.slice/libpod-one.scope"
    assert created == inside == "0::/" and below == "0::/in" and '"paused"' in status
    assert cell.sh(f"{AS_TESTER} {MINIRUN} delete --force one") == ""


def test_without_a_manager_of_the_users(cell: SystemdCell) -> None:
    bundle(cell, "user.slice")
    words = f"{MINIRUN} --systemd-cgroup create -b /run/tester/b two"
    done = cell("sh", "-c", f"{AS_TESTER} XDG_RUNTIME_DIR=/run/missing {words}")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "neither /run/missing/bus nor /run/missing/systemd/private answers" in done.stderr
    assert cell.sh("ls -A /run/tester/mr 2>/dev/null || true") == ""


def test_root_of_a_user_namespace_whose_systemd_is_process_1(cell: SystemdCell) -> None:
    """Such as a container with systemd: it has no manager of a user, and needs none."""
    config = json.loads(cell.sh(f"{MINIRUN} spec --rootless busybox sleep 600"))
    for name in ("maskedPaths", "readonlyPaths"):
        del config["linux"][name]
    config["process"]["terminal"] = False
    config["mounts"] = [{"destination": "/proc", "source": "/proc", "options": ["rbind"]}]
    kept = [row for row in config["linux"]["namespaces"] if row["type"] != "pid"]
    config["linux"]["namespaces"] = kept
    ids = [{"containerID": 0, "hostID": 0, "size": 1}]
    config["linux"] |= {"uidMappings": ids, "gidMappings": ids, "cgroupsPath": ":libpod:three"}
    config["root"]["path"] = "rootfs"
    cell.sh("cp -a /run/tester/b/rootfs /run/rootfs; chown -R 0:0 /run/rootfs")
    write(cell, "/run/config.json", json.dumps(config))
    root = f"{MINIRUN.split()[0]} --root /run/mr"
    script = f"""cd /run; {root} --systemd-cgroup create -b . --pid-file pid three 2>said >&2
        {root} start three; grep ^0: /proc/$(cat pid)/cgroup; {root} delete --force three"""
    done = cell("unshare", "--user", "--map-root-user", "sh", "-ec", script)
    assert done.stdout.endswith("/libpod-three.scope\n"), (done, cell.sh("cat /run/said"))
    assert cell.sh("find /sys/fs/cgroup -name 'libpod*'") == ""
