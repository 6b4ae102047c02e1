"""`network why` names the first thing that stops a packet: each cause is made for real."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import wait_until
from minirun.faces.inspect.network.why import NOT_LOOKED_AT
from net.hosts import HOST, HOST6, OUTSIDE, OUTSIDE6, Host
from net.test_scenarios import NO_ANSWER, REFUSED, page
from required import skip

PAGE = "mkdir /www; echo hello > /www/index.html; exec httpd -f -h /www -p "
DOCKERS = (
    "nft add table ip filter",
    "nft 'add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'",
)
"""docker's FORWARD policy, as iptables-nft writes it."""


def serve(host: Host, *flags: str, at: str = "80", name: str = "web") -> None:
    """Start a web server at a port, or at ADDRESS:PORT, and wait until it listens."""
    host.run("run", "-d", "-q", "--name", name, *flags, "busybox", "sh", "-c", PAGE + at)
    wait_until(lambda: " LISTEN" in host("exec", name, "netstat", "-tln").stdout)


def why(host: Host, *words: str) -> dict[str, Any]:
    """Return the first thing that stops a packet; without any, {}. Its exit status fits."""
    before = host.state()
    done = host("network", "why", "--json", *words)
    assert done.stderr == ""
    first: dict[str, Any] = json.loads(done.stdout)["first"] or {}
    assert done.returncode == int(first.get("verdict") == "STOPS"), done.stdout
    assert host.state() == before, "it asks, and changes nothing"
    return first


def is_first(found: dict[str, Any], name: str, verdict: str, *texts: str) -> None:
    """Check what is named first, and that it says what to do."""
    assert (found.get("name"), found.get("verdict")) == (name, verdict), found
    for text in texts:
        assert text in found["text"], found
    assert found["advice"], found


@contextmanager
def changed(host: Host, *commands: str, back: str) -> Iterator[None]:
    """Change something of the host, and put it back."""
    try:
        for command in commands:
            assert host.shell(command) == "", command
        yield
    finally:
        assert host.shell(back) == ""


def pid_of(host: Host, name: str) -> str:
    return str(json.loads(host.run("state", name))["pid"])


def test_nothing_stops_it(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80", "--dns", OUTSIDE)
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    assert why(host, "web") == {}
    text = host.run("network", "why", "web")
    assert "in: tcp 8080 of every address to 10.88.0.2 port 80" in text
    assert text.splitlines()[-2:] == [
        "nothing stops a packet of web, as far as this host can see", NOT_LOOKED_AT,
    ]  # fmt: skip


def test_1_it_listens_on_loopback(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80", at="127.0.0.1:80")
    assert page(host, f"{HOST}:8080", outside=True) == REFUSED
    is_first(why(host, "web"), "listens", "STOPS", "127.0.0.1 alone")
    text = host("network", "why", "web").stdout
    assert "  STOPS   listens " in text
    assert "what to do: let it listen on 0.0.0.0" in text


def test_2_another_tables_policy(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80")
    with changed(host, *DOCKERS, back="nft delete table ip filter"):
        assert page(host, f"{HOST}:8080", outside=True) == NO_ANSWER
        found = why(host, "web")
        is_first(found, "firewall", "STOPS", "chain FORWARD of table ip filter", "policy drop")
        assert found["way"].startswith("in: tcp 8080")
        assert "iptables -I FORWARD -i minirun0 -j ACCEPT" in found["advice"]
        for way in "io":
            host.shell(f"nft add rule ip filter FORWARD {way}ifname minirun0 counter accept")
        assert page(host, f"{HOST}:8080", outside=True) == "hello"
        assert why(host, "web") == {}, "what to do helps"


def test_2_a_rule_that_is_not_understood_is_no_verdict(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80")
    rule = "nft add rule ip filter FORWARD meta mark 7 accept"
    with changed(host, *DOCKERS, rule, back="nft delete table ip filter"):
        is_first(why(host, "web"), "firewall", "unknown", "FORWARD", "mark 7")


def test_2_rules_of_iptables(network_host: Host) -> None:
    """A state, and a target of its own, are known; a match of its own that nft has not is not."""
    host = network_host
    if not shutil.which("iptables-nft"):
        skip("iptables-nft is not installed")
    serve(host, "-p", "8080:80")
    states = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
    rule = "iptables-nft -A FORWARD"
    back = "nft delete table ip filter"
    with changed(host, "iptables-nft -P FORWARD DROP", f"{rule} -i docker0 {states}", back=back):
        is_first(why(host, "web"), "firewall", "STOPS", "chain FORWARD", "policy drop")
        assert host.shell(f"{rule} {states}") == ""
        is_first(why(host, "web"), "firewall", "STOPS", "chain FORWARD", "policy drop")
        assert host.shell(f"{rule} -m physdev --physdev-is-bridged -j ACCEPT") == ""
        is_first(why(host, "web"), "firewall", "unknown", "policy drop, unless", "xt physdev")
    with changed(host, f"{rule} -o minirun0 -j REJECT", back=back):
        assert page(host, f"{HOST}:8080", outside=True) == REFUSED
        is_first(why(host, "web"), "firewall", "STOPS", "oifname minirun0", "REJECT")


def test_2_rules_that_nft_does_not_list(network_host: Host) -> None:
    host = network_host
    if not shutil.which("iptables-legacy") or host.shell("iptables-legacy -P FORWARD DROP"):
        skip("iptables-legacy is not installed, or this kernel has no tables of it")
    serve(host, "-p", "8080:80")
    assert page(host, f"{HOST}:8080", outside=True) == NO_ANSWER
    is_first(why(host, "web"), "firewall", "unknown", "iptables-legacy")


def test_2_between_neighbours_too(network_host: Host) -> None:
    """With br_netfilter, as docker loads it, packets of one bridge meet the forward chains too."""
    host = network_host
    host.run("network", "create", "shop")
    serve(host, "--network", "shop")
    host.run("run", "-d", "-q", "--name", "guest", "--network", "shop", "busybox", "sleep", "99")
    setting = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    there = setting.exists() and host.shell(f"cat {setting}") == "1"
    with changed(host, *DOCKERS, back="nft delete table ip filter"):
        said = host("exec", "guest", "nc", "-w", "2", "10.89.0.2", "80", input="GET /\r\n\r\n")
        assert ("hello" in said.stdout) == (not there)
        found = why(host, "guest", "web:80")
        if there:
            is_first(found, "firewall", "STOPS", "policy drop")
        else:
            assert found == {}


def test_2_the_way_out_by_another_tables_jumps(network_host: Host) -> None:
    """The container publishes nothing; docker's own bridges are accepted, in a chain of theirs."""
    host = network_host
    host.run("run", "-d", "-q", "--name", "c", "busybox", "sleep", "99")
    more = (
        "nft add chain ip filter OWN", "nft add rule ip filter FORWARD counter jump OWN",
        "nft add rule ip filter OWN iifname docker0 oifname != docker0 counter accept",
        "nft 'add rule ip filter OWN ip saddr { 172.17.0.0/16, 10.89.0.1-10.89.0.9 } accept'",
    )  # fmt: skip
    with changed(host, *DOCKERS, *more, back="nft delete table ip filter"):
        found = why(host, "c")
        is_first(found, "firewall", "STOPS", "chain FORWARD")
        assert found["way"].startswith("out:")


def test_3_the_host_does_not_forward(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80")
    put = "sysctl -q -w net.ipv4.ip_forward"
    with changed(host, f"{put}=0", back=f"{put}=1"):
        assert page(host, f"{HOST}:8080", outside=True) == NO_ANSWER
        is_first(why(host, "web"), "forwarding", "STOPS", "net.ipv4.ip_forward is 0")
        is_first(why(host, "web", f"{OUTSIDE}:80"), "forwarding", "STOPS")


def test_4_no_default_route(network_host: Host) -> None:
    host = network_host
    host.run("run", "-d", "-q", "--name", "c", "busybox", "sleep", "99")
    net = f"nsenter -t {pid_of(host, 'c')} -n ip route"
    assert host.shell(f"{net} del default") == ""
    found = why(host, "c")
    is_first(found, "default route", "STOPS", "none")
    is_first(why(host, "c", f"{OUTSIDE}:80"), "default route", "STOPS", OUTSIDE)
    assert host.shell(found["advice"]) == ""
    assert why(host, "c", f"{OUTSIDE}:80")["name"] == "answer", "what to do helps"


def test_5_a_dns_server_on_loopback(network_host: Host) -> None:
    host = network_host
    flags = ("-d", "-q", "--name", "c", "--dns", "127.0.0.53")
    host.run("run", *flags, "busybox", "sleep", "99")
    is_first(why(host, "c"), "DNS servers", "STOPS", "127.0.0.53", "nothing listens")
    is_first(why(host, "c", "example.org:80"), "DNS servers", "STOPS", "127.0.0.53")


def test_6_a_smaller_mtu(network_host: Host) -> None:
    host = network_host
    host.run("run", "-d", "-q", "--name", "c", "busybox", "sleep", "99")
    with changed(host, "ip link set e0 mtu 1400", back="ip link set e0 mtu 1500"):
        found = why(host, "c")
        is_first(found, "MTU", "partly", "e0 carries 1400 bytes", "1500")
        assert "--opt mtu=1400" in found["advice"]


def test_7_a_route_of_the_host_in_the_subnet(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80")
    route = f"10.88.0.0/24 via {OUTSIDE}"
    with changed(host, f"ip route add {route}", back=f"ip route del {route}"):
        assert page(host, f"{HOST}:8080") != "hello"
        texts = ("10.88.0.2 to e0", "10.88.0.0/24 overlaps the subnet 10.88.0.0/16")
        is_first(why(host, "web"), "route", "STOPS", *texts)


def test_7_a_host_elsewhere_with_an_address_of_the_subnet(network_host: Host) -> None:
    host = network_host
    host.run("run", "-d", "-q", "--name", "c", "busybox", "sleep", "99")
    is_first(why(host, "c", "10.88.7.7:80"), "neighbour", "STOPS", "no container has 10.88.7.7")


def test_8_ipv6_on_one_side(network_host: Host) -> None:
    host = network_host
    host.run("network", "create", "--ipv6", "--subnet", "fd00:99::/64", "six")
    serve(host, "--network", "six", "-p", "8080:80", at="0.0.0.0:80")
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    assert page(host, f"[{HOST6}]:8080", outside=True) == REFUSED
    is_first(why(host, "web"), "listens", "partly", "IPv6", "0.0.0.0", "fd00:99::2")
    host.run("run", "-d", "-q", "--name", "four", "busybox", "sleep", "99")
    is_first(why(host, "four", f"[{OUTSIDE6}]:80"), "route", "STOPS", "no network", "IPv6")


def test_9_a_port_of_one_address(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "127.0.0.1:8080:80")
    assert page(host, f"{HOST}:8080", outside=True) == REFUSED
    assert page(host, "[::1]:8080") == REFUSED
    found = why(host, "web")
    is_first(found, "published at", "partly", "127.0.0.1 alone: other hosts are refused", "::1")
    assert "leave the address out" in found["advice"]


def test_10_a_stale_hosts_file(network_host: Host) -> None:
    """Another program has replaced the file on the host: the container keeps the old one."""
    host = network_host
    host.run("network", "create", "--subnet", "10.89.0.0/24", "shop")
    serve(host, "--network", "shop")
    host.run("run", "-d", "-q", "--name", "guest", "--network", "shop", "busybox", "sleep", "99")
    file = shlex.quote(str(host.directory("guest") / "network/hosts"))
    host.shell(f"cp {file} {file}.new; mv {file}.new {file}")
    host.run("rm", "-f", "web")
    serve(host, "--network", "shop", "--ip", "10.89.0.99")
    assert "10.89.0.99" not in host.run("exec", "guest", "cat", "/etc/hosts")
    for words in (("guest",), ("guest", "web:80")):
        is_first(why(host, *words), "hosts file", "STOPS", "web is", "10.89.0.99")


def test_the_rules_were_flushed(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80")
    host.shell("nft flush ruleset")
    is_first(why(host, "web"), "NAT", "STOPS", "table inet minirun is gone")


def test_links_that_were_changed(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80")
    link = next(name for name in host.shell("ip -brief link").split() if name.startswith("veth"))
    link = link.partition("@")[0]
    for change, back, name, text in (
        ("ip link set minirun0 down", "ip link set minirun0 up", "bridge", "is down"),
        (f"ip link set {link} down", f"ip link set {link} up", "cable", "is down"),
        (f"ip link set {link} nomaster", f"ip link set {link} master minirun0", "cable", "not in"),
    ):
        with changed(host, change, back=back):
            found = why(host, "web", f"{OUTSIDE}:1")
            is_first(found, name, "STOPS", text)


def test_a_way_that_is_named(network_host: Host) -> None:
    host = network_host
    host.run("network", "create", "shop")
    serve(host, "--network", "shop", "-p", "8080:80")
    host.run("run", "-d", "-q", "--name", "guest", "--network", "shop", "busybox", "sleep", "99")
    for target in ("web:80", f"{HOST}:8080"):
        assert why(host, "guest", target) == {}, target
    is_first(why(host, "guest", "web:81"), "listens", "STOPS", "nothing in web listens on tcp")
    is_first(why(host, "guest", "127.0.0.1:8080"), "listens", "STOPS", "not the host")
    is_first(why(host, "guest", f"{OUTSIDE}:7"), "answer", "STOPS", "connection refused")
    host.run("network", "create", "other")
    host.run("run", "-d", "-q", "--name", "far", "--network", "other", "busybox", "sleep", "99")
    found = why(host, "far", "10.89.0.2:80")
    is_first(found, "firewall", "STOPS", "table inet minirun drops it")


def test_a_name_by_dns(network_host: Host) -> None:
    """A DNS server outside that knows one name, and one that is silent."""
    host = network_host
    server = (
        "import socket; s = socket.socket(2, 2); s.bind(('', 53)); print(1, flush=True)\n"
        "while True:\n"
        "    d, a = s.recvfrom(512); end = d.index(0, 12) + 5; known = b'shop' in d\n"
        "    kind = d[end - 3]; n = int(known and kind == 1)\n"
        "    body = b'\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4' + bytes([192, 0, 2, 1])\n"
        "    head = d[:2] + b'\\x81\\x80\\0\\1\\0' + bytes([n]) + b'\\0' * 4\n"
        "    s.sendto(head + d[12:end] + body * n, a)\n"
    )
    file = host.store.parent / "dns.py"
    file.write_text(server)
    host.shell(f"timeout 40 python3 {file} >/dev/null 2>&1 & sleep 0.5", outside=True)
    flags = ("-d", "-q", "--dns", OUTSIDE)
    host.run("run", *flags, "--name", "c", "busybox", "sleep", "99")
    is_first(why(host, "c", "shop.example:7"), "answer", "STOPS", f"{OUTSIDE} port 7")
    is_first(why(host, "c", "nosuch.example:7"), "name", "STOPS", f"{OUTSIDE} knows no address")
    host.run("run", "-d", "-q", "--dns", "192.0.2.99", "--name", "d", "busybox", "sleep", "99")
    is_first(why(host, "d", "shop.example:7"), "name", "STOPS", "no DNS server answers")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("c", "nonsense"), "invalid HOST:PORT 'nonsense'"),
        (("c", "host:0"), "invalid HOST:PORT 'host:0'"),
        ((), "requires at least 1 and at most 2 arguments"),
    ],
)
def test_wrong_words(network_host: Host, words: tuple[str, ...], text: str) -> None:
    done = network_host("network", "why", *words)
    assert done.returncode == 1
    assert text in done.stderr


def test_a_container_without_networks(network_host: Host) -> None:
    host = network_host
    host.run("run", "-d", "-q", "--name", "c", "--network", "none", "busybox", "sleep", "99")
    done = host("network", "why", "c")
    assert done.returncode == 1
    assert "container c has no networks of minirun's" in done.stderr
