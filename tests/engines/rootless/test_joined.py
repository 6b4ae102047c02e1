"""A user's bundle in namespaces that are there already, with clocks of its own, with an agent."""

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import wait_until
from engines.rootless.conftest import SUBIDS, UID, User, run
from spec.test_seccomp import Agent, profile


def changed(bundle: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """Change config.json of a bundle; return the bundle's path."""
    config = json.loads((bundle / "config.json").read_text())
    change(config)
    (bundle / "config.json").write_text(json.dumps(config))
    return str(bundle)


@pytest.fixture
def pod(user: User) -> Iterator[int]:
    """A process of the user's, in namespaces of its own; setgroups(2) is denied there."""
    words = ("--user", "--map-root-user", "--pid", "--net", "--fork", "--kill-child")
    maker = subprocess.Popen(user.as_user("unshare", *words, "sleep", "100"))
    children = Path(f"/proc/{maker.pid}/task/{maker.pid}/children")
    wait_until(lambda: children.read_text().split())
    yield int(children.read_text())
    maker.kill()
    maker.wait()


def joining(pod: int, kinds: tuple[tuple[str, str], ...]) -> Callable[[dict[str, Any]], None]:
    """Return a change that joins the namespaces of the pod, listed in this order."""
    named = [{"type": kind, "path": f"/proc/{pod}/ns/{file}"} for kind, file in kinds]

    def change(config: dict[str, Any]) -> None:
        linux = config["linux"]
        taken = {kind for kind, _ in kinds}
        others = [row for row in linux["namespaces"] if row["type"] not in taken]
        linux["namespaces"] = named + others
        del linux["uidMappings"], linux["gidMappings"]

    return change


KINDS = (("user", "user"), ("pid", "pid"), ("network", "net"))


@pytest.mark.parametrize("kinds", [KINDS, KINDS[::-1]], ids=["user first", "user last"])
def test_namespaces_of_a_pod(user: User, pod: int, kinds: tuple[tuple[str, str], ...]) -> None:
    """What belongs to the user namespace may be entered only from within it."""
    bundle = user.bundle(
        "sh", "-c", "for n in user pid net; do readlink /proc/self/ns/$n; done; id"
    )
    done = user("run", "--bundle", changed(bundle, joining(pod, kinds)), "j")
    assert done.returncode == 0, done.stderr
    names = ("user", "pid", "net")
    assert done.stdout.splitlines()[:3] == [os.readlink(f"/proc/{pod}/ns/{n}") for n in names]
    assert done.stdout.splitlines()[3] == "uid=0(root) gid=0(root)"


def test_exec_where_setgroups_is_denied(user: User, pod: int) -> None:
    bundle = changed(user.bundle("sleep", "60"), joining(pod, KINDS[:1]))
    null = subprocess.DEVNULL
    argv = user.argv("run", "--detach", "--bundle", bundle, "j")
    assert subprocess.run(argv, stdin=null, stdout=null, stderr=null).returncode == 0
    assert user("exec", "j", "id").stdout == "uid=0(root) gid=0(root)\n"


@pytest.mark.parametrize("words", [("kill", "j", "KILL"), ("kill", "--all", "j", "KILL"),
                                   ("delete", "--force", "j")])  # fmt: skip
def test_what_ends_a_container_spares_the_pod(user: User, pod: int, words: tuple[str, ...]) -> None:
    """Without a cgroup the pid namespace tells which processes are the container's."""
    bundle = changed(user.bundle("sleep", "60"), joining(pod, KINDS))
    null = subprocess.DEVNULL
    argv = user.argv("run", "--detach", "--bundle", bundle, "j")
    assert subprocess.run(argv, stdin=null, stdout=null, stderr=null).returncode == 0
    init = json.loads(user("state", "j").stdout)["pid"]
    assert user(*words).returncode == 0
    wait_until(lambda: not os.path.exists(f"/proc/{init}"))
    assert Path(f"/proc/{pod}/comm").read_text() == "sleep\n"


def test_clocks_of_its_own(user: User) -> None:
    def change(config: dict[str, Any]) -> None:
        config["linux"]["namespaces"].append({"type": "time"})
        config["linux"]["timeOffsets"] = {"boottime": {"secs": 7_000_000}}

    bundle = changed(user.bundle("cat", "/proc/self/timens_offsets"), change)
    done = user("run", "--bundle", bundle, "c")
    assert done.returncode == 0, done.stderr
    assert ["boottime", "7000000", "0"] in [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("no_new_privileges", [False, True])
def test_an_agent_decides(user: User, no_new_privileges: bool) -> None:
    bundle = user.bundle("sh", "-c", "mkdir /dev/shm/x 2>&1; grep -c Seccomp /proc/1/status")
    agent = Agent(bundle / "agent")
    (bundle / "agent").chmod(0o777)

    def change(config: dict[str, Any]) -> None:
        config["process"]["noNewPrivileges"] = no_new_privileges
        config["linux"]["seccomp"] = profile(bundle)

    try:
        done = user("run", "--bundle", changed(bundle, change), "a")
    finally:
        agent.listener.shutdown(socket.SHUT_RDWR)
        agent.listener.close()
        agent.thread.join()
    assert done.returncode == 0, done.stderr
    assert "Invalid cross-device link" in done.stdout
    assert len(agent.messages) == 1


@pytest.fixture
def many_ids(user: User) -> Iterator[int]:
    """A process of the user's in a user namespace with ids of others, as podman makes it."""
    words = ("unshare", "--user", "sh", "-c", "echo up; exec sleep 100")
    maker = subprocess.Popen(user.as_user(*words), stdout=subprocess.PIPE)
    assert maker.stdout and maker.stdout.readline() == b"up\n"
    for name in ("uid_map", "gid_map"):
        first, size = SUBIDS
        Path(f"/proc/{maker.pid}/{name}").write_text(f"0 {UID} 1\n1 {first} {size}\n")
    yield maker.pid
    maker.kill()
    maker.communicate()


def test_a_source_that_a_group_of_the_callers_opens(user: User, many_ids: int) -> None:
    """The container is in none of the caller's groups, but its mounts are made with them."""
    (user.home / "shared/below").mkdir(parents=True)
    os.chown(user.home / "shared", 0, 5000)
    (user.home / "shared").chmod(0o750)

    def change(config: dict[str, Any]) -> None:
        parts = ((0, 1), (1, SUBIDS[1]))
        ids = [{"containerID": n, "hostID": n, "size": size} for n, size in parts]
        config["linux"] |= {"uidMappings": ids, "gidMappings": ids}
        source = f"{user.home}/shared/below"
        config["mounts"] += [{"destination": "/x", "source": source, "options": ["bind"]}]

    bundle = changed(user.bundle("sh", "-c", "ls -d /x; id -G"), change)
    enter = ("nsenter", f"--target={many_ids}", "--user", "--preserve-credentials")
    argv = [word.replace("--clear-groups", "--groups=5000") for word in user.as_user()]
    done = run([*argv, *enter, user.path, "run", "--bundle", bundle, "g"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "/x\n0\n", "")
