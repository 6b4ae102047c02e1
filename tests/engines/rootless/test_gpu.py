"""A real driver's GPUs for a user without root: nodes and files are bound, no device rule is made.

In the pretend host of the recorded cases (gpu.pretend), whose device nodes exist and have no driver
behind them: a process that may open one gets ENXIO, and not EPERM.
"""

import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines.rootless.conftest import UID, User
from gpu.conftest import driver, store  # noqa: F401  (fixtures)
from gpu.pretend import ROOT, Host
from gpu.sandbox import debian_root
from minirun.core.rootfs import nodes

HOOK = "nvidia-container-runtime-hook"
SCRIPT = (
    "ls /dev/ | grep nvidia; readlink -f /usr/lib/x86_64-linux-gnu/libcuda.so.1;"
    " ls /proc/driver/nvidia/gpus; cat /dev/nvidia1; id -u; cat /proc/self/uid_map"
)


@pytest.fixture
def host(driver: Path) -> Iterator[Host]:  # noqa: F811
    """The host, in a directory that the user may enter."""
    with tempfile.TemporaryDirectory(prefix="minirun-rootless-gpu-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        found = Host(driver, place, debian_root(place / "root"), {})
        for each in (place / "root", *(place / "root").rglob("*")):
            os.chown(each, UID, UID, follow_symlinks=False)
        yield found


def run() -> dict[str, Any]:
    """Run a bundle that asks for GPU 1, as the user, in the pretend host."""
    kinds = ("pid", "mount", "ipc", "uts", "user")
    row = [{"containerID": 0, "hostID": UID, "size": 1}]
    process = {
        "args": ["/bin/busybox", "sh", "-c", SCRIPT], "cwd": "/", "user": {"uid": 0, "gid": 0},
        "env": ["PATH=/usr/bin:/bin", "NVIDIA_VISIBLE_DEVICES=1"],
    }  # fmt: skip
    config = {
        "ociVersion": "1.2.0", "root": {"path": ROOT}, "process": process,
        "mounts": [{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}],
        "hooks": {"prestart": [{"path": f"/usr/bin/{HOOK}", "args": [HOOK, "prestart"]}]},
        "linux": {
            "namespaces": [{"type": kind} for kind in kinds],
            "uidMappings": row, "gidMappings": row,
        },
    }  # fmt: skip
    for path, major, minor in nodes.DEVICES:
        if not os.path.exists(path):
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    for name in ("bundle", "state"):
        os.mkdir(f"/mnt/{name}")
        os.chown(f"/mnt/{name}", UID, UID)
    Path("/mnt/bundle/config.json").write_text(json.dumps(config))
    ids = ("--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--inh-caps=-all")
    words = ("/usr/local/bin/minirun", "--root", "/mnt/state", "--store", "/mnt/state/store")
    done = subprocess.run(
        ["setpriv", *ids, *words, "run", "--bundle", "/mnt/bundle", f"rootless-{os.getpid()}"],
        capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
    )  # fmt: skip
    return {"rc": done.returncode, "out": done.stdout.splitlines(), "err": done.stderr}


def test_the_hosts_nodes_are_bound(host: Host) -> None:
    found = host.run(run)
    assert found["out"][:4] == ["nvidia-uvm", "nvidia-uvm-tools", "nvidia1", "nvidiactl"], found
    assert found["out"][4].startswith("/usr/lib/x86_64-linux-gnu/libcuda.so.")
    assert found["out"][5] == "0000:0f:00.0"
    assert [" ".join(line.split()) for line in found["out"][6:]] == ["0", f"0 {UID} 1"]
    assert "cat: can't open '/dev/nvidia1': No such device or address" in found["err"]


def test_a_spec_of_simulated_gpus_is_of_the_users_own_store(user: User) -> None:
    """Root's store is closed to the user; MINIRUN_STORE, as --store, names another."""
    other = user.home / "other"
    user.env["MINIRUN_SIM"] = "count=2"
    for place in (user.root.parent, other):
        done = user("nvidia-ctk", "cdi", "generate", "--format=json")
        assert done.returncode == 0, done.stderr
        spec = json.loads(done.stdout)
        assert {"0", "1", "all"} <= {device["name"] for device in spec["devices"]}
        mounts = spec["containerEdits"]["mounts"]
        assert {each["hostPath"].partition("/drivers/")[0] for each in mounts} == {str(place)}
        user.env["MINIRUN_STORE"] = str(other)


def test_an_engine_of_the_users_has_simulated_gpus_of_the_users_own_store(user: User) -> None:
    """nvidia-container-runtime writes the edits into config.json, and hands over to another."""
    bundle = user.bundle("true")
    (bundle / "config.toml").write_text('[nvidia-container-runtime]\nruntimes = ["/bin/true"]\n')
    path = bundle / "config.json"
    config = json.loads(path.read_text())
    config["process"]["env"].append("NVIDIA_VISIBLE_DEVICES=0")
    path.write_text(json.dumps(config))
    user.env |= {"MINIRUN_SIM": "count=2", "NVIDIA_CTK_CONFIG_FILE_PATH": f"{bundle}/config.toml"}
    done = user("nvidia-container-runtime", "create", "--bundle", str(bundle), "x")
    assert done.returncode == 0, done.stderr
    sources = [each.get("source", "") for each in json.loads(path.read_text())["mounts"]]
    assert any(each.startswith(f"{user.root.parent}/drivers/simulated-") for each in sources)


@pytest.mark.parametrize("below", ["", "/driver"])
@pytest.mark.parametrize("words", [("run", "--gpus", "0"), ("gpu", "list")])
def test_a_driver_root_in_a_folder_that_is_closed(
    user: User, words: tuple[str, ...], below: str
) -> None:
    """It may be there: the user cannot know."""
    closed = user.home / "closed"
    closed.mkdir(mode=0o700)
    image = ("busybox", "true") if words[0] == "run" else ()
    done = user(*words, "--driver-root", f"{closed}{below}", *image)
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert f" {closed}{below}: permission denied (" in done.stderr
