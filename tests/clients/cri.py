"""Scenarios of Kubernetes' Container Runtime Interface: what a kubelet asks of a node."""

import json
import os
import signal
import time
from pathlib import Path

import grpc

from clients.cell import child
from clients.conftest import NODES
from clients.cri_engine import Cri, runtime_class
from conftest import wait_until

HOG = "x=a; while :; do x=$x$x; done"
"""A shell script that asks for ever more memory."""
FOREVER = "while :; do sleep 0.1; done"


# --- the node ----------------------------------------------------------------------------------


def version(cri: Cri) -> None:
    assert cri.calls.Version().runtime_api_version == "v1"


def node_is_ready(cri: Cri) -> None:
    assert cri.ready()


def handler_that_is_not_there(cri: Cri) -> None:
    try:
        cri.pod(handler="nosuch")
    except grpc.RpcError as error:
        assert "nosuch" in str(error.details())
    else:
        raise AssertionError("the pod was run")


def handler_of_the_runtime_class(cri: Cri) -> None:
    """The manifest of the reference names a handler that its config.toml defines."""
    pod = cri.pod(handler=runtime_class()["handler"])
    assert cri.calls.PodSandboxStatus(pod_sandbox_id=pod).status.runtime_handler == "minirun"
    assert cri.run("echo", "both", pod=pod) == "both"


# --- pods --------------------------------------------------------------------------------------


def pod_is_ready(cri: Cri) -> None:
    found = cri.calls.PodSandboxStatus(pod_sandbox_id=cri.common()).status
    assert found.state == 0 and found.network.ip.startswith("10.99.")


def pod_has_labels_and_annotations(cri: Cri) -> None:
    pod = cri.pod(labels={"app": "a"}, annotations={"note": "b"})
    found = cri.calls.PodSandboxStatus(pod_sandbox_id=pod).status
    assert dict(found.labels) == {"app": "a"} and dict(found.annotations) == {"note": "b"}


def pod_is_found_by_its_label(cri: Cri) -> None:
    pod = cri.pod(labels={"app": "one"})
    cri.pod(labels={"app": "two"})
    items = cri.calls.ListPodSandbox(filter={"label_selector": {"app": "one"}}).items
    assert [item.id for item in items] == [pod] and items[0].runtime_handler == cri.handler


def pod_has_a_host_name(cri: Cri) -> None:
    assert cri.run("hostname", pod=cri.pod(hostname="deep")) == "deep"


def pod_has_kernel_parameters(cri: Cri) -> None:
    linux = cri.sandbox()["linux"] | {"sysctls": {"net.ipv4.ip_unprivileged_port_start": "77"}}
    path = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
    assert cri.run("cat", path, pod=cri.pod(linux)) == "77"


def pod_has_name_servers(cri: Cri) -> None:
    pod = cri.pod(dns_config={"servers": ["192.0.2.9"], "searches": ["near.test"]})
    text = cri.run("cat", "/etc/resolv.conf", pod=pod)
    assert "nameserver 192.0.2.9" in text and "search near.test" in text


def pod_is_stopped_with_its_containers(cri: Cri) -> None:
    pod = cri.pod()
    name = cri.start(pod=pod)
    cri.calls.StopPodSandbox(pod_sandbox_id=pod)
    cri.calls.StopPodSandbox(pod_sandbox_id=pod)  # as often as one likes
    assert cri.calls.PodSandboxStatus(pod_sandbox_id=pod).status.state == 1
    assert cri.status(name).exit_code == 137


def pod_is_removed(cri: Cri) -> None:
    pod = cri.pod()
    cri.start(pod=pod)
    cri.calls.StopPodSandbox(pod_sandbox_id=pod)
    cri.calls.RemovePodSandbox(pod_sandbox_id=pod)
    cri.calls.RemovePodSandbox(pod_sandbox_id=pod)  # as often as one likes
    assert pod not in [item.id for item in cri.calls.ListPodSandbox().items]
    folder = Path("/sys/fs/cgroup/memory", cri.cell.parent.lstrip("/"), pod)
    assert not folder.exists()


# --- the life of a container ---------------------------------------------------------------------


def prints_what_the_command_prints(cri: Cri) -> None:
    assert cri.run("echo", "hello") == "hello"


def log_tells_the_streams_apart(cri: Cri) -> None:
    name = cri.start("sh", "-c", "echo out; echo err >&2; printf end")
    cri.ended(name)
    assert sorted(cri.log(name)) == [("stderr", "err\n"), ("stdout", "end"), ("stdout", "out\n")]


def log_is_reopened(cri: Cri) -> None:
    name = cri.start("sh", "-c", "until test -e /go; do sleep 0.02; done; echo again")
    path = Path(cri.status(name).log_path)
    path.rename(path.with_suffix(".old"))
    cri.calls.ReopenContainerLog(container_id=name)
    cri.exec(name, "touch", "/go")
    cri.ended(name)
    assert cri.log(name) == [("stdout", "again\n")]


def status_of_each_state(cri: Cri) -> None:
    name = cri.create("sleep", "300")
    assert cri.status(name).state == 0
    cri.calls.StartContainer(container_id=name)
    assert cri.status(name).state == 1 and cri.status(name).started_at
    cri.calls.StopContainer(container_id=name, timeout=0)
    assert cri.status(name).state == 2 and cri.status(name).finished_at


def exit_status_is_the_commands(cri: Cri) -> None:
    cri.run("sh", "-c", "exit 7", code=7)
    assert cri.ended(cri.start("false")).reason == "Error"
    assert cri.ended(cri.start("true")).reason == "Completed"


def command_not_found(cri: Cri) -> None:
    assert 'exec: "nosuch": executable file not found in $PATH' in cri.refused("nosuch")


def a_failed_start_is_told(cri: Cri) -> None:
    name = cri.create("/bin/noexec")
    try:
        cri.calls.StartContainer(container_id=name)
    except grpc.RpcError as error:
        assert "permission denied" in str(error.details())
    found = cri.status(name)
    assert (found.state, found.exit_code, found.reason) == (2, 128, "StartError")


def stop_gives_time(cri: Cri) -> None:
    name = cri.start("sh", "-c", f"trap 'exit 3' TERM; touch /ready; {FOREVER}")
    cri.exec(name, "sh", "-c", "until test -e /ready; do sleep 0.01; done")
    cri.calls.StopContainer(container_id=name, timeout=10)
    assert cri.status(name).exit_code == 3


def stop_ends_in_a_kill(cri: Cri) -> None:
    name = cri.start()
    cri.calls.StopContainer(container_id=name, timeout=1)
    assert cri.status(name).exit_code == 137


def stop_and_remove_as_often_as_one_likes(cri: Cri) -> None:
    name = cri.start()
    for _ in range(2):
        cri.calls.StopContainer(container_id=name, timeout=0)
    for _ in range(2):
        cri.calls.RemoveContainer(container_id=name)
    assert name not in [each.id for each in cri.calls.ListContainers().containers]


def remove_of_a_running_one(cri: Cri) -> None:
    cri.calls.RemoveContainer(container_id=cri.start())


def containers_are_listed(cri: Cri) -> None:
    ended, running = cri.start("true"), cri.start(labels={"app": "x"})
    cri.ended(ended)
    for wish in ({"state": {"state": 1}}, {"label_selector": {"app": "x"}}):
        found = cri.calls.ListContainers(filter=wish).containers
        assert [each.id for each in found] == [running]


def the_daemon_comes_back(cri: Cri) -> None:
    """Shims outlive their daemon, and so do containers."""
    name = cri.start()
    os.kill(child(cri.daemon.pid), signal.SIGKILL)
    cri.daemon.wait()
    cri.begin()
    assert cri.status(name).state == 1 and cri.exec(name, "echo", "still here") == "still here"


# --- what a container is given -----------------------------------------------------------------


def arguments_follow_the_command(cri: Cri) -> None:
    assert cri.run("echo", "a", args=["b", "c"]) == "a b c"


def environment_and_directory(cri: Cri) -> None:
    text = cri.run("sh", "-c", "echo $A; pwd", envs=[{"key": "A", "value": "b"}], working_dir="/tmp")
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
    given = {"minirun.note": "a", "other.note": "b"}
    name = cri.start(annotations=given, pod=cri.pod(handler="minirun"))
    folder = f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{name}"
    found = json.loads(cri.cell.run("cat", f"{folder}/config.json").stdout)["annotations"]
    assert found["minirun.note"] == "a" and "other.note" not in found
    assert dict(cri.status(name).annotations) == given


# --- who it is, and what it may do -------------------------------------------------------------


def user_by_number(cri: Cri) -> None:
    security = {"run_as_user": {"value": 12}, "run_as_group": {"value": 34}, "supplemental_groups": [56]}
    assert cri.run("sh", "-c", "id -u; id -g; id -G", security=security).split() == ["12", "34", "34", "56"]


def user_by_name(cri: Cri) -> None:
    assert cri.run("id", "-u", security={"run_as_username": "maria"}) == "1000"


def unknown_user(cri: Cri) -> None:
    assert "nosuch" in cri.refused("true", security={"run_as_username": "nosuch"})


def privileged(cri: Cri) -> None:
    script = "grep CapEff /proc/self/status; test -e /dev/kmsg; grep -c ' /sys sysfs rw' /proc/mounts"
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


# --- namespaces ----------------------------------------------------------------------------------


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


# --- limits --------------------------------------------------------------------------------------


def limits(cri: Cri) -> None:
    wish = {
        "memory_limit_in_bytes": 64 << 20, "cpu_period": 50000, "cpu_quota": 20000,
        "cpu_shares": 512, "cpuset_cpus": "1", "oom_score_adj": 500,
    }  # fmt: skip
    name = cri.start(resources=wish)
    assert cri.cgroup(name, "memory", "memory.limit_in_bytes") == str(64 << 20)
    assert cri.cgroup(name, "cpu", "cpu.cfs_period_us") == "50000"
    assert cri.cgroup(name, "cpu", "cpu.cfs_quota_us") == "20000"
    assert cri.cgroup(name, "cpu", "cpu.shares") == "512"
    assert cri.cgroup(name, "cpuset", "cpuset.cpus") == "1"
    assert cri.exec(name, "cat", "/proc/self/oom_score_adj") == "500"


def limits_seen_from_within(cri: Cri) -> None:
    path = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    assert cri.run("cat", path, resources={"memory_limit_in_bytes": 32 << 20}) == str(32 << 20)


def limits_changed_later(cri: Cri) -> None:
    name = cri.start(resources={"memory_limit_in_bytes": 64 << 20})
    wish = {"memory_limit_in_bytes": 48 << 20, "cpu_shares": 256, "cpu_quota": 30000, "cpu_period": 100000}
    cri.calls.UpdateContainerResources(container_id=name, linux=wish)
    assert cri.cgroup(name, "memory", "memory.limit_in_bytes") == str(48 << 20)
    assert cri.cgroup(name, "cpu", "cpu.shares") == "256"
    assert cri.cgroup(name, "cpu", "cpu.cfs_quota_us") == "30000"


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


# --- exec, attach ----------------------------------------------------------------------------------


def exec_has_its_status(cri: Cri) -> None:
    cri.exec(cri.start(), "sh", "-c", "exit 6", code=6)


def exec_has_two_outputs(cri: Cri) -> None:
    done = cri.calls.ExecSync(container_id=cri.start(), cmd=["sh", "-c", "echo out; echo err >&2"])
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def exec_ends_in_time(cri: Cri) -> None:
    name = cri.start()
    try:
        cri.calls.ExecSync(container_id=name, cmd=["sleep", "302"], timeout=1)
    except grpc.RpcError as error:
        assert "timeout 1s exceeded" in str(error.details())
    else:
        raise AssertionError("it ended by itself")
    assert "sleep 302" not in cri.exec(name, "ps")


def exec_not_found(cri: Cri) -> None:
    try:
        cri.exec(cri.start(), "nosuch")
    except grpc.RpcError as error:
        assert 'exec: "nosuch": executable file not found in $PATH' in str(error.details())
    else:
        raise AssertionError("it was started")


def exec_is_in_the_cgroup(cri: Cri) -> None:
    name = cri.start()
    assert f":memory:{cri.cell.parent}/{name}" in cri.exec(name, "cat", "/proc/self/cgroup")


def exec_has_the_containers_user(cri: Cri) -> None:
    assert cri.exec(cri.start(security={"run_as_user": {"value": 12}}), "id", "-u") == "12"


def exec_as_a_stream(cri: Cri) -> None:
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    answer = cri.calls.Exec(container_id=cri.start(), cmd=command, stdout=True, stderr=True)
    stream = cri.stream(answer)
    assert stream.end() == 3
    assert (stream.seen[1], stream.seen[2]) == ("out\n", "err\n")


def exec_with_input(cri: Cri) -> None:
    command = ["sh", "-c", "read word; echo got $word"]
    stream = cri.stream(cri.calls.Exec(container_id=cri.start(), cmd=command, stdin=True, stdout=True))
    stream.send("it\n")
    assert stream.end() == 0 and stream.seen[1] == "got it\n"


def exec_with_a_terminal(cri: Cri) -> None:
    answer = cri.calls.Exec(container_id=cri.start(), cmd=["sh"], tty=True, stdin=True, stdout=True)
    stream = cri.stream(answer)
    stream.expect("# ")
    stream.resize(33, 101)
    time.sleep(0.2)
    stream.send("tty; stty size; exit 5\n")
    assert "/dev/pts/" in stream.expect("33 101") and stream.end() == 5


def attach(cri: Cri) -> None:
    name = cri.start("sh", "-c", "read word; echo got $word; exit 4", stdin=True)
    stream = cri.stream(cri.calls.Attach(container_id=name, stdin=True, stdout=True, stderr=True))
    stream.send("it\n")
    stream.expect("got it")
    stream.close()
    assert cri.ended(name).exit_code == 4 and cri.log(name) == [("stdout", "got it\n")]


def attach_to_a_terminal(cri: Cri) -> None:
    name = cri.start("sh", stdin=True, tty=True)
    stream = cri.stream(cri.calls.Attach(container_id=name, tty=True, stdin=True, stdout=True))
    stream.resize(40, 90)
    time.sleep(0.2)
    stream.send("stty size; exit 4\n")
    stream.expect("40 90")
    stream.close()
    assert cri.ended(name).exit_code == 4


# --- GPUs ----------------------------------------------------------------------------------------


def gpus_of_a_runtime_class(cri: Cri) -> None:
    """Kubernetes' way to GPUs: a handler that is nvidia-container-runtime. SIMULATED GPUs."""
    pod = cri.pod(handler="nvidia")
    envs = [{"key": "NVIDIA_VISIBLE_DEVICES", "value": "0,1"}]
    text = cri.run("sh", "-c", "ls /dev | grep nvidia; nvidia-smi -L", pod=pod, envs=envs)
    lines = text.splitlines()
    assert lines[:5] == NODES
    assert len(lines) == 7 and all("SIMULATED" in line for line in lines[5:])
