"""Scenarios of podman and docker alike: networks, terminals, and a container's life."""

import os
import signal
import time

from conftest import wait_until
from engines.clients import limits
from engines.clients.cell import child
from engines.clients.engine import IMAGE, Dockerlike
from engines.clients.screen import Screen


def bridged_network(engine: Dockerlike) -> None:
    text = engine("run", "--rm", IMAGE, "ip", "-4", "addr", "show", "eth0")
    assert "inet " in text


def port_is_published(engine: Dockerlike) -> None:
    serve = "while :; do echo answer | nc -l -p 80; done"
    engine("run", "-d", "--publish=127.0.0.1:8123:80", IMAGE, "sh", "-c", serve)

    def answer() -> str:
        ask = ("busybox", "timeout", "2", "busybox", "nc", "127.0.0.1", "8123")
        return engine.cell.run(*ask).stdout.strip()

    wait_until(lambda: answer() == "answer", 20)


def network_of_the_host(engine: Dockerlike) -> None:
    theirs = engine.cell.run("readlink", "/proc/self/ns/net").stdout.strip()
    assert engine("run", "--rm", "--network=host", IMAGE, "readlink", "/proc/self/ns/net") == theirs


def network_of_another_container(engine: Dockerlike) -> None:
    name = engine.detached()
    text = engine(
        "run", "--rm", f"--network=container:{name}", IMAGE, "readlink", "/proc/self/ns/net"
    )
    assert text == engine("exec", name, "readlink", "/proc/self/ns/net")


def host_in_etc_hosts(engine: Dockerlike) -> None:
    text = engine("run", "--rm", "--add-host=far:192.0.2.7", IMAGE, "cat", "/etc/hosts")
    assert "192.0.2.7" in text


def terminal(engine: Dockerlike) -> None:
    screen = Screen(
        engine.cell.argv(*engine.client, "run", "--rm", "-it", "--network=none", IMAGE), engine.env
    )
    screen.expect("# ")
    screen.type("tty; stty size; exit 5\r")
    assert "/dev/pts/0" in screen.expect("24 80") and screen.wait() == 5


def terminal_follows_its_window(engine: Dockerlike) -> None:
    screen = Screen(
        engine.cell.argv(*engine.client, "run", "--rm", "-it", "--network=none", IMAGE), engine.env
    )
    screen.expect("# ")
    screen.resize(33, 101)
    time.sleep(0.2)
    screen.type("stty size; exit\r")
    screen.expect("33 101")
    assert screen.wait() == 0


def detached_and_stopped(engine: Dockerlike) -> None:
    name = engine.detached("sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.1; done")
    assert engine.json("inspect", name)[0]["State"]["Status"] == "running"
    engine("stop", name)
    state = engine.json("inspect", name)[0]["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 3)


def stop_ends_in_a_kill(engine: Dockerlike) -> None:
    name = engine.detached()
    engine("stop", "--time=0", name)
    assert engine.json("inspect", name)[0]["State"]["ExitCode"] == 137


def kill_with_a_signal(engine: Dockerlike) -> None:
    name = engine.detached(
        "sh", "-c", "trap 'echo got it; exit 4' USR1; while :; do sleep 0.1; done"
    )
    time.sleep(0.3)
    engine("kill", "--signal=USR1", name)
    assert engine("wait", name) == "4"
    assert engine("logs", name) == "got it"


def kill_of_a_stopped_container(engine: Dockerlike) -> None:
    name = engine.detached("true")
    engine("wait", name)
    assert engine.full("kill", name).returncode != 0


def wait_for_the_end(engine: Dockerlike) -> None:
    assert engine("wait", engine.detached("sh", "-c", "sleep 0.2; exit 9")) == "9"


def pause_and_unpause(engine: Dockerlike) -> None:
    name = engine.detached("sh", "-c", "while :; do date +%s%N > /now; done")
    time.sleep(0.2)
    engine("pause", name)
    assert engine.json("inspect", name)[0]["State"]["Status"] == "paused"
    engine("unpause", name)
    assert engine.json("inspect", name)[0]["State"]["Status"] == "running"
    engine("exec", name, "true")


def paused_container_can_be_removed(engine: Dockerlike) -> None:
    name = engine.detached()
    engine("pause", name)
    engine("rm", "--force", name)
    assert engine("ps", "--all", "--quiet") == ""


def exec_in_a_paused_container(engine: Dockerlike) -> None:
    name = engine.detached()
    engine("pause", name)
    assert engine.full("exec", name, "true").returncode != 0
    engine("unpause", name)
    assert engine("exec", name, "echo", "again") == "again"


def exec_as_the_containers_user(engine: Dockerlike) -> None:
    name = engine.detached("--user=maria", "--group-add=audio", "sleep", "300")
    words = ("sh", "-c", "id -u; id -G; echo $HOME; grep CapEff /proc/self/status")
    lines = engine("exec", name, *words).splitlines()
    assert lines[:3] == ["1000", "1000 29", "/home/maria"]
    assert int(lines[3].split()[1], 16) == 0


def update_of_many_limits(engine: Dockerlike) -> None:
    name = engine.detached("--memory=64m", "--memory-swap=64m", "sleep", "300")
    engine("update", "--memory=128m", "--memory-swap=128m", name)
    engine("update", "--cpu-quota=50000", "--cpu-period=100000", "--cpuset-cpus=0", name)
    text = engine("exec", name, "cat", *limits.inside("memory"), *limits.inside("cpu"))
    assert text.split() == ["134217728", "50000", "100000"]


def exec_of_a_command(engine: Dockerlike) -> None:
    name = engine.detached()
    assert engine("exec", name, "cat", "/proc/1/comm") == "sleep"


def exec_has_its_status(engine: Dockerlike) -> None:
    engine("exec", engine.detached(), "sh", "-c", "exit 6", code=6)


def exec_not_found(engine: Dockerlike) -> None:
    done = engine.full("exec", engine.detached(), "nosuch")
    assert done.returncode in (126, 127)  # docker 20.10: 126
    assert 'exec: "nosuch": executable file not found in $PATH' in done.stdout + done.stderr


def exec_not_executable(engine: Dockerlike) -> None:
    engine("exec", engine.detached(), "/bin/noexec", code=126)


def exec_with_flags(engine: Dockerlike) -> None:
    flags = ("--env=A=b", "--workdir=/tmp", "--user=12:34")
    text = engine("exec", *flags, engine.detached(), "sh", "-c", "echo $A; pwd; id -u")
    assert text == "b\n/tmp\n12"


def exec_with_input(engine: Dockerlike) -> None:
    assert engine("exec", "-i", engine.detached(), "cat", input="through\n") == "through"


def exec_privileged(engine: Dockerlike) -> None:
    name = engine.detached("--cap-drop=all", "sleep", "300")
    caps = engine("exec", "--privileged", name, "grep", "CapEff", "/proc/self/status")
    assert int(caps.split()[1], 16) != 0


def exec_detached(engine: Dockerlike) -> None:
    name = engine.detached()
    engine("exec", "-d", name, "touch", "/done")
    wait_until(lambda: engine.full("exec", name, "test", "-e", "/done").returncode == 0)


def exec_with_a_terminal(engine: Dockerlike) -> None:
    name = engine.detached()
    screen = Screen(engine.cell.argv(*engine.client, "exec", "-it", name, "sh"), engine.env)
    screen.expect("# ")
    screen.type("tty; exit 3\r")
    assert "/dev/pts/" in screen.rest() and screen.wait() == 3


def exec_is_in_the_cgroup(engine: Dockerlike) -> None:
    name = engine.detached("--pids-limit=50", "sleep", "300")
    text = engine("exec", name, "cat", *limits.inside("processes"))
    assert len(text.split()) >= 2


def logs(engine: Dockerlike) -> None:
    name = engine.detached("sh", "-c", "echo one; echo two")
    engine("wait", name)
    assert engine("logs", name) == "one\ntwo"


def logs_that_follow(engine: Dockerlike) -> None:
    name = engine.detached("sh", "-c", "echo one; sleep 0.3; echo two")
    assert engine("logs", "--follow", name) == "one\ntwo"


def top(engine: Dockerlike) -> None:
    assert "sleep 300" in engine("top", engine.detached())


def statistics(engine: Dockerlike) -> None:
    text = engine("stats", "--no-stream", "--format={{json .}}", engine.detached())
    assert "sleep" in text or "PID" in text.upper()


def list_of_containers(engine: Dockerlike) -> None:
    name = engine.detached()
    assert engine("ps", "--no-trunc", "--format={{.ID}}") == name


def create_then_start(engine: Dockerlike) -> None:
    name = engine("create", "--network=none", IMAGE, "echo", "later")
    assert engine("start", "--attach", name) == "later"


def restart(engine: Dockerlike) -> None:
    name = engine.detached()
    before = engine.json("inspect", name)[0]["State"]["Pid"]
    engine("restart", "--time=0", name)
    assert engine.json("inspect", name)[0]["State"]["Pid"] not in (0, before)


def removal_of_a_running_container(engine: Dockerlike) -> None:
    name = engine.detached()
    assert engine.full("rm", name).returncode != 0
    engine("rm", "--force", name)
    assert engine("ps", "--all", "--quiet") == ""


def name_in_use(engine: Dockerlike) -> None:
    engine.detached("--name=taken", "sleep", "300")
    assert engine.full("run", "--name=taken", IMAGE, "true").returncode == 125


def copy_in_and_out(engine: Dockerlike) -> None:
    name = engine.detached()
    (engine.home / "sent").write_text("sent\n")
    engine("cp", f"{engine.home}/sent", f"{name}:/tmp/sent")
    assert engine("exec", name, "cat", "/tmp/sent") == "sent"
    engine("cp", f"{name}:/etc/motd", f"{engine.home}/got")
    assert (engine.home / "got").read_text() == "from the image\n"


def changes(engine: Dockerlike) -> None:
    name = engine.detached("sh", "-c", "touch /added; rm /etc/motd")
    engine("wait", name)
    lines = engine("diff", name).splitlines()
    assert "A /added" in lines and "D /etc/motd" in lines


def commit(engine: Dockerlike) -> None:
    name = engine.detached("sh", "-c", "echo new > /made")
    engine("wait", name)
    engine("commit", name, "test.local/made:1")
    assert engine("run", "--rm", "--network=none", "test.local/made:1", "cat", "/made") == "new"
    engine("rmi", "--force", "test.local/made:1")


def update_of_limits(engine: Dockerlike) -> None:
    name = engine.detached("--memory=64m", "sleep", "300")
    engine("update", "--cpu-shares=300", name)
    assert limits.has_weight([engine("exec", name, "cat", *limits.inside("shares"))], 300)


def health_check(engine: Dockerlike) -> None:
    name = engine.detached("--health-cmd=test -e /etc/motd", "--health-interval=1s", "sleep", "300")
    check = ("inspect", "--format={{.State.Health.Status}}", name)
    if engine.client[0].endswith("podman"):
        engine("healthcheck", "run", name)
    wait_until(lambda: engine(*check) == "healthy")


def signal_through_the_client(engine: Dockerlike) -> None:
    words = ("run", "--rm", "--network=none", "--name=patient", IMAGE, "sh", "-c",
             "trap 'echo asked; exit 8' TERM; echo ready; while :; do sleep 0.1; done")  # fmt: skip
    out = engine.home / "signal"
    out.unlink(missing_ok=True)  # what an earlier try has said
    client = engine.cell.start(*engine.client, *words, log="signal", env=engine.env)
    wait_until(lambda: "ready" in out.read_text())
    os.kill(child(client.pid), signal.SIGTERM)
    assert client.wait(20) == 8 and "asked" in out.read_text()
