"""linux.namespaces by path, time namespaces, user namespaces, and network devices."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import VERSION_2_ALONE, skip
from minirun.core.kernel import namespaces
from minirun.oci.namespaces import idmap
from spec.conftest import Bundle

KINDS = {"network": "net", "ipc": "ipc", "uts": "uts", "pid": "pid", "cgroup": "cgroup"}
Neighbour = Callable[..., int]


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    """Starts a process in namespaces of its own; returns its pid."""
    children: list[subprocess.Popen[bytes]] = []

    def start(*flags: str) -> int:
        argv = ["unshare", *flags, "--fork", "--kill-child", "sh", "-c", "echo up; exec sleep 100"]
        child = subprocess.Popen(argv, stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout
        assert child.stdout.readline() == b"up\n"
        below = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        return int(below[0])

    yield start
    for child in children:
        child.kill()
        child.communicate()


def inode(pid: int, kind: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{KINDS.get(kind, kind)}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_namespace_by_path(bundle: Bundle, neighbour: Neighbour, kind: str) -> None:
    pid = neighbour(f"--{KINDS[kind].replace('network', 'net')}")
    row = {"type": kind, "path": f"/proc/{pid}/ns/{KINDS[kind]}"}
    changes: dict[str, Any] = {"linux__namespaces": bundle.namespaces(row)}
    if kind == "pid":
        changes["mounts"] = [r for r in bundle.config["mounts"] if r["type"] != "proc"]
    init = bundle.create("sleep 100", **changes)["pid"]
    assert inode(init, kind) == inode(pid, kind) != inode(os.getpid(), kind)
    for other in {*KINDS, "mnt"} - {kind}:
        assert inode(init, other) != inode(os.getpid(), other), f"{other} is still its own"


def test_all_of_them_at_once_as_in_a_pod(bundle: Bundle, neighbour: Neighbour) -> None:
    pid = neighbour("--net", "--ipc", "--uts")
    rows = [{"type": k, "path": f"/proc/{pid}/ns/{KINDS[k]}"} for k in ("network", "ipc", "uts")]
    script = "hostname; for kind in net ipc uts; do readlink /proc/self/ns/$kind; done"
    said = bundle.says(script, linux__namespaces=bundle.namespaces(*rows), hostname="in-the-pod")
    assert said.split() == ["in-the-pod", *(inode(pid, k) for k in ("network", "ipc", "uts"))]


def test_the_runtime_stays_where_it_is(
    bundle: Bundle, neighbour: Neighbour, hook: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """Hooks in the runtime's namespaces see the host's, whatever the container joins."""
    pid = neighbour("--net", "--uts")
    rows = [{"type": k, "path": f"/proc/{pid}/ns/{KINDS[k]}"} for k in ("network", "uts")]
    script = f"readlink /proc/self/ns/net /proc/self/ns/uts /proc/self/ns/pid >>{tmp_path}/seen"
    rows_of = {kind: [hook(script)] for kind in ("prestart", "createRuntime", "poststart")}
    bundle.says("true", linux__namespaces=bundle.namespaces(*rows), hooks=rows_of)
    ours = [inode(os.getpid(), kind) for kind in ("network", "uts", "pid")]
    assert (tmp_path / "seen").read_text().split() == ours * 3


def test_a_user_namespace_by_path(bundle: Bundle) -> None:
    pid, pidfd = namespaces.clone3(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNET)
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        for name in ("uid_map", "gid_map"):
            row = {"containerID": 0, "hostID": 100000, "size": 65536}
            idmap.write_id_map(pid, name, [row])
        for path in (bundle.path, *bundle.path.parents):
            if not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)
        rows = [
            {"type": k, "path": f"/proc/{pid}/ns/{n}"}
            for k, n in (("user", "user"), ("network", "net"))
        ]
        namespaces_of = "for n in user net; do readlink /proc/self/ns/$n; done"
        script = f"id -u; cat /proc/self/uid_map; {namespaces_of}"
        said = bundle.says(script, linux__namespaces=bundle.namespaces(*rows)).split()
        shown = [inode(pid, "user"), inode(pid, "network")]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(pidfd)
    assert said == ["0", "0", "100000", "65536", *shown]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/proc/self/ns/ipc", "is not a network namespace"),
        ("/etc/hostname", "is not a namespace"),
        ("/nosuch", "no such file or directory"),
    ],
)
def test_a_path_that_is_no_such_namespace(bundle: Bundle, path: str, text: str) -> None:
    rows = bundle.namespaces({"type": "network", "path": path})
    said = bundle.refuses(linux__namespaces=rows)
    assert f"config.json: linux.namespaces[{len(rows) - 1}].path: {path}: {text}" in said


def test_a_mount_namespace_by_path(bundle: Bundle, neighbour: Neighbour) -> None:
    """The container's mounts are made there; the host's stay as they were."""
    pid, before = neighbour("--mount"), Path("/proc/self/mounts").read_text().splitlines()
    rows = bundle.namespaces({"type": "mount", "path": f"/proc/{pid}/ns/mnt"})
    init = bundle.create("sleep 100", linux__namespaces=rows)["pid"]
    assert inode(init, "mnt") == inode(pid, "mnt") != inode(os.getpid(), "mnt")
    new = set(Path("/proc/self/mounts").read_text().splitlines()) - set(before)
    assert not [line for line in new if str(bundle.rootfs.parent) in line]  # of this test
    seen = [Path(f"/proc/{each}/mounts").read_text() for each in (init, pid)]
    assert seen[0] == seen[1], "one namespace, one root"
    assert os.readlink(f"/proc/{init}/root") == "/"


def test_the_runtimes_own_mount_namespace_by_path(bundle: Bundle) -> None:
    rows = bundle.namespaces({"type": "mount", "path": "/proc/self/ns/mnt"})
    said = bundle.refuses(linux__namespaces=rows)
    assert "is the runtime's own (leave the namespace of type mount out, if " in said


# --- clocks --------------------------------------------------------------------------------------


def test_clocks_of_its_own(bundle: Bundle) -> None:
    offsets = {"boottime": {"secs": 1_000_000}, "monotonic": {"secs": 5, "nanosecs": 7}}
    said = bundle.says(
        "cat /proc/uptime /proc/self/timens_offsets",
        linux__namespaces=bundle.namespaces({"type": "time"}), linux__timeOffsets=offsets,
    ).split()  # fmt: skip
    assert (
        1_000_000 < float(said[0]) < 2_000_000 + float(Path("/proc/uptime").read_text().split()[0])
    )
    assert said[2:] == ["monotonic", "5", "7", "boottime", "1000000", "0"]


def test_an_exec_has_the_same_clocks(bundle: Bundle) -> None:
    state = bundle.create(
        "sleep 100", linux__namespaces=bundle.namespaces({"type": "time"}),
        linux__timeOffsets={"boottime": {"secs": 1_000_000}},
    )  # fmt: skip
    bundle.program("start", bundle.name)
    done = bundle.program("exec", bundle.name, "cat", "/proc/uptime")
    assert float(done.stdout.split()[0]) > 1_000_000, done.stderr
    assert os.readlink(f"/proc/{state['pid']}/ns/time") != os.readlink("/proc/self/ns/time")


def test_clocks_that_the_kernel_refuses(bundle: Bundle) -> None:
    rows = bundle.namespaces({"type": "time"})
    offsets = {"boottime": {"secs": -(2**40)}}
    said = bundle.refuses(linux__namespaces=rows, linux__timeOffsets=offsets)
    assert "config.json: linux.timeOffsets.boottime: numerical result out of range" in said


# --- network devices -----------------------------------------------------------------------------


@pytest.fixture
def link() -> Iterator[str]:
    """One end of a pair of interfaces, with addresses; both go at the end."""
    name = f"mh{os.getpid() % 1000000}"
    ip("link", "add", name, "mtu", "1400", "type", "veth", "peer", "name", f"{name}p")
    ip("addr", "add", "10.9.8.7/24", "dev", name)
    ip("addr", "add", "fd00:9::7/64", "dev", name, "nodad")
    yield name
    subprocess.run(["ip", "link", "del", f"{name}p"], check=False, capture_output=True)


def ip(*args: str) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        skip(f"ip {' '.join(args)}: {done.stderr.strip()}")


@pytest.mark.parametrize(("given", "found"), [("", "{}"), ("data0", "data0"), ("net%d", "net0")])
def test_a_network_device(bundle: Bundle, link: str, given: str, found: str) -> None:
    name = found.format(link) if found != "{}" else link
    script = f"ip addr show dev {name}; ls /sys/class/net"
    said = bundle.says(script, linux__netDevices={link: {"name": given} if given else {}})
    assert "10.9.8.7/24" in said
    assert "fd00:9::7/64" in said
    assert "mtu 1400" in said
    assert "UP" in said.splitlines()[0]
    assert said.splitlines()[-2:] == sorted([name, "lo"])
    assert not os.path.exists(f"/sys/class/net/{link}")


def test_all_of_a_network_devices_addresses(bundle: Bundle, link: str) -> None:
    """A peer's, which is all that a point-to-point link's route is made of, and for broadcasts."""
    ip("addr", "add", "10.9.7.1", "peer", "10.9.7.9/32", "dev", link)
    ip("addr", "add", "10.9.6.1/24", "broadcast", "+", "dev", link)
    said = bundle.says(f"ip addr show dev {link}", linux__netDevices={link: {}})
    assert "inet 10.9.7.1 peer 10.9.7.9/32 scope global" in said
    assert "inet 10.9.6.1/24 brd 10.9.6.255 scope global" in said


def test_a_network_device_that_there_is_not(bundle: Bundle) -> None:
    said = bundle.refuses(linux__netDevices={"nosuch0": {}})
    assert "config.json: linux.netDevices.nosuch0: no such interface" in said


def test_a_name_that_is_taken(bundle: Bundle, link: str) -> None:
    said = bundle.refuses(linux__netDevices={link: {"name": "lo"}})
    assert f"config.json: linux.netDevices.{link}: lo is there already" in said
    assert os.path.exists(f"/sys/class/net/{link}"), "it is still on the host"


def test_a_network_that_is_the_hosts(bundle: Bundle, link: str) -> None:
    usual = bundle.config["linux"]["namespaces"]
    rows = [row for row in usual if row["type"] != "network"]
    mounts = [row for row in bundle.config["mounts"] if row["type"] != "sysfs"]
    said = bundle.refuses(linux__netDevices={link: {}}, linux__namespaces=rows, mounts=mounts)
    assert "unable to move network devices without a NET namespace" in said


def test_the_state_says_who_it_is(bundle: Bundle) -> None:
    state = bundle.create(ociVersion="1.3.0", annotations={"com.example.key": "값"})
    assert state["annotations"] == {"com.example.key": "값"}
    assert (state["id"], state["status"]) == (bundle.name, "created")
    assert state["bundle"] == str(bundle.path)
    assert json.dumps(state["ociVersion"]).startswith('"1.')


def test_the_hosts_cgroup_namespace(bundle_both: Bundle) -> None:
    """docker --cgroupns=host: what /proc/self/cgroup says is found below /sys/fs/cgroup."""
    rows = bundle_both.config["linux"]["namespaces"]
    kept = [row for row in rows if row["type"] != "cgroup"]
    if bundle_both.program.flags[-1] == "v2":
        script = "d=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); grep -c . $d/cgroup.procs"
    else:  # of version 1's hierarchies the container's own directory alone is shown
        script = "grep -c . /sys/fs/cgroup/pids/cgroup.procs"
    assert int(bundle_both.says(script, linux__namespaces=kept)) >= 1


MAPS = [{"containerID": 0, "hostID": 100000, "size": 65536}]


def _of_another_user(bundle: Bundle, *kinds: str) -> dict[str, Any]:
    """Changes of config.json: a user namespace, whose root reaches the root filesystem."""
    bundle.let_others_in()
    for name in ("sys", "dev", "proc"):
        (bundle.rootfs / name).mkdir(exist_ok=True)
    rows = bundle.namespaces({"type": "user"})
    return {
        "linux__namespaces": [row for row in rows if row["type"] not in kinds],
        "linux__uidMappings": MAPS, "linux__gidMappings": MAPS,
    }  # fmt: skip


def _cgroup_mount(bundle: Bundle, *words: str) -> list[dict[str, Any]]:
    kept = [row for row in bundle.config["mounts"] if row["destination"] != "/sys/fs/cgroup"]
    row = {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"}
    return [*kept, {**row, "options": ["nosuid", "noexec", "nodev", *words]}]


def test_a_user_namespace_in_the_hosts_cgroup_namespace(bundle_both: Bundle) -> None:
    """docker's userns-remap with --cgroupns=host: a new mount of cgroup2 is refused, a bind not."""
    changes = _of_another_user(bundle_both, "cgroup")
    mounts = _cgroup_mount(bundle_both, "ro")
    script = "d=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); grep -c . $d/cgroup.procs"
    if bundle_both.program.flags[-1] == "v1":
        script = "grep -c . /sys/fs/cgroup/pids/cgroup.procs"
    assert bundle_both.says(f"{script}; ! mkdir $d/new 2>/dev/null", mounts=mounts, **changes)


@pytest.mark.parametrize(("words", "may"), [(("rw",), True), ((), True), (("ro",), False)])
@pytest.mark.parametrize("minirun_both", ["v2"], indirect=True)
def test_who_owns_the_containers_cgroup(
    bundle_both: Bundle, words: tuple[str, ...], may: bool
) -> None:
    """runtime-spec, "Cgroup ownership": root in a user namespace, if it may write there."""
    changes = _of_another_user(bundle_both)
    script = """cd /sys/fs/cgroup; stat -c %u . cgroup.procs cgroup.subtree_control
        mkdir new 2>/dev/null && echo 0 >new/cgroup.procs && cat /proc/self/cgroup"""
    done = bundle_both.run(script, mounts=_cgroup_mount(bundle_both, *words), **changes)
    owners, said = done.stdout.split()[:3], done.stdout.splitlines()
    assert owners == ["0" if may else "65534"] * 3, done.stderr
    assert any(line == "0::/new" for line in said) == may


@pytest.mark.parametrize("cgroups", ["new", "the host's"])
def test_the_hosts_sys_and_a_mount_of_cgroups_in_it(bundle: Bundle, cgroups: str) -> None:
    """On version 2 alone /sys brings the one cgroup2 along, and none is mounted over itself."""
    kinds = [*bundle.config["linux"]["namespaces"]]
    if cgroups != "new":
        kinds = [row for row in kinds if row["type"] != "cgroup"]
    kept = [row for row in _cgroup_mount(bundle, "ro") if row["destination"] != "/sys"]
    row = {"destination": "/sys", "source": "/sys", "options": ["rbind", "nosuid", "ro"]}
    mounts = [*kept[:-1], row, kept[-1]]
    script = """p=$(sed -n s/^0:://p /proc/self/cgroup); echo $p
        grep -c . /sys/fs/cgroup$p/cgroup.procs; ! mkdir /sys/fs/cgroup/new"""
    changes = {"mounts": mounts, "linux__namespaces": kinds, "linux__resources": {}}
    bundle.write(script, **changes)
    argv = bundle.program.argv("run", "--bundle", str(bundle.path), bundle.name)
    done = subprocess.run([*VERSION_2_ALONE, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path, count = done.stdout.split()
    assert (path == "/") == (cgroups == "new") and int(count) >= 1


@pytest.mark.parametrize("uid", [0, 1000])
def test_the_callers_pipes_in_a_user_namespace(bundle: Bundle, uid: int) -> None:
    """podman's and containerd's way: images such as nginx's log to links to /dev/stdout."""
    script = "echo hi >/dev/stdout && stat -Lc %u /dev/stdout"
    changes = {**_of_another_user(bundle), "process__user": {"uid": uid, "gid": uid}}
    assert bundle.says(script, **changes) == f"hi\n{uid}"
    bundle.create(**changes)
    assert bundle.program("start", bundle.name).returncode == 0
    done = bundle.program("exec", bundle.name, "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, f"hi\n{uid}\n"), done.stderr
