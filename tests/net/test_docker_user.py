"""On a host where docker runs: packets pass, docker's own walls stay, and nothing is left.

A real dockerd, on a host of its own (a cell) with another one outside, and minirun beside it there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import killed
from engines.clients.engine import IMAGE, Docker
from net.hosts import HOST, OUTSIDE, Host, cable, namespace
from net.test_flushed import pid_of
from net.test_scenarios import GET, NO_ANSWER, address, page, serve
from required import installed

PING = ("busybox", "ping", "-c", "1", "-W", "2", OUTSIDE)
SEEN = "iptables -S DOCKER-USER"


class Forwarder(Docker):
    """dockerd drops what others forward if it was the one that switched forwarding on."""

    def set_up(self) -> None:
        self.cell.run("sysctl", "-qw", "net.ipv4.ip_forward=0", check=True)
        super().set_up()


@pytest.fixture(scope="module")
def engine(command: str) -> Iterator[tuple[Docker, int]]:
    """dockerd, for all tests of it, and the pid of the host outside."""
    for program in ("ip", "nft", "iptables"):
        installed(program)
    docker = Forwarder("runc", command)
    try:
        with namespace() as outside:
            cable(docker.cell.pid, outside)
            yield docker, outside
            docker.clean()
    finally:
        docker.close()


@pytest.fixture
def beside(engine: tuple[Docker, int], command: str, tmp_path: Path) -> Iterator[Host]:
    """minirun on docker's host. What it leaves there fails the test."""
    docker, outside = engine
    host = Host(command, tmp_path, docker.cell.pid, outside)
    if "table ip filter" not in host.shell("nft list ruleset"):
        pytest.skip("iptables here writes the legacy tables")
    before = host.shell("iptables -S; ip6tables -S; nft list tables")
    yield host
    host.clean()
    assert host.shell("iptables -S; ip6tables -S; nft list tables") == before
    assert not (host.store / "networks" / ".docker-user").exists()


def test_packets_pass(beside: Host) -> None:
    """Out of a container and to its port, without a warning; the log has the rules."""
    host, empty = beside, beside.shell(SEEN)
    assert "-P FORWARD DROP" in host.shell("iptables -S FORWARD")
    serve(host, "-p", "8080:80")
    done = host("exec", "web", "ping", "-c", "1", "-W", "2", OUTSIDE)
    assert done.returncode == 0
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    rules = host.shell(SEEN).splitlines()
    assert [line for line in rules if "minirun0" in line and "-j ACCEPT" in line] == rules[1:3]
    assert rules[0:1] + rules[3:] == empty.splitlines(), "and docker's own come last"
    said = [event["args"]["commands"] for event in host.events() if event["name"] == "nft"]
    assert any("DOCKER-USER" in line for commands in said for line in commands)
    other = host("run", "--rm", "-q", *PING)
    assert (other.returncode, other.stderr) == (0, "")
    assert host.shell(SEEN).splitlines() == rules, "the second container adds nothing"
    host.run("rm", "-f", "web")
    assert host.shell(SEEN) == empty


def test_neighbours_of_an_internal_network(beside: Host) -> None:
    """docker loads br_netfilter, so that its policy meets what a bridge passes on."""
    host, empty = beside, beside.shell(SEEN)
    assert host.shell("sysctl -n net.bridge.bridge-nf-call-iptables") == "1"
    host.run("network", "create", "--internal", "vault")
    serve(host, "--network", "vault")
    ask = ("busybox", "sh", "-c", f"{GET} {address(host, 'web')} 80")
    done = host("run", "--rm", "-q", "--network", "vault", *ask)
    assert (done.stdout, done.stderr) == ("hello\n", "")
    assert len(host.shell(SEEN).splitlines()) == len(empty.splitlines()) + 1
    host.run("rm", "-f", "web")
    assert host.shell(SEEN) == empty
    host.run("network", "rm", "vault")


def test_what_is_said_before(beside: Host) -> None:
    """--dry-run names the rules, doctor where they will stand; neither changes anything."""
    host, empty = beside, beside.shell("nft list ruleset")
    said = host.run("run", "--dry-run", *PING)
    assert "nft add rule ip filter DOCKER-USER oifname" in said
    assert "no way out" not in said
    rows = json.loads(host("doctor", "--json").stdout)["findings"]
    row = next(one for one in rows if one["name"] == "forwarded packets")
    assert row["works"]
    assert "DOCKER-USER" in row["found"]
    assert host.shell("nft list ruleset") == empty


def test_dockers_walls_stay(engine: tuple[Docker, int], beside: Host) -> None:
    """Neither one's containers come to what the other one's do not publish."""
    docker, host = engine[0], beside
    docker("run", "-d", "--name", "inner", "-p", "8090:80", IMAGE, "sh", "-c",
           "mkdir /w; echo docker > /w/index.html; httpd -p 81 -h /w; exec httpd -f -p 80 -h /w"
           )  # fmt: skip
    at = docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", "inner")
    serve(host, "-p", "8080:80")
    assert host("exec", "web", "sh", "-c", f"{GET} {at} 81").stdout == ""
    ours = host.run("inspect", "--json", "web").split('"addresses"')[2].split('"')[1].split("/")[0]
    assert docker.full("exec", "inner", "sh", "-c", f"{GET} {ours} 80").stdout == ""
    assert docker("exec", "inner", "sh", "-c", f"{GET} {HOST} 8080") == "hello"
    assert host.run("exec", "web", "sh", "-c", f"{GET} {HOST} 8090") == "docker"
    assert page(host, f"{HOST}:8090", outside=True) == "docker"
    docker("rm", "-f", "inner")


def test_the_administrators_rules_come_first(beside: Host) -> None:
    """What DOCKER-USER drops is dropped: a line says so, and doctor."""
    host = beside
    host.shell(f"iptables -I DOCKER-USER -d {OUTSIDE} -j DROP")
    done = host("run", "--rm", "-q", *PING)
    assert done.returncode == 1
    host.shell(f"iptables -D DOCKER-USER -d {OUTSIDE} -j DROP")
    host.shell("iptables -I DOCKER-USER -i minirun0 -j DROP")
    done = host("run", "--rm", "-q", *PING)
    assert done.returncode == 1
    assert "chain DOCKER-USER of table ip filter drops its packets" in done.stderr
    rows = json.loads(host("doctor", "--json").stdout)["findings"]
    row = next(one for one in rows if one["name"] == "forwarded packets")
    assert not row["works"]
    host.shell("iptables -D DOCKER-USER -i minirun0 -j DROP")


def test_after_a_kill_and_after_a_flush(beside: Host) -> None:
    """`gc` takes them back; `network reload` brings back those that docker's restart has lost."""
    host, empty = beside, beside.shell(SEEN)
    serve(host, "-p", "8080:80")
    rules = host.shell(SEEN)
    host.shell("iptables -F DOCKER-USER; iptables -A DOCKER-USER -j RETURN")
    assert page(host, f"{HOST}:8080", outside=True) == NO_ANSWER
    host.run("network", "reload")
    assert host.shell(SEEN) == rules
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    pid = pid_of(host, "web")
    killed(int(host.shell(f"ps -o ppid= -p {pid}")), pid)
    host.run("gc")
    assert host.shell(SEEN) == empty


def test_two_stores(beside: Host, tmp_path: Path) -> None:
    """Each takes back its own rules alone."""
    host = beside
    (tmp_path / "second").mkdir()
    other = Host(host.path, tmp_path / "second", host.pid, host.outside)
    serve(host, "-p", "8080:80")
    serve(other, "-p", "8081:80")
    host.run("rm", "-f", "web")
    host.run("gc")
    assert page(host, f"{HOST}:8081", outside=True) == "hello"
    assert "minirun0" not in host.shell(SEEN).replace(f"minirun {other.store}", "")
    other.clean()
