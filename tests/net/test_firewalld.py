"""On a host where firewalld runs: packets pass while a network is up, and its zones are as before.

A real firewalld with a D-Bus of its own, in a cell, and minirun in there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.clients.cell import Cell
from net.hosts import HOST, OUTSIDE, Host, cable, namespace
from net.test_beside_docker import serving
from net.test_scenarios import page, serve
from required import installed

CONNECT = f"echo word | nc -w 2 {OUTSIDE} 6000"
"""By TCP: firewalld lets ICMP pass."""
RUN = ("run", "--rm", "-q", "busybox", "sh", "-c", CONNECT)
SOURCES = "firewall-cmd --zone=trusted --list-sources"
TABLES = "nft list tables"


class InCell(Host):
    """minirun in all of a cell's namespaces: firewall-cmd finds the cell's D-Bus there."""

    cell: Cell

    def inside(self, pid: int = 0) -> list[str]:
        unset = ("env", "-u", "MINIRUN_NETWORK")
        return self.cell.argv(*unset) if pid in (0, self.pid) else super().inside(pid)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Cell, int]]:
    """firewalld, for all tests of it, and the pid of the host outside."""
    for program in ("ip", "nft", "dbus-daemon"):
        installed(program)
    if not shutil.which("firewalld"):  # `make tested` installs none: it would run at once
        pytest.skip("firewalld is not installed")
    cell = Cell()
    try:
        cell.run("mkdir", "-p", "/run/dbus", "/run/lock", check=True)
        cell.run("dbus-daemon", "--system", "--fork", check=True)
        cell.start("firewalld", "--nofork", "--nopid", log="firewalld")
        cell.wait_for(lambda: cell.run("firewall-cmd", "--state").returncode == 0, "firewalld")
        with namespace() as outside:
            cable(cell.pid, outside)
            with serving(["nsenter", f"--net=/proc/{outside}/ns/net"], 6000):
                yield cell, outside
    finally:
        cell.close()


@pytest.fixture
def beside(running: tuple[Cell, int], command: str, tmp_path: Path) -> Iterator[InCell]:
    """minirun on firewalld's host. What it leaves there fails the test."""
    host = InCell(command, tmp_path, running[0].pid, running[1])
    host.cell = running[0]
    before = host.shell(f"{SOURCES}; {TABLES}")
    yield host
    host.clean()
    assert host.shell(f"{SOURCES}; {TABLES}") == before
    assert not (host.store / "networks" / ".firewalld").exists()


def reaches(host: Host) -> bool:
    return host("exec", "web", "sh", "-c", CONNECT).stdout == "WORD\n"


def test_packets_pass(beside: InCell) -> None:
    host = beside
    serve(host, "-p", "8080:80")
    assert reaches(host)
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    assert host.shell(SOURCES) == "10.88.0.0/16"
    said = [event for event in host.events() if event["name"] == "firewall-cmd"]
    assert [one["args"]["arguments"][1] for one in said] == ["--add-source=10.88.0.0/16"]
    done = host(*RUN)
    assert (done.stdout, done.stderr) == ("WORD\n", "")
    host.run("rm", "-f", "web")
    assert host.shell(SOURCES) == ""


def test_what_is_said_before(beside: InCell) -> None:
    host = beside
    said = host.run("run", "--dry-run", *RUN[3:])
    assert "firewall-cmd --zone=trusted --add-source=10.88.0.0/16" in said
    assert "no way out" not in said
    rows = json.loads(host("doctor", "--json").stdout)["findings"]
    row = next(one for one in rows if one["name"] == "forwarded packets")
    assert row["works"]
    assert "zone trusted" in row["found"]
    assert host.shell(SOURCES) == ""


def test_after_its_reload_and_after_a_kill(beside: InCell) -> None:
    host = beside
    serve(host, "-p", "8080:80")
    assert host.shell("firewall-cmd --reload") == "success"
    assert not reaches(host)
    host.run("network", "reload")
    assert reaches(host)
    pid = int(host.run("state", "web").split('"pid": ')[1].split(",")[0])
    for each in (int(host.shell(f"ps -o ppid= -p {pid}")), pid):
        host.shell(f"kill -{int(signal.SIGKILL)} {each}")
    host.run("gc")
    assert host.shell(SOURCES) == ""
    assert os.listdir(host.store / "networks" / "bridge" / "leases") == [".last"]


def test_what_the_administrator_has_put_into_a_zone(beside: InCell) -> None:
    """It stays there; a zone that drops goes on dropping, and a line says so."""
    host = beside
    host.shell("firewall-cmd --zone=trusted --add-source=10.88.0.0/16")
    done = host(*RUN)
    assert (done.stdout, done.stderr) == ("WORD\n", "")
    assert host.shell(SOURCES) == "10.88.0.0/16"
    host.shell("firewall-cmd --zone=trusted --remove-source=10.88.0.0/16")
    host.shell("firewall-cmd --zone=drop --add-source=10.88.0.0/16")
    done = host(*RUN)
    assert done.stdout == ""
    assert "of table inet firewalld drops its packets" in done.stderr
    host.shell("firewall-cmd --zone=drop --remove-source=10.88.0.0/16")
