"""Containers of a user without root and without a grant: one id, the user's own."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from apart import apart
from conftest import wait_until
from engines.rootless.conftest import UID, User, owned, quietly, run
from layers import layer_of
from minirun.cgroups import hierarchies
from minirun.core.keeping.places import HISTORY, NAMES, NEW
from minirun.oci.namespaces import idmap
from required import installed

ONE = f"0 {UID} 1"


def words(text: str) -> list[str]:
    """The lines of a text, each with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_an_image(user: User) -> None:
    script = "cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups; id; touch /new"
    done = user("run", "--name", "r", "busybox", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert words(done.stdout) == [ONE, ONE, "deny", "uid=0(root) gid=0(root)"]
    assert done.stderr == ""
    assert (user.directory("r") / "upper/new").stat().st_uid == UID
    assert user("delete", "r").returncode == 0
    assert {path.name for path in user.root.iterdir()} <= {HISTORY, NAMES, NEW}, "all of it is gone"


def test_an_imported_image(user: User) -> None:
    """Its files become the user's; nodes are left out."""
    tree = user.home / "tree"
    shutil.copytree(layer_of("busybox", user.home / ".local/share/minirun"), tree, symlinks=True)
    os.mknod(tree / "dev/node", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.chown(tree / "etc/hosts", 33, 33)
    with tarfile.open(user.home / "image.tar", "w") as tar:
        tar.add(tree, ".")
    done = user("images", "import", "mine", str(user.home / "image.tar"))
    assert done.returncode == 0, done.stderr
    script = "stat -c '%n %U' /etc/hosts /bin/busybox; ls /dev/node"
    ran = user("run", "--rm", "mine", "/bin/sh", "-c", script)
    assert ran.stdout.splitlines() == ["/etc/hosts root", "/bin/busybox root"]
    assert "/dev/node: No such file or directory" in ran.stderr


def test_every_process_is_the_users(user: User) -> None:
    """Nothing runs as root of the host for such a caller, nor with a capability there."""
    assert user("run", "-d", "--name", "d", "busybox", "sleep", "60").returncode == 0
    record = json.loads((user.directory("d") / "state.json").read_text())
    for pid in (record["pid"], record["supervisor"]["pid"]):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        assert status["Uid"].split() == [str(UID)] * 4
        assert status["Gid"].split() == [str(UID)] * 4
        assert status["Groups"].split() == []
    own = os.readlink("/proc/self/ns/user")
    assert os.readlink(f"/proc/{record['supervisor']['pid']}/ns/user") == own
    supervisor = Path(f"/proc/{record['supervisor']['pid']}/status").read_text()
    assert "CapEff:\t0000000000000000" in supervisor
    assert os.readlink(f"/proc/{record['pid']}/ns/user") != own


def test_a_bundle_by_runcs_commands(user: User) -> None:
    bundle = str(user.bundle("sleep", "60"))
    assert quietly(user.argv("create", "--bundle", bundle, "b")) == 0
    assert json.loads(user("state", "b").stdout)["status"] == "created"
    assert user("start", "b").returncode == 0
    assert user("exec", "b", "id").stdout == "uid=0(root) gid=0(root)\n"
    assert user("exec", "b", "hostname").stdout == "minirun\n"
    assert [row["id"] for row in json.loads(user("list", "--format", "json").stdout)] == ["b"]
    pids = json.loads(user("ps", "--format", "json", "b").stdout)
    assert pids == [json.loads(user("state", "b").stdout)["pid"]]
    assert user("kill", "b", "KILL").returncode == 0
    wait_until(lambda: json.loads(user("state", "b").stdout)["status"] == "stopped")
    assert user("delete", "b").returncode == 0
    assert user("state", "b").returncode == 1


def test_exec_before_the_start(user: User) -> None:
    """init waits as the host's interpreter: it passes its namespaces, and shows nothing else."""
    bundle = str(user.bundle("sleep", "60"))
    assert quietly(user.argv("create", "--bundle", bundle, "b")) == 0
    script = "id -u; hostname; echo $$ $HOME; cat /proc/1/comm; ls /proc/1/fd/; ls /proc/1/root/"
    done = user("exec", "b", "sh", "-c", script)
    assert done.stdout.splitlines()[:2] == ["0", "minirun"]
    assert done.stdout.splitlines()[2].endswith(" /root")
    assert done.stdout.splitlines()[3:] == ["minirun:init"]
    assert done.stderr.count("Permission denied") == 2
    inside = "cat /proc/1/environ || readlink /proc/1/exe || : > /proc/1/exe"
    assert user("exec", "b", "sh", "-c", inside).stdout == ""
    assert user("exec", "b", "sh", "-c", "exit 7").returncode == 7
    assert user("start", "b").returncode == 0
    assert user("exec", "b", "cat", "/proc/1/comm").stdout == "sleep\n"


def test_exec_while_start_goes_on(user: User) -> None:
    """Each exec either enters, or says in one line that init does not answer any more."""
    bundle = str(user.bundle("sleep", "60"))
    assert quietly(user.argv("create", "--bundle", bundle, "b")) == 0
    execs = [user.start("exec", "b", "echo", "in") for _ in range(4)]
    assert user("start", "b").returncode == 0
    for each in execs:
        said, error = each.communicate(timeout=60)
        assert (said, error) == ("in\n", "") or "does not answer" in error, error
    assert user("exec", "b", "echo", "in").stdout == "in\n"


def test_run_a_bundle(user: User) -> None:
    script = "id -u; ls /sys/class | head -n 1; exit 7"
    done = user("run", "--bundle", str(user.bundle("sh", "-c", script)), "b")
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout == run(["sh", "-c", "echo 0; ls /sys/class | head -n 1"]).stdout


def in_cgroups(done: subprocess.CompletedProcess[str]) -> tuple[list[str], list[str]]:
    """Return the names at /sys/fs/cgroup, and what mountinfo says of the mounts there."""
    assert done.returncode == 0, done.stdout + done.stderr
    names, _, mounts = done.stdout.partition("--\n")
    rows = [line.split() for line in mounts.splitlines()]
    return names.split(), [f"{row[3]} {row[4]} {row[5].partition(',')[0]}" for row in rows]


@pytest.mark.parametrize("own_namespace", [False, True])
def test_the_callers_cgroups_are_seen(user: User, own_namespace: bool) -> None:
    """As with runc, each one where the container is, read-only as config.json has them."""
    script = "ls /sys/fs/cgroup; echo --; grep ' /sys/fs/cgroup' /proc/self/mountinfo"
    bundle = user.bundle("sh", "-c", script)
    config = json.loads((bundle / "config.json").read_text())
    config["ociVersion"] = "1.0.2"
    kinds = [row for row in config["linux"]["namespaces"] if row["type"] != "cgroup"]
    config["linux"]["namespaces"] = [*kinds, *[{"type": "cgroup"}] * own_namespace]
    (bundle / "config.json").write_text(json.dumps(config))
    names, mounts = in_cgroups(user("run", "--bundle", str(bundle), "b"))
    assert names and mounts
    ones = [h for h in hierarchies.mounted() if h.version == 1]
    for hierarchy in ones:
        assert set(hierarchy.names) <= {*names, *(f"name={name}" for name in names)}
        assert any(f" {hierarchy.path} ro" in row for row in mounts)
    if ones and not own_namespace:
        runc = user.as_user(installed("runc"), "--root", str(user.home / "runc"))
        done = subprocess.run(
            [*runc, "run", "--bundle", str(bundle), "b"], capture_output=True, text=True,
            check=False, timeout=60, cwd=user.home, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        theirs = in_cgroups(done)
        assert names == theirs[0]
        assert mounts[-len(ones) :] == theirs[1][-len(ones) :]


def test_kill_all(user: User) -> None:
    script = "/bin/sleep 60 & /bin/sleep 60; true"  # sleep may be a part of busybox's sh
    assert user("run", "-d", "--name", "k", "busybox", "sh", "-c", script).returncode == 0
    wait_until(lambda: len(json.loads(user("ps", "--format", "json", "k").stdout)) == 3)
    assert user("kill", "--all", "k", "KILL").returncode == 0
    wait_until(lambda: json.loads(user("state", "k").stdout)["status"] == "stopped")


def test_a_terminal(user: User) -> None:
    command = " ".join(user.argv("run", "--rm", "-it", "-q", "busybox", "tty"))
    done = run(["script", "-qec", command, "/dev/null"])
    assert done.returncode == 0
    assert "/dev/pts/0" in done.stdout


def test_ptmx_is_the_containers_own(user: User) -> None:
    """A link into its own devpts; also if an engine lists the host's node, as podman does."""
    words = ("sh", "-c", "readlink /dev/ptmx; : <>/dev/ptmx && echo opened")
    assert user("run", "--rm", "busybox", *words).stdout == "pts/ptmx\nopened\n"
    bundle = user.bundle(*words)
    row = {"path": "/dev/ptmx", "type": "c", "major": 5, "minor": 2}
    change(bundle, "linux.devices", [row])
    done = user("run", "--bundle", str(bundle), "b")
    assert (done.stdout, done.stderr) == ("pts/ptmx\nopened\n", "")


def test_devices_are_the_hosts(user: User) -> None:
    script = "stat -c '%t:%T %u' /dev/null /dev/x; echo through > /dev/null; mknod /tmp/n c 1 3"
    device = ("--device", "/dev/zero:/dev/x")
    done = user("run", "--rm", *device, "busybox", "sh", "-c", script)
    assert done.stdout.splitlines() == ["1:3 65534", "1:5 65534"]
    assert done.stderr == "mknod: /tmp/n: Operation not permitted\n"


def test_a_device_that_the_host_lacks(user: User) -> None:
    bundle = user.bundle("true")
    config = json.loads((bundle / "config.json").read_text())
    config["linux"]["devices"] = [{"path": "/dev/odd", "type": "c", "major": 4095, "minor": 77}]
    (bundle / "config.json").write_text(json.dumps(config))
    done = user("run", "--bundle", str(bundle), "b")
    assert done.returncode == 1
    text = "linux.devices: /dev/odd: c 4095:77 cannot be made in a user namespace"
    assert text in done.stderr and done.stderr.count("\n") == 1


def test_the_network_is_none_or_the_hosts(user: User) -> None:
    script = "ls /sys/class/net; cat /sys/class/net/lo/operstate"
    assert user("run", "--rm", "busybox", "sh", "-c", script).stdout.split() == ["lo", "unknown"]
    with apart("network"):
        subprocess.run(["ip", "link", "add", "mark0", "type", "bridge"], check=True)
        words = ("busybox", "cat", "/proc/net/dev")
        assert "mark0" in user("run", "--rm", "--network", "host", *words).stdout
        assert "mark0" not in user("run", "--rm", *words).stdout


NOT_GRANTED = (
    f"0 must be your own id, {UID}"
    if idmap.find_program("uid_map")
    else f"without newuidmap only your own id, {UID}, can be mapped"
)
REFUSED = [
    (("-u", "1000"), "process.user.uid: 1000 is not mapped; mapped: 0"),
    (("-u", "0:5"), "process.user.gid: 5 is not mapped; mapped: 0"),
    (("--memory", "64m"), "linux.resources.memory: there is no cgroup to limit it: /sys/fs/cgroup"),
    (("--pids-limit", "9"), "linux.resources.pids: there is no cgroup to limit it"),
    (("--uidmap", "0:100000:65536"), f"linux.uidMappings: {NOT_GRANTED}"),
    (("--gpus", "0", "--gpu-driver", "simulated"), "simulated GPUs need root: mknod makes their"),
    (("--network", "bridge"), "--network bridge: a bridge needs root"),
]


@pytest.mark.parametrize(("flags", "text"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_what_cannot_work_says_why(user: User, flags: tuple[str, ...], text: str) -> None:
    done = user("run", "--rm", *flags, "busybox", "true")
    assert done.returncode == 125
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(user.root.glob("[!.]*")), "nothing is left"


def change(bundle: Path, path: str, value: object) -> None:
    """Set a property of a bundle's config.json, by its path."""
    config = json.loads((bundle / "config.json").read_text())
    at = config
    *parents, last = path.split(".")
    for name in parents:
        at = at.setdefault(name, {})
    at[last] = value
    (bundle / "config.json").write_text(json.dumps(config))


SPEC = [
    ("process.user.additionalGids", [0, 1], "additionalGids: [1]: where only one's own group is"),
    ("linux", {"namespaces": [{"type": "mount"}, {"type": "uts"}]}, "namespaces: without root a c"),
    ("linux.cgroupsPath", "/mine", "linux.cgroupsPath: /mine: cannot be made: /sys/fs/cgroup"),
    ("linux.resources", {"pids": {"limit": 5}}, "linux.resources.pids: there is no cgroup"),
    ("linux.netDevices", {"lo": {}}, "linux.netDevices: a network device of the host can be mov"),
    ("mounts", [{"destination": "/dev", "type": "tmpfs", "source": "t", "options": ["gid=5"]}],
     "mounts[0].options: gid=5: no such id in the container; mapped: 0"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "text"), SPEC, ids=[row[0] for row in SPEC])
def test_a_bundle_that_asks_for_too_much(user: User, path: str, value: object, text: str) -> None:
    bundle = user.bundle("true")
    change(bundle, path, value)
    if path == "linux.netDevices":
        kinds = ("mount", "pid", "uts", "ipc", "user", "network")
        change(bundle, "linux.namespaces", [{"type": kind} for kind in kinds])
    done = user("run", "--bundle", str(bundle), "b")
    assert done.returncode == 1
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert user("state", "b").returncode == 1, "nothing is left"


def test_a_source_behind_a_closed_directory(user: User) -> None:
    """EACCES is told as such: "no such file" sends a user to look for what is there."""
    closed = user.home / "closed"
    closed.mkdir(mode=0o700)  # root's
    (closed / "file").touch()
    bundle = user.bundle("true")
    row = {"destination": "/x", "source": f"{closed}/file", "options": ["bind"]}
    change(bundle, "mounts", [row])
    done = user("run", "--bundle", str(bundle), "b")
    text = f"minirun: config.json: mounts[0].source: {closed}/file: permission denied\n"
    assert (done.returncode, done.stderr) == (1, text)
    done = user("run", "--rm", "-v", f"{closed}/file:/x", "busybox", "true")
    text = f"minirun: volume '{closed}/file:/x': {closed}/file: permission denied\n"
    assert (done.returncode, done.stderr) == (125, text)


def test_device_rules_are_ignored_with_a_warning(user: User) -> None:
    bundle = user.bundle("echo", "runs")
    change(bundle, "linux.resources", {"devices": [{"allow": False, "access": "rwm"}]})
    done = user("run", "--bundle", str(bundle), "b")
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert done.stderr == (
        "minirun: warning: config.json: linux.resources.devices: is not kept without root: "
        "there is no cgroup\n"
    )


def test_the_global_flag(user: User) -> None:
    """false: a cgroup, or nothing. auto and true look, and go without."""
    for when, status in (("auto", 0), ("true", 0), ("false", 125)):
        done = user("--rootless", when, "run", "--rm", "busybox", "true")
        assert done.returncode == status, when
    assert "/sys/fs/cgroup" in done.stderr and "ermission denied" in done.stderr


def test_pause_needs_a_cgroup(user: User) -> None:
    assert user("run", "-d", "--name", "p", "busybox", "sleep", "60").returncode == 0
    done = user("pause", "p")
    assert done.returncode == 1
    assert "a container without a cgroup cannot be paused: /sys/fs/cgroup" in done.stderr
    counted = user("events", "--stats", "p")
    assert counted.returncode == 1
    assert "nothing is counted: there is no cgroup" in counted.stderr
    shown = user("inspect", "--text", "p")
    assert shown.returncode == 0, shown.stderr
    assert "Cgroup\n  none: /sys/fs/cgroup" in shown.stdout


def test_the_log_says_it(user: User) -> None:
    assert user("run", "--rm", "busybox", "true").returncode == 0
    found = {str(event["name"]): event for event in user.events()}
    assert "may not be written" in found["no cgroup"]["args"]["reason"]
    assert "setgroups" not in found, "denied, so it is not called"
    assert [e["name"] for e in user.events() if e["kind"] == "syscall" and e["errno"]] == []


def test_where_things_are_kept(user: User) -> None:
    runtime = owned(user.home / "runtime")
    user.env["XDG_RUNTIME_DIR"] = str(runtime)
    assert user("run", "-d", "--name", "x", "busybox", "sleep", "60").returncode == 0
    (made,) = (runtime / "minirun").glob("[!.]*")
    assert (runtime / "minirun/.names/x").resolve() == made and (made / "state.json").exists()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    user("delete", "--force", "x")
    user.env["XDG_DATA_HOME"] = str(user.home / "data")
    assert user("images").stdout.count("\n") <= 1, "another store, and nothing in it"
    assert f"none in {user.home}/data/minirun" in user("doctor").stdout
    del user.env["HOME"], user.env["XDG_DATA_HOME"]
    assert user("ps").returncode == 0, "as podman calls its runtime"
    del user.env["XDG_RUNTIME_DIR"]
    lost = user("run", "busybox", "true")
    assert lost.returncode == 125
    assert "there is no $HOME to keep images and containers below" in lost.stderr


def test_root_of_a_user_namespace_is_no_root(user: User) -> None:
    """User 0 by `unshare -r`: nothing may be concluded from the number."""
    inside = ("unshare", "--user", "--map-root-user", "--mount")
    assert run(user.as_user(*inside, "id", "-u")).stdout == "0\n"
    done = run(user.as_user(*inside, user.path, "run", "--rm", "busybox", "cat", "/proc/1/uid_map"))
    assert (done.returncode, words(done.stdout), done.stderr) == (0, ["0 0 1"], "")
