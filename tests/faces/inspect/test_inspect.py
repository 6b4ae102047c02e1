"""`minirun inspect`: what it says is what the kernel says."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, skip, wait_until

KEYS = {
    "id", "name", "status", "pid", "bundle", "rootfs", "annotations", "created", "ociVersion",
    "owner", "live", "image", "layers", "declared", "args", "exitStatus", "cgroup", "memberOf",
    "namespaces", "user", "capabilities", "seccomp", "noNewPrivileges", "mounts", "devices",
    "deviceRules", "interfaces", "networks",
    "limits", "usage", "hooks", "gpus", "stages", "wanted", "differences",
}  # fmt: skip
WIDE = {"COLUMNS": "80", "LC_ALL": "C.UTF-8"}


def inspect(minirun: Program, name: str) -> dict[str, Any]:
    done = minirun("inspect", "--json", name)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert set(document) == KEYS
    return document


def page(minirun: Program, name: str) -> str:
    done = minirun("inspect", "--text", name, env=WIDE)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


def run(minirun: Program, name: str, *flags: str, image: str = "busybox") -> None:
    done = minirun("run", "-d", "--name", name, *flags, image, "sleep", "100")
    assert done.returncode == 0, done.stderr


def status_field(pid: int, key: str) -> str:
    text = Path(f"/proc/{pid}/status").read_text()
    return next(line for line in text.splitlines() if line.startswith(f"{key}:")).split(":")[1]


def test_a_running_container_is_as_the_kernel_says(minirun_both: Program) -> None:
    minirun = minirun_both
    gpus = ("--gpus", "0,1", "--gpu-driver", "simulated")
    run(minirun, "c", *gpus, "--cap-drop", "MKNOD", image="debian")
    found = inspect(minirun, "c")
    pid = found["pid"]
    for kind, row in found["namespaces"].items():
        name = {"mount": "mnt", "network": "net"}.get(kind, kind)
        assert row["inode"] == os.stat(f"/proc/{pid}/ns/{name}").st_ino
        assert row["host"] == (row["inode"] == os.stat(f"/proc/self/ns/{name}").st_ino)
        assert row["containers"] == []
    assert found["namespaces"]["pid"]["processes"] == 1
    assert found["namespaces"]["user"]["processes"] > 5
    mask = int(status_field(pid, "CapEff"), 16)
    assert len(found["capabilities"]["effective"]) == mask.bit_count() == 13
    assert "CAP_MKNOD" not in found["capabilities"]["bounding"]
    assert found["seccomp"] == {"mode": "filter", "filters": 1}
    assert len(found["mounts"]) == len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    assert found["usage"]["pids"] in (1, None)
    assert found["differences"] == []
    nodes = {row["path"]: row for row in found["devices"]}
    assert nodes["/dev/nvidia1"] == {
        "path": "/dev/nvidia1", "type": "c", "major": 195, "minor": 1, "access": "rwm",
        "simulated": True,
    }  # fmt: skip
    assert not nodes["/dev/null"]["simulated"]
    assert "c 195:1 rw" in found["deviceRules"]
    assert [stage["stage"] for stage in found["stages"]] == [1, 2, 3, 4, 5, 6, 7]
    hook = found["hooks"][0]
    assert (hook["status"], hook["inLine"]) == (0, True)
    assert hook["duration"] > 0


def test_the_page(minirun: Program) -> None:
    run(minirun, "p", "--gpus", "1", "--gpu-driver", "simulated", image="debian")
    text = page(minirun, "p")
    pid = inspect(minirun, "p")["pid"]
    assert text.startswith("p: running\n")
    assert f"pid       {os.stat(f'/proc/{pid}/ns/pid').st_ino}  its own: 1 process" in text
    assert "lower  image debian:latest, layer 0" in text
    assert f"upper{minirun.directory('p')}/upper" in "".join(text.split())
    assert re.search(r"c 195:1 +rwm +/dev/nvidia1  SIMULATED", text)
    assert "/proc/keys  hidden by tmpfs of /null" in text
    assert "driver 550.163.01, SIMULATED: there is no driver" in text
    assert "nvidia-container-runtime-hook: ok in " in text
    assert "Differs" not in text
    assert re.search(r"5 cli +[\d.]+\Sm?s  put the GPUs in", text)


def test_the_layers_and_the_hidden(minirun: Program) -> None:
    run(minirun, "l")
    found = inspect(minirun, "l")
    root = found["mounts"][0]
    assert (root["path"], root["type"], root["depth"]) == ("/", "overlay", 0)
    assert root["layers"]["upper"] == f"{minirun.directory('l')}/upper"
    layer = root["layers"]["lower"][0]
    assert (layer["image"], layer["layer"], layer["idMapped"]) == ("busybox:latest", 0, False)
    assert Path(layer["path"], "bin").exists()
    by_path = {row["path"]: row for row in found["mounts"]}
    assert by_path["/proc/keys"]["masked"]
    assert not by_path["/proc"]["masked"]
    assert by_path["/proc/sys"]["depth"] == 2


def test_who_shares_a_namespace(minirun: Program) -> None:
    run(minirun, "one", "--network", "host")
    run(minirun, "two", "--network", "host")
    run(minirun, "three")
    found = inspect(minirun, "one")["namespaces"]
    assert found["network"]["host"]
    assert found["network"]["containers"] == ["two"]
    assert found["pid"]["containers"] == []
    assert inspect(minirun, "three")["namespaces"]["network"]["containers"] == []
    assert re.search(r"network +\d+  shared with the host, container two: ", page(minirun, "one"))


def test_limits(minirun: Program) -> None:
    run(minirun, "m", "--memory", "64m", "--pids-limit", "50", "--cpus", "1.5")
    found = inspect(minirun, "m")
    assert found["limits"]["memory"] == 64 << 20
    assert found["limits"]["pids"] == 50
    assert found["limits"]["cpus"] == 1.5
    assert 0 < found["usage"]["memory"] < 64 << 20
    assert found["usage"]["pids"] == 1
    text = page(minirun, "m")
    assert re.search(r"memory +\d.* limit 64 MiB\n", text)
    assert "tasks     1, limit 50" in text
    assert "limit 1.5 CPUs" in text
    directory = found["cgroup"]["dirs"].get("pids") or found["cgroup"]["dirs"][""]
    Path(directory, "pids.max").write_text("60")
    changed = inspect(minirun, "m")
    assert changed["limits"]["pids"] == 60
    assert changed["differences"] == ["limit of pids: config.json says 50, the kernel 60"]
    assert "Differs from config.json\n  limit of pids" in page(minirun, "m")


def test_a_device_rule_that_somebody_else_took(minirun: Program) -> None:
    """What a daemon reload does to a GPU: the node is there, and the cgroup denies it."""
    if not Path("/sys/fs/cgroup/devices").is_dir():
        skip("no v1 devices hierarchy is mounted")
    flags = ("--gpus", "0", "--gpu-driver", "simulated")
    name = ("run", "-d", "--name", "d", *flags, "debian", "sleep", "100")
    assert minirun("--cgroup", "v1", *name).returncode == 0
    directory = inspect(minirun, "d")["cgroup"]["dirs"]["devices"]
    Path(directory, "devices.deny").write_text("c 195:0 rwm")
    found = inspect(minirun, "d")
    node = next(row for row in found["devices"] if row["path"] == "/dev/nvidia0")
    assert "r" not in node["access"]
    assert "device rule c 195:0 rw: in config.json, not in the kernel" in found["differences"]


@pytest.fixture
def bundle(minirun: Program, tmp_path: Path, layer: Path) -> Path:
    """A bundle with hooks, a filter and no_new_privs."""
    assert layer.name == "rootfs"
    config = json.loads(minirun("spec", "busybox", "sleep", "100").stdout)
    config["annotations"] = {}
    config["process"]["noNewPrivileges"] = True
    rule = {"names": ["ptrace"], "action": "SCMP_ACT_ERRNO"}
    config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    config["hooks"] = {
        "prestart": [{"path": "/bin/true"}, {"path": "/bin/sh", "args": ["sh", "-c", "sleep .05"]}],
        "createContainer": [{"path": "/bin/true"}],
        "poststart": [{"path": "/bin/true"}],
        "poststop": [{"path": "/bin/true"}],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_a_created_container_and_its_hooks(minirun: Program, bundle: Path) -> None:
    argv = minirun.argv("create", "--bundle", str(bundle), "b")
    nowhere = subprocess.DEVNULL  # a pipe would stay open as long as the container's command
    subprocess.run(argv, stdin=nowhere, stdout=nowhere, stderr=nowhere, check=True, timeout=20)
    found = inspect(minirun, "b")
    assert found["live"]
    assert found["seccomp"]["mode"] == "none"
    assert found["differences"] == [
        "seccomp: config.json asks for a filter; it comes right before execve"
    ]
    hooks = {(row["kind"], row["path"]): row for row in found["hooks"]}
    slow = hooks["prestart", "/bin/sh"]
    assert slow["status"] == 0
    assert 50_000_000 < slow["duration"] < 10_000_000_000
    assert hooks["prestart", "/bin/true"]["duration"] < slow["duration"]
    assert hooks["poststart", "/bin/true"] == {
        "kind": "poststart", "path": "/bin/true", "ran": False, "status": None, "duration": None,
    }  # fmt: skip
    assert found["stages"][-1]["duration"] is None
    text = page(minirun, "b")
    assert text.startswith("b: created\n")
    assert "poststop         /bin/true: has not run" in text
    assert "init     never ended  pivot_root and exec" in text
    assert minirun("start", "b").returncode == 0
    after = inspect(minirun, "b")
    assert after["seccomp"] == {"mode": "filter", "filters": 1}
    assert after["noNewPrivileges"]
    assert after["differences"] == []
    assert [row["ran"] for row in after["hooks"]] == [True, True, True, True, False]


def test_a_user_namespace(reachable: Program) -> None:
    ids = ("--uidmap", "0:100000:65536", "-u", "1000:1000", "--read-only")
    run(reachable, "u", *ids, image="debian")
    found = inspect(reachable, "u")
    assert not found["namespaces"]["user"]["host"]
    assert found["user"]["uid"]["effective"] == 101000
    assert found["user"]["uidMap"] == [{"containerID": 0, "hostID": 100000, "size": 65536}]
    layer = found["mounts"][0]["layers"]["lower"][0]
    assert (layer["image"], layer["idMapped"]) == ("debian:latest", True)
    assert "ro" in found["mounts"][0]["options"]
    # execve by a user that is not root empties these two, whatever config.json says
    assert found["differences"] == [
        f"{name} capabilities: none is left of config.json's 14"
        for name in ("effective", "permitted")
    ]
    assert "0 is 100000 outside, 65536 ids" in page(reachable, "u")


def test_a_stopped_container(minirun: Program) -> None:
    flags = ("--gpus", "0", "--gpu-driver", "simulated")
    done = minirun("run", "--name", "s", *flags, "debian", "sh", "-c", "exit 3")
    assert done.returncode == 3
    found = inspect(minirun, "s")
    assert (found["live"], found["status"], found["exitStatus"]) == (False, "stopped", 3)
    assert found["namespaces"] == {}
    assert found["user"] is None
    assert found["wanted"]["namespaces"]["pid"] == "new"
    assert len(found["stages"]) == 7
    assert found["gpus"]["simulated"]
    text = page(minirun, "s")
    assert text.startswith("s: stopped, exit status 3\n")
    assert "Namespaces (config.json's)\n  pid       new\n" in text
    assert "SIMULATED" in text
    assert "c 195:0 rw" in text


def test_an_unknown_id(minirun: Program) -> None:
    for args in (("inspect", "--text", "nosuch"), ("inspect", "--json", "nosuch")):
        done = minirun(*args)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr == (
            "minirun: container 'nosuch' does not exist (minirun ps -a lists all)\n"
        )
    assert minirun("inspect").returncode == 1


def test_a_deleted_container(minirun: Program) -> None:
    assert minirun("run", "--rm", "--name", "gone", "busybox", "true").returncode == 0
    done = minirun("inspect", "--text", "gone")
    assert done.returncode == 1
    assert done.stderr == (
        "minirun: container 'gone' has been deleted (what it did is left: minirun timeline gone)\n"
    )


def test_names_that_a_terminal_would_obey(minirun: Program) -> None:
    script = 'mknod "/dev/$(printf "x\\033[31m\\nfake")" c 1 3; touch /tmp/ready; sleep 100'
    run_it = ("run", "-d", "--name", "h", "-v", f"{minirun.root.parent}:/tmp:rw", "busybox", "sh")
    done = minirun(*run_it, "-c", script)
    assert done.returncode == 0, done.stderr
    wait_until((minirun.root.parent / "ready").exists)
    text = page(minirun, "h")
    assert "\x1b" not in text
    assert "/dev/x\\x1b[31m\\nfake\n" in text
    plain = minirun("inspect", "--text", "h", env={"COLUMNS": "80", "LC_ALL": "C"})
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.isascii()
