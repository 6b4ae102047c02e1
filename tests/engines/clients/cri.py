"""Scenarios of Kubernetes' Container Runtime Interface: what a container is given, and may do."""

import json
import os
import time

from conftest import wait_until
from engines.clients.cri_engine import Cri
from engines.clients.limits import has_weight, inside

HOG = "x=a; while :; do x=$x$x; done"
"""A shell script that asks for ever more memory."""


# --- what a container is given ------------------------------------------------------------


def arguments_follow_the_command(cri: Cri) -> None:
    assert cri.run("echo", "a", args=["b", "c"]) == "a b c"


def environment_and_directory(cri: Cri) -> None:
    text = cri.run(
        "sh", "-c", "echo $A; pwd", envs=[{"key": "A", "value": "b"}], working_dir="/tmp"
    )
    assert text == "b\n/tmp"


def environment_of_the_daemon_stays_out(cri: Cri) -> None:
    text = cri.run("env")
    assert "TTRPC" not in text and "MINIRUN" not in text and "XDG" not in text


def mount_of_a_directory(cri: Cri) -> None:
    folder = cri.home / "shared"
    folder.mkdir(exist_ok=True)
    mount = {"container_path": "/data", "host_path": str(folder)}
    cri.run("sh", "-c", "echo back > /data/out", mounts=[mount])
    assert (folder / "out").read_text() == "back\n"


def mount_read_only(cri: Cri) -> None:
    mount = {"container_path": "/data", "host_path": str(cri.home), "readonly": True}
    assert "Read-only file system" in cri.fails("touch", "/data/x", mounts=[mount])


def mount_follows_the_host(cri: Cri) -> None:
    """What is mounted on the host later appears in the container (HostToContainer)."""
    folder = _shared_folder(cri)
    mount = {"container_path": "/data", "host_path": folder, "propagation": 1}
    name = cri.start("sleep", "300", mounts=[mount])
    cri.cell.run("sh", "-ec", f"mkdir -p {folder}/a && mount -t tmpfs none {folder}/a", check=True)
    try:
        assert "tmpfs" in cri.exec(name, "grep", " /data/a ", "/proc/mounts")
    finally:
        cri.cell.run("umount", f"{folder}/a", check=True)


def mount_reaches_the_host(cri: Cri) -> None:
    """What the container mounts appears on the host (Bidirectional); only a privileged one may."""
    folder = _shared_folder(cri)
    mount = {"container_path": "/data", "host_path": folder, "propagation": 2}
    script = "mkdir -p /data/b && mount -t tmpfs none /data/b"
    pod = cri.pod(privileged=True)
    cri.run("sh", "-ec", script, pod=pod, mounts=[mount], security={"privileged": True})
    cri.cell.run("umount", f"{folder}/b", check=True)


def _shared_folder(cri: Cri) -> str:
    """A directory that is a shared mount, as all of a host with systemd is."""
    folder = str(cri.home / "propagated")
    script = f"mkdir {folder} && mount --bind {folder} {folder} && mount --make-shared {folder}"
    if not os.path.isdir(folder):
        cri.cell.run("sh", "-ec", script, check=True)
    return folder


def device(cri: Cri) -> None:
    given = {"container_path": "/dev/given", "host_path": "/dev/fuse", "permissions": "rw"}
    cri.run("sh", "-c", "test -c /dev/given && : < /dev/given", devices=[given])


def device_that_nobody_gave(cri: Cri) -> None:
    assert "Operation not permitted" in cri.fails("sh", "-c", "mknod /fuse c 10 229 && : < /fuse")


def annotation_for_the_runtime(cri: Cri) -> None:
    """pod_annotations and container_annotations of config.toml let some reach config.json."""
    given = {"io.minirun.log": "stages", "other.note": "b"}
    name = cri.start(annotations=given, pod=cri.pod(handler="minirun"))
    folder = f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{name}"
    found = json.loads(cri.cell.run("cat", f"{folder}/config.json").stdout)["annotations"]
    assert found["io.minirun.log"] == "stages" and "other.note" not in found
    assert dict(cri.status(name).annotations) == given


# --- who it is, and what it may do --------------------------------------------------------


def user_by_number(cri: Cri) -> None:
    security = {
        "run_as_user": {"value": 12},
        "run_as_group": {"value": 34},
        "supplemental_groups": [56],
    }
    assert cri.run("sh", "-c", "id -u; id -g; id -G", security=security).split() == [
        "12",
        "34",
        "34",
        "56",
    ]


def user_by_name(cri: Cri) -> None:
    assert cri.run("id", "-u", security={"run_as_username": "maria"}) == "1000"


def unknown_user(cri: Cri) -> None:
    assert "no users found" in cri.refused("true", security={"run_as_username": "nosuch"})


def privileged(cri: Cri) -> None:
    script = "test -c /dev/kmsg; grep CapEff /proc/self/status; : > /proc/sys/kernel/domainname"
    text = cri.run("sh", "-ec", script, pod=cri.pod(privileged=True), security={"privileged": True})
    assert int(text.split()[1], 16) & 1 << 21


def capabilities_of_a_container(cri: Cri) -> None:
    text = cri.run("grep", "CapEff", "/proc/self/status")
    assert int(text.split()[1], 16) == 0xA80425FB


def one_capability_more(cri: Cri) -> None:
    security = {"capabilities": {"add_capabilities": ["NET_ADMIN"]}}
    text = cri.run("grep", "CapEff", "/proc/self/status", security=security)
    assert int(text.split()[1], 16) & 1 << 12


def no_capability(cri: Cri) -> None:
    security = {"capabilities": {"drop_capabilities": ["ALL"]}}
    text = cri.run("grep", "Cap", "/proc/self/status", security=security)
    assert all(int(line.split()[1], 16) == 0 for line in text.splitlines())


def no_new_privileges(cri: Cri) -> None:
    text = cri.run("grep", "NoNewPrivs", "/proc/self/status", security={"no_new_privs": True})
    assert text.endswith("1")


def read_only_root(cri: Cri) -> None:
    assert "Read-only file system" in cri.fails("touch", "/x", security={"readonly_rootfs": True})


def seccomp_profile_of_containerd(cri: Cri) -> None:
    security = {"seccomp": {"profile_type": "RuntimeDefault"}}
    assert cri.run("grep", "Seccomp:", "/proc/self/status", security=security).endswith("2")


def seccomp_is_off(cri: Cri) -> None:
    security = {"seccomp": {"profile_type": "Unconfined"}}
    assert cri.run("grep", "Seccomp:", "/proc/self/status", security=security).endswith("0")


def seccomp_profile_of_the_node(cri: Cri) -> None:
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "args": []}
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    path = cri.home / "profile.json"
    path.write_text(json.dumps(profile))
    security = {"seccomp": {"profile_type": "Localhost", "localhost_ref": str(path)}}
    assert "Operation not permitted" in cri.fails("mkdir", "/x", security=security)


def masked_paths(cri: Cri) -> None:
    security = {"masked_paths": ["/etc/motd", "/usr"]}
    assert cri.run("sh", "-c", "cat /etc/motd; ls /usr", security=security) == ""


def read_only_paths(cri: Cri) -> None:
    security = {"readonly_paths": ["/etc"]}
    assert "Read-only file system" in cri.fails("touch", "/etc/x", security=security)


# --- namespaces ---------------------------------------------------------------------------


def network_is_the_pods(cri: Cri) -> None:
    address = cri.calls.PodSandboxStatus(pod_sandbox_id=cri.common()).status.network.ip
    assert address in cri.run("ip", "-4", "addr", "show", "eth0")
    first, second = (cri.run("readlink", "/proc/self/ns/net") for _ in range(2))
    assert first == second


def network_of_the_node(cri: Cri) -> None:
    pod = cri.pod(namespaces={"network": "NODE"}, hostname="")
    security = {"namespace_options": {"network": "NODE"}}
    theirs = cri.cell.run("readlink", "/proc/self/ns/net").stdout.strip()
    assert cri.run("readlink", "/proc/self/ns/net", pod=pod, security=security) == theirs


def pods_reach_each_other(cri: Cri) -> None:
    other = cri.calls.PodSandboxStatus(pod_sandbox_id=cri.pod()).status.network.ip
    cri.run("ping", "-c1", "-W5", other)


def processes_are_the_pods(cri: Cri) -> None:
    """POD, the default of the interface: the first process is the pod's."""
    assert "2147483647" in cri.run("ps")


def processes_are_the_containers(cri: Cri) -> None:
    security = {"namespace_options": {"pid": "CONTAINER"}}
    assert cri.run("sh", "-c", "echo $$", security=security) == "1"


def processes_of_the_node(cri: Cri) -> None:
    pod = cri.pod(namespaces={"pid": "NODE"})
    security = {"namespace_options": {"pid": "NODE"}}
    theirs = cri.cell.run("readlink", "/proc/self/ns/pid").stdout.strip()
    assert cri.run("readlink", "/proc/self/ns/pid", pod=pod, security=security) == theirs


def processes_of_another_container(cri: Cri) -> None:
    """TARGET: what `kubectl debug` asks for."""
    target = cri.start("sleep", "301", security={"namespace_options": {"pid": "CONTAINER"}})
    security = {"namespace_options": {"pid": "TARGET", "target_id": target}}
    assert "sleep 301" in cri.run("ps", security=security)


def shared_memory_is_the_pods(cri: Cri) -> None:
    cri.run("sh", "-c", "echo word > /dev/shm/w")
    assert cri.run("cat", "/dev/shm/w") == "word"


# --- limits -------------------------------------------------------------------------------


def limits(cri: Cri) -> None:
    wish = {
        "memory_limit_in_bytes": 64 << 20, "cpu_period": 50000, "cpu_quota": 20000,
        "cpu_shares": 512, "cpuset_cpus": "1", "oom_score_adj": 500,
    }  # fmt: skip
    name = cri.start(resources=wish)
    assert cri.limit(name, "memory") == [str(64 << 20)]
    assert cri.limit(name, "cpu") == ["20000", "50000"]
    assert has_weight(cri.limit(name, "shares"), 512)
    assert cri.limit(name, "cpuset") == ["1"]
    assert cri.exec(name, "cat", "/proc/self/oom_score_adj") == "500"


def limits_seen_from_within(cri: Cri) -> None:
    wish = {"memory_limit_in_bytes": 32 << 20}
    assert cri.run("cat", *inside("memory"), resources=wish) == str(32 << 20)


def limits_changed_later(cri: Cri) -> None:
    name = cri.start(resources={"memory_limit_in_bytes": 64 << 20})
    wish = {
        "memory_limit_in_bytes": 48 << 20,
        "cpu_shares": 256,
        "cpu_quota": 30000,
        "cpu_period": 100000,
    }
    cri.calls.UpdateContainerResources(container_id=name, linux=wish)
    assert cri.limit(name, "memory") == [str(48 << 20)]
    assert has_weight(cri.limit(name, "shares"), 256)
    assert cri.limit(name, "cpu") == ["30000", "100000"]


def out_of_memory_is_told(cri: Cri) -> None:
    name = cri.start("sh", "-c", HOG, resources={"memory_limit_in_bytes": 16 << 20})
    found = cri.ended(name)
    assert found.exit_code == 137
    wait_until(lambda: cri.status(name).reason == "OOMKilled")


def stats(cri: Cri) -> None:
    name = cri.start("sh", "-c", "while :; do :; done")
    time.sleep(0.2)
    found = cri.calls.ContainerStats(container_id=name).stats
    assert found.cpu.usage_core_nano_seconds.value > 10_000_000
    assert found.memory.working_set_bytes.value > 0
    every = cri.calls.ListContainerStats(filter={"pod_sandbox_id": cri.common()}).stats
    assert [each.attributes.id for each in every] == [name]
