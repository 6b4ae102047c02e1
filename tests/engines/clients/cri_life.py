"""Scenarios of Kubernetes' Container Runtime Interface: pods, the life of containers, streams."""

import os
import signal
import time
from pathlib import Path

import pytest

from engines.clients import limits
from engines.clients.cell import child
from engines.clients.conftest import NODES
from engines.clients.cri_client import Refused
from engines.clients.cri_engine import Cri, runtime_class

FOREVER = "while :; do sleep 0.1; done"


# --- the node -----------------------------------------------------------------------------


def version(cri: Cri) -> None:
    assert cri.calls.Version().runtime_api_version == "v1"


def node_is_ready(cri: Cri) -> None:
    assert cri.ready()


def handler_that_is_not_there(cri: Cri) -> None:
    with pytest.raises(Refused, match='no runtime for "nosuch"'):
        cri.pod(handler="nosuch")


def handler_of_the_runtime_class(cri: Cri) -> None:
    """The manifest of the reference names a handler that its config.toml defines."""
    pod = cri.pod(handler=runtime_class()["handler"])
    assert cri.calls.PodSandboxStatus(pod_sandbox_id=pod).status.runtime_handler == "minirun"
    assert cri.run("echo", "both", pod=pod) == "both"


# --- pods ---------------------------------------------------------------------------------


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
    found = limits.MOUNT.glob(f"{'' if limits.V2 else '*/'}{cri.cell.parent.lstrip('/')}/{pod}")
    assert not list(found)


# --- the life of a container --------------------------------------------------------------


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
    with pytest.raises(Refused, match="permission denied"):
        cri.calls.StartContainer(container_id=name)
    found = cri.status(name)
    assert (found.state, found.exit_code, found.reason) == (2, 128, "StartError")


def stop_gives_time(cri: Cri) -> None:
    name = cri.start("sh", "-c", f"trap 'exit 3' TERM; touch /ready; {FOREVER}")
    cri.exec(name, "sh", "-c", "until test -e /ready; do sleep 0.01; done")
    cri.calls.StopContainer(container_id=name, timeout=10)
    assert cri.status(name).exit_code == 3


def stop_ends_in_a_kill(cri: Cri) -> None:
    name = cri.start("sh", "-c", f"trap '' TERM; touch /ready; {FOREVER}")
    cri.exec(name, "sh", "-c", "until test -e /ready; do sleep 0.01; done")
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


# --- exec, attach -------------------------------------------------------------------------


def exec_has_its_status(cri: Cri) -> None:
    cri.exec(cri.start(), "sh", "-c", "exit 6", code=6)


def exec_has_two_outputs(cri: Cri) -> None:
    done = cri.calls.ExecSync(container_id=cri.start(), cmd=["sh", "-c", "echo out; echo err >&2"])
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def exec_ends_in_time(cri: Cri) -> None:
    name = cri.start()
    with pytest.raises(Refused, match="timeout 1s exceeded"):
        cri.calls.ExecSync(container_id=name, cmd=["sleep", "302"], timeout=1)
    assert "sleep 302" not in cri.exec(name, "ps")


def exec_not_found(cri: Cri) -> None:
    with pytest.raises(Refused, match=r'exec: "nosuch": executable file not found in \$PATH'):
        cri.exec(cri.start(), "nosuch")


def exec_is_in_the_cgroup(cri: Cri) -> None:
    name = cri.start()
    text, wanted = cri.exec(name, "cat", "/proc/self/cgroup"), f"{cri.cell.parent}/{name}"
    assert limits.is_in(text, "memory", lambda path: path == wanted)


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
    stream = cri.stream(
        cri.calls.Exec(container_id=cri.start(), cmd=command, stdin=True, stdout=True)
    )
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


# --- GPUs ---------------------------------------------------------------------------------


def gpus_of_a_runtime_class(cri: Cri) -> None:
    """Kubernetes' way to GPUs: a handler that is nvidia-container-runtime. SIMULATED GPUs."""
    pod = cri.pod(handler="nvidia")
    envs = [{"key": "NVIDIA_VISIBLE_DEVICES", "value": "0,1"}]
    text = cri.run("sh", "-c", "ls /dev | grep nvidia; nvidia-smi -L", pod=pod, envs=envs)
    lines = text.splitlines()
    assert [line for line in lines if line in NODES] == NODES
    names = [line for line in lines if line.startswith("GPU ")]
    assert len(names) == 2 and all("SIMULATED" in line for line in names)
