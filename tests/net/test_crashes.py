"""SIGKILL at any moment, and many at once: after `gc` nothing of a network is left."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from conftest import killed, wait_until
from core.lifecycle.leftovers import Family
from minirun.net import network
from net.hosts import Host

MOMENTS = int(os.environ.get("MINIRUN_MOMENTS") or 8)
"""How many moments are tried. 200 take some minutes."""
ROUNDS = int(os.environ.get("MINIRUN_ROUNDS") or 1)
"""How often twenty containers are started and removed at once. 25 take some minutes."""
TOGETHER = 20


@pytest.mark.parametrize("killed", ["run", "delete"])
def test_killed_at_any_moment(network_host: Host, killed: str) -> None:
    """What `run` has begun `gc` finishes, and what `delete` has, `delete` again."""
    host, before = network_host, network_host.state()
    run = ("run", "-q", "--name", "web", "-p", "8080:80", "busybox", "sleep", "60")
    start = time.monotonic()
    host.run(*run[:2], "-d", *run[2:])
    seconds = time.monotonic() - start
    start = time.monotonic()
    host.run("delete", "--force", "web")
    seconds = seconds if killed == "run" else time.monotonic() - start
    for moment in range(MOMENTS):
        if killed == "delete":
            host.run(*run[:2], "-d", *run[2:])
            process = host.start("delete", "--force", "web")
        else:
            process = host.start(*run)
        time.sleep(seconds * (moment + random.random()) / MOMENTS)
        family = Family(process.pid)
        process.kill()
        process.communicate(timeout=10)
        if killed == "delete" and host.directory("web").exists():
            host("delete", "--force", "web")
        assert host("gc").returncode == 0
        wait_until(lambda family=family: family.alive() == [])  # type: ignore[misc]
        after = host.state()
        assert {key: after[key] for key in before if after[key] != before[key]} == {}, moment
        if killed == "run" and host.left() == ["web"]:  # it was whole, and stays, as it has no --rm
            assert "stopped" in host.run("state", "web")
            host.run("delete", "web")
        assert host.left() == []


def _inits(host: Host) -> list[int]:
    """Return the containers' first processes that live on without their supervisor."""
    found = []
    for path in host.root.glob("*/state.json"):
        text = path.read_text()
        if '"init":{"pid":' in text:
            found.append(int(text.split('"init":{"pid":')[1].split(",")[0]))
    return found


def test_many_at_once(network_host: Host) -> None:
    """Twenty containers come and go on one bridge: no error, no address twice, nothing left."""
    host, before = network_host, network_host.state()
    text = "ip -o -4 address show eth0; sleep 0.5"
    for _ in range(ROUNDS):
        processes = [
            host.start("run", "--rm", "-q", "-p", "80", "busybox", "sh", "-c", text)
            for _ in range(TOGETHER)
        ]
        said = [process.communicate(timeout=120) for process in processes]
        assert [error for _, error in said if error] == []
        addresses = Counter(out.split()[3] for out, _ in said)
        assert len(addresses) == TOGETHER, addresses
        after = host.state()
        assert {key: after[key] for key in before if after[key] != before[key]} == {}


def test_a_command_that_waits_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Another one may be held at a gate by a person who reads."""
    monkeypatch.setattr(network, "_PATIENCE", 0.1)
    store, order = str(tmp_path), []

    def wait() -> None:
        with network.locked(store):
            order.append("second")

    second = threading.Thread(target=wait)
    with network.locked(store):
        second.start()
        said = ""
        while "\n" not in said:
            said += capfd.readouterr().err
        order.append("first")
    second.join(5)
    assert order == ["first", "second"]
    assert said.startswith("minirun: warning: waiting for another command that changes networks")


def test_after_a_reboot(network_host: Host) -> None:
    """Leases of dead containers, and no bridge: as a machine that starts anew finds them."""
    host = network_host
    host.run("network", "create", "shop")
    for name, where in (("one", "shop"), ("two", "bridge")):
        host.run("run", "-d", "-q", "--name", name, "--network", where, "-p", "80", "busybox",
                 "sleep", "99")  # fmt: skip
    killed(*_inits(host))
    host.shell("ip link del minirun0; ip link del mr-shop; nft flush ruleset")
    for where in ("shop", "bridge"):
        host.run("run", "--rm", "-q", "--network", where, "-p", "80", "busybox", "true")
    assert host("gc").returncode == 0
