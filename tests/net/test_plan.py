"""`run --dry-run` says what a run does to networks: the same, and none of it done."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from conftest import killed, wait_until
from minirun.net import firewall
from net.hosts import Host

COMMAND = re.compile(r"(nsenter -t PID -n )?(ip|bridge|sysctl|nft add) ")
LISTEN = (
    "import socket,time; s=socket.create_server(('',7070)); print(1,flush=True); time.sleep(60)"
)


def plan(host: Host, *words: str) -> list[str]:
    """Return what a dry run says of the network."""
    text = host.run("run", "--dry-run", *words)
    block = text.split("1  runtime  network, while init makes the root\n")[1].split("\n2  ")[0]
    return [line.strip() for line in block.splitlines()]


def left_alone(host: Host) -> dict[str, object]:
    """Return all that a dry run may not change.

    The kernel takes a link out of its list first, and the link's settings later.
    """
    names = "ls /proc/sys/net/ipv4/conf | grep -vxE 'all|default'"
    wait_until(lambda: sorted(host.shell(names).split()) == host.state()["links"])
    files = {str(path): path.read_bytes() for path in host.store.glob("networks/**/*")
             if path.is_file()}  # fmt: skip
    conf = host.shell("sysctl -a 2>/dev/null | grep ^net | grep -v conntrack")
    return {**host.state(), "files": files, "conf": conf, "folder": os.listdir(host.store),
            "containers": host("ps", "-aq").stdout}  # fmt: skip


def made(host: Host, pid: int) -> dict[str, Any]:
    """Return what there is of a network on the host and in the namespace of `pid`.

    A container's link is called after its id, and so another way each time.
    """
    found: dict[str, Any] = {
        "nft": host.shell("nft list ruleset"),
        "forward": sorted(
            re.sub(r"\bveth[0-9a-f]+", "veth", line)
            for line in host.shell("sysctl -a 2>/dev/null | grep forwarding").splitlines()
        ),
    }
    for place, enter in (("host", ""), ("inside", f"nsenter -t {pid} -n ")):
        for row in json.loads(host.shell(f"{enter}ip -j -d address")):
            name = row["ifname"]
            found[place, re.sub(r"^veth[0-9a-f]+", "veth", name)] = {
                "kind": row.get("linkinfo", {}).get("info_kind"), "mtu": row["mtu"],
                "alias": row.get("ifalias"), "master": row.get("master"),
                "mac": row["address"] if not name.startswith(("veth", "e0")) else "",
                "up": "UP" in row["flags"],
                "hairpin": row.get("linkinfo", {}).get("info_slave_data", {}).get("hairpin"),
                "addresses": [(one["local"], one["prefixlen"]) for one in row["addr_info"]
                              if one["scope"] == "global"],
                "settings": [
                    host.shell(f"{enter}sysctl -e -n net.ipv4.conf.{name}.{key}")
                    for key in ("route_localnet", "rp_filter", "arp_notify", "forwarding")
                ] + [
                    host.shell(f"{enter}sysctl -e -n net.ipv6.conf.{name}.{key}")
                    for key in ("accept_ra", "accept_dad", "autoconf", "disable_ipv6")
                ],
            }  # fmt: skip
        found[place, "routes"] = host.shell(f"{enter}ip route; {enter}ip -6 route | grep -v fe80")
    return found


@contextmanager
def namespace(host: Host) -> Iterator[int]:
    """Yield the pid of a process in a network namespace of its own."""
    words = [*host.inside(), "unshare", "-n", "sh", "-c", "echo $$; exec sleep 60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield int(process.stdout.readline())
        process.kill()


CASES = {
    "the default": ("-p", "8080:80"),
    "one address": ("-p", "127.0.0.1:8080:80/udp", "-p", "9000-9002:80-82"),
    "IPv6": ("--network", "six", "-p", "8080:80", "--ip6", "fd00:99::77"),
    "two": ("--network", "shop", "--network", "six", "--ip", "10.98.0.9"),
    "internal": ("--network", "vault", "--mac-address", "02:00:00:00:00:09"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_plan_by_hand_is_what_a_run_makes(network_host: Host, case: str) -> None:
    """Each line, given to a shell, makes a part of it; together they make what a run makes."""
    host, flags = network_host, CASES[case]
    host.run("network", "create", "--subnet", "10.98.0.0/24", "shop")
    host.run("network", "create", "--subnet", "10.97.0.0/24", "--subnet", "fd00:99::/64", "six")
    host.run("network", "create", "--internal", "--opt", "mtu=1400", "vault")
    words = ("--name", "web", "--hostname", "inside", *flags, "busybox", "sleep", "99")
    before = left_alone(host)
    said = plan(host, *words)
    assert left_alone(host) == before
    host.run("run", "-d", "-q", *words)
    pid = json.loads(host.run("state", "web"))["pid"]
    by_run = made(host, pid)
    requests = [event for event in host.events() if event["kind"] == "netlink"]
    sent = [line for line in said if COMMAND.match(line) and re.search(r"\b(ip|bridge) ", line)]
    assert len(sent) - 1 == len(requests), "lo is set up by init itself"
    files = [line.removeprefix("network/") for line in said if line.startswith("network/")]
    for name in ("hosts", "hostname", "resolv.conf"):
        rows = [" ".join(row.split()) for row in
                host.run("exec", "web", "cat", f"/etc/{name}").splitlines()]  # fmt: skip
        assert [line.partition(": ")[2] for line in files if line.startswith(f"{name}:")] == rows
    ports = [line.split()[1] for line in said if line.startswith("bind ")]
    bound = [line.split(" -> ")[1] for line in host.run("port", "web").splitlines()]
    assert sorted(ports) == sorted(row for row in bound if not row.startswith("[::]"))
    host.run("rm", "-f", "web")
    with namespace(host) as other:
        drawn = "".join(f"{line}\n" for line in firewall.drawing())
        subprocess.run([*host.inside(), "nft", "-f", "-"], input=drawn, text=True, check=True)
        for line in filter(COMMAND.match, said):
            words = line.replace("PID", str(other))
            assert host.shell(f"{words} >/dev/null || echo FAILED") == "", line
        by_hand = made(host, other)
    _remove(host)
    assert by_hand == by_run


def _remove(host: Host) -> None:
    """Remove what the lines have made. A namespace that ends takes its links along, but later."""
    for link in host.state()["links"]:
        if link.startswith(("minirun0", "mr-", "veth")):
            host.shell(f"ip link del {link}")
    host.shell("nft delete table inet minirun")
    host.shell("sysctl -q net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0")


def test_with_others_there(network_host: Host) -> None:
    """The bridge is there, a neighbour, a dead container's lease, a port range partly taken."""
    host = network_host
    host.run("network", "create", "shop")
    for name in ("till", "dead"):
        host.run("run", "-d", "-q", "--name", name, "--network", "shop", "busybox", "sleep", "99")
    host.run("run", "-d", "-q", "--name", "web", "-p", "8000:80", "busybox", "sleep", "99")
    pid = json.loads(host.run("state", "dead"))["pid"]
    killed(int(host.shell(f"ps -o ppid= -p {pid}")), pid)
    before = left_alone(host)
    named = ("--name", "new", "--hostname", "inside")
    words = (*named, "--network", "shop", "-p", "8000-8005:80", "busybox", "sleep", "99")
    said = plan(host, *words)
    assert left_alone(host) == before
    assert not [line for line in said if line.startswith("ip link add mr-shop")]
    assert "take back 10.89.0.3 from dead, which does not run" in said
    assert f"network/hosts: 10.89.0.2 {host.id('till')[:12]} till" in said
    assert "write anew hosts of till" in said
    assert "bind 0.0.0.0:8001 for 10.89.0.4:80/tcp, by minirun:ports" in said
    assert not [line for line in said if "ip_forward" in line], "it is on already"
    host.run("run", "-d", "-q", *words)
    assert host.run("port", "new").splitlines()[0] == "80/tcp -> 0.0.0.0:8001"
    hosts = host.run("exec", "new", "cat", "/etc/hosts").replace("\t", " ").splitlines()
    assert [f"network/hosts: {row}" for row in hosts] == [
        line for line in said if line.startswith("network/hosts: ")
    ]


@pytest.mark.parametrize("flags", [
    ("-p", "7070:80"), ("-p", "127.0.0.1:7070:80"), ("--network", "nosuch"),
    ("--network", "shop", "--ip", "10.89.0.1"), ("--network", "bridge"),
], ids=" ".join)  # fmt: skip
def test_what_stops_a_run_stops_the_plan(network_host: Host, flags: tuple[str, ...]) -> None:
    """With the same words: a port that is taken, a link of that name, an address in use."""
    host = network_host
    host.run("network", "create", "--subnet", "10.89.0.0/24", "shop")
    if flags == ("--network", "bridge"):
        host.shell("ip link add minirun0 type bridge")
    with subprocess.Popen([*host.inside(), sys.executable, "-c", LISTEN],
                          stdout=subprocess.PIPE) as other:  # fmt: skip
        assert other.stdout and other.stdout.readline() == b"1\n"
        words = ("-q", "--name", "web", *flags, "busybox", "true")
        dry, wet = host("run", "--dry-run", *words), host("run", "--rm", *words)
        other.kill()
    host.shell("ip link del minirun0")
    assert dry.returncode == wet.returncode == 125
    assert dry.stderr == wet.stderr


def test_the_default_falls_back(network_host: Host) -> None:
    host = network_host
    host.shell("ip link add minirun0 type bridge")
    words = ("--name", "web", "busybox", "true")
    said = plan(host, *words)
    wet = host("run", "--rm", "-q", *words)
    host.shell("ip link del minirun0")
    assert said[0] == "nsenter -t PID -n ip link set dev lo up"
    assert len(said) == 2 and wet.returncode == 0
    assert wet.stderr == f"minirun: warning: {said[1]}\n"
    assert "the link minirun0 is another program's" in said[1]


def test_without_a_network_there_is_little(network_host: Host) -> None:
    host = network_host
    first, *files = plan(host, "--network", "none", "busybox", "true")
    assert first == "nsenter -t PID -n ip link set dev lo up"
    assert {line.partition(":")[0] for line in files} == {
        "network/hosts", "network/hostname", "network/resolv.conf",
    }  # fmt: skip
    text = host.run("run", "--dry-run", "--network", "host", "busybox", "true")
    assert "ip link" not in text and "network/hosts" in text
    host.run("run", "-d", "-q", "--name", "web", "busybox", "sleep", "99")
    text = host.run("run", "--dry-run", "--network", "container:web", "busybox", "true")
    pid = json.loads(host.run("state", "web"))["pid"]
    assert f"            setns network /proc/{pid}/ns/net\n" in text
