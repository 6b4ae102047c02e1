"""Another program takes the rules away, or another store is on the host: what stays shut and open.

`nft flush ruleset` is what a firewall's reload does: /etc/nftables.conf begins with it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import killed
from net.hosts import HOST, OUTSIDE, Host
from net.test_scenarios import GET, NO_ANSWER, address, page, serve
from net.test_walls import ended, listening

MORE = ("run", "--rm", "-q", "busybox", "true")
LOSSES = (
    "nft flush ruleset",
    "nft flush table inet minirun",
    "nft flush set inet minirun bridges; nft flush map inet minirun ports4",
)
WHOLE: dict[str, tuple[str, ...]] = {
    "the next container": MORE,
    "gc": ("gc",),
    "network reload": ("network", "reload"),
}


def pid_of(host: Host, name: str) -> int:
    return int(host.run("state", name).split('"pid": ')[1].split(",")[0])


def localnet(host: Host, bridge: str) -> str:
    return host.shell(f"cat /proc/sys/net/ipv4/conf/{bridge}/route_localnet")


def reaches_loopback(host: Host, name: str, gateway: str) -> bool:
    """Return True if a container comes to the host's 127.0.0.1:7777 by way of its gateway."""
    own = ["nsenter", f"--net=/proc/{pid_of(host, name)}/ns/net"]
    text = f"""ip address del 127.0.0.1/8 dev lo 2>/dev/null
        sysctl -qw net.ipv4.conf.eth0.route_localnet=1
        ip route flush table local type local dev lo 2>/dev/null
        ip route replace 127.0.0.1/32 via {gateway} dev eth0"""
    subprocess.run([*own, "sh", "-c", text], check=True)
    code = "import socket; socket.create_connection(('127.0.0.1', 7777), timeout=1)"
    done = subprocess.run([*own, sys.executable, "-c", code], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("way", WHOLE)
def test_all_networks_are_whole_again(network_host: Host, way: str) -> None:
    """Ports, masquerade and walls of each network, whichever is the next one to draw."""
    host = network_host
    for words in (("shop",), ("--internal", "vault"), ("empty",)):
        host.run("network", "create", *words)
    serve(host, "-p", "8080:80", name="web")
    serve(host, "-p", "8081:80", "--network", "shop", name="till")
    serve(host, "--network", "vault", name="safe")
    before = host.shell("nft list table inet minirun")
    for loss in LOSSES:
        host.shell(loss)
        done = host(*WHOLE[way])
        assert done.returncode == 0
        assert done.stderr == ""
        assert host.shell("nft list table inet minirun") == before, loss
        for port in (8080, 8081):
            assert page(host, f"{HOST}:{port}", outside=True) == "hello", (loss, port)
        if way == "network reload":
            assert done.stdout.split() == ["bridge", "shop", "vault"]
        if way == "gc":
            assert "drew anew the rules of networks bridge, shop, vault: " in done.stdout
    wall = f"{GET} {address(host, 'till')} 80"
    assert host("exec", "web", "sh", "-c", wall).stdout == ""
    ping = f"ping -c 1 -W 2 {OUTSIDE} >/dev/null && echo out"
    assert host.run("exec", "till", "sh", "-c", ping) == "out"
    assert host.run("gc") == "", "nothing is lost: nothing is said"


def test_the_end_of_a_container_draws_the_others(network_host: Host) -> None:
    host = network_host
    host.run("network", "create", "shop")
    serve(host, "-p", "8080:80", name="web")
    before = host.shell("nft list table inet minirun")
    serve(host, "-p", "8081:80", "--network", "shop", name="till")
    host.shell("nft flush ruleset")
    host.run("rm", "-f", "till")
    assert host.shell("nft list table inet minirun") == before
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    host.run("rm", "-f", "web")
    assert host.shell("nft list tables") == ""


def test_ip_forward_comes_back_with_a_reload(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80")
    host.shell("sysctl -q net.ipv4.ip_forward=0")
    assert page(host, f"{HOST}:8080", outside=True) == NO_ANSWER
    host.run("network", "reload")
    assert page(host, f"{HOST}:8080", outside=True) == "hello"


def test_a_reload_of_nothing(network_host: Host) -> None:
    host = network_host
    assert host.run("network", "reload") == ""
    assert host.shell("nft list ruleset") == ""
    done = host("network", "reload", "web")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("flags", "is_on"),
    [
        ((), "0"), (("-p", "8080:80"), "1"), (("-p", "127.0.0.1:8080:80"), "1"),
        (("-p", "127.0.0.9:8080:80/udp"), "1"), (("-p", f"{HOST}:8080:80"), "0"),
        (("-p", "[::1]:8080:80"), "0"),
    ],
    ids=["no port", "every address", "127.0.0.1", "127.0.0.9", "one of the host's", "::1"],
)  # fmt: skip
def test_route_localnet_is_for_a_port_of_127(
    network_host: Host, flags: tuple[str, ...], is_on: str
) -> None:
    """It is on only while such a port is published, on the bridge that it leads to."""
    host = network_host
    host.run("network", "create", "--ipv6", "shop")
    host.run("run", "-d", "-q", "--name", "stays", "--network", "shop", "busybox", "sleep", "99")
    assert localnet(host, "mr-shop") == "0"
    host.run("run", "-d", "-q", "--name", "web", "--network", "shop", *flags, "busybox", "sleep",
             "99")  # fmt: skip
    assert localnet(host, "mr-shop") == is_on
    host.run("rm", "-f", "web")
    assert localnet(host, "mr-shop") == "0"


def test_the_hosts_loopback_without_rules(network_host: Host) -> None:
    """Where the rules are gone, 127.0.0.1 of the host is out of reach: no route leads there."""
    host = network_host
    host.run("network", "create", "--internal", "vault")
    server = listening(host, "127.0.0.1", 7777)
    for name, where in (("in", "bridge"), ("safe", "vault")):
        host.run("run", "-d", "-q", "--name", name, "--network", where, "busybox", "sleep", "99")
    host.shell("nft flush ruleset")
    assert not reaches_loopback(host, "in", "10.88.0.1")
    assert not reaches_loopback(host, "safe", "10.89.0.1")
    ended(server)


def test_an_internal_network_and_others_ports(network_host: Host) -> None:
    """Its bridge is older than the host's forwarding, which the second container switches on."""
    host = network_host
    host.run("network", "create", "--internal", "--ipv6", "vault")
    host.run("run", "-d", "-q", "--name", "safe", "--network", "vault", "busybox", "sleep", "99")
    serve(host, "-p", "8080:80")
    gateway = host.shell("ip -6 -o address show dev mr-vault scope global").split()[3].split("/")[0]
    for at in (HOST, "10.89.0.1", address(host, "web"), gateway):
        way = "ip route add default via 10.89.0.1 2>/dev/null; "
        port = 80 if at == address(host, "web") else 8080
        own = ["nsenter", f"--net=/proc/{pid_of(host, 'safe')}/ns/net"]
        subprocess.run([*own, "sh", "-c", f"{way} true"], check=True)
        code = f"import socket; socket.create_connection(('{at}', {port}), timeout=1)"
        done = subprocess.run([*own, sys.executable, "-c", code], capture_output=True, check=False)
        assert done.returncode != 0, at
    assert page(host, f"{HOST}:8080", outside=True) == "hello"


class Second:
    """Another store of the same host."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        folder.mkdir()
        other = Host(host.path, folder, host.pid, host.outside)
        self.run: Callable[..., str] = other.run
        self.call = other


def test_two_stores_on_one_host(network_host: Host, tmp_path: Path) -> None:
    """Each has a default network and one called shop; neither takes anything from the other."""
    host, other = network_host, Second(network_host, tmp_path / "second")
    serve(host, "-p", "8080:80")
    serve(other.call, "-p", "8081:80")
    host.run("network", "create", "shop")
    serve(host, "-p", "8082:80", "--network", "shop", name="till")
    other.run("network", "create", "shop")
    serve(other.call, "-p", "8083:80", "--network", "shop", name="till")
    for port in (8080, 8081, 8082, 8083):
        assert page(host, f"{HOST}:{port}", outside=True) == "hello", port
    wall = f"{GET} {address(other.call, 'web')} 80"
    assert host("exec", "web", "sh", "-c", wall).stdout == "", "a wall between them"
    host.run("rm", "-f", "web", "till")
    host.run("gc")
    for port in (8081, 8083):
        assert page(host, f"{HOST}:{port}", outside=True) == "hello", port
    host.shell("nft flush ruleset")
    host.run(*MORE)
    other.run("network", "reload")
    for port in (8081, 8083):
        assert page(host, f"{HOST}:{port}", outside=True) == "hello", port
    other.run("rm", "-f", "web", "till")
    assert host.shell("nft list tables") == ""
    host.run(*MORE)


def test_a_subnet_of_another_store(network_host: Host, tmp_path: Path) -> None:
    """Both were created while neither had a bridge: the second one does not start, in one line."""
    host, other = network_host, Second(network_host, tmp_path / "second")
    for each in (host, other.call):
        each.run("network", "create", "--subnet", "10.77.0.0/24", "shop")
    host.run("run", "-d", "-q", "--name", "web", "--network", "shop", "busybox", "sleep", "99")
    done = other.call("run", "--rm", "-q", "--network", "shop", "busybox", "true")
    assert done.returncode == 125
    assert "the subnet 10.77.0.0/24 of network shop is in use by minirun network shop of " in (
        done.stderr
    )
    assert done.stderr.count("\n") == 1
    assert host("exec", "web", "ping", "-c", "1", "-W", "2", "10.77.0.1").returncode == 0


def test_two_stores_come_and_go_at_once(network_host: Host, tmp_path: Path) -> None:
    """One's last element goes while the other's first one comes: the table stays the other's."""
    host, other = network_host, Second(network_host, tmp_path / "second")
    for _ in range(8):
        going = host.start("run", "--rm", "-q", "busybox", "true")
        other.run("run", "-d", "-q", "--name", "web", "-p", "8081:80", "busybox", "sleep", "99")
        assert going.communicate(timeout=30)[1] == ""
        assert "8081" in host.shell("nft list map inet minirun ports4")
        other.run("rm", "-f", "web")
    assert host.shell("nft list tables") == ""


def test_a_dead_ones_port_on_another_network(network_host: Host) -> None:
    """Its supervisor and its init were killed: what it published does not stop the next."""
    host = network_host
    host.run("network", "create", "shop")
    host.run("run", "-d", "-q", "--name", "web", "--network", "shop", "-p", "8080:80", "busybox",
             "sleep", "99")  # fmt: skip
    pid = pid_of(host, "web")
    killed(int(host.shell(f"ps -o ppid= -p {pid}")), pid)
    serve(host, "-p", "8080:80", name="next")
    assert page(host, f"{HOST}:8080", outside=True) == "hello"


def test_an_init_that_fails_early_says_one_line(network_host: Host) -> None:
    """Its namespace is gone before its cable comes: what is told is why, and no word of a veth."""
    host = network_host
    for flags in ((), ("--network", "bridge"), ("-p", "8080:80")):
        for _ in range(3):
            done = host("run", "--rm", "-q", *flags, "--tmpfs", "/proc/self/nosuch", "busybox",
                        "true")  # fmt: skip
            assert done.returncode != 0
            assert done.stderr.count("\n") == 1, done.stderr
            assert "veth" not in done.stderr
            assert "no network" not in done.stderr
