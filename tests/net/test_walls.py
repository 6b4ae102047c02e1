"""What a container, or a host outside, cannot do through minirun's networks: tried from there."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from conftest import wait_until
from net.hosts import HOST, Host
from net.test_scenarios import GET, NO_ANSWER, REFUSED, address, page, serve

LISTEN = (
    "import socket,time; s = socket.create_server(('{}', {})); print(1, flush=True); time.sleep(60)"
)


def listening(host: Host, at: str, port: int) -> subprocess.Popen[bytes]:
    """Start a server of the host's own."""
    words = [*host.inside(), sys.executable, "-c", LISTEN.format(at, port)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"1\n"
    return process


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_the_hosts_loopback(network_host: Host) -> None:
    """With route_localnet a packet to 127.0.0.1 comes in by the gateway, and has to be dropped."""
    host = network_host
    server = listening(host, "127.0.0.1", 7777)
    host.run(
        "run",
        "-d",
        "-q",
        "--name",
        "in",
        "-p",
        "127.0.0.1:9000:90",
        "--cap-add",
        "NET_ADMIN",
        "busybox",
        "sleep",
        "99",
    )
    pid = json.loads(host.run("state", "in"))["pid"]
    own = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    text = """ip address del 127.0.0.1/8 dev lo
        sysctl -qw net.ipv4.conf.eth0.route_localnet=1
        ip route flush table local type local dev lo 2>/dev/null
        ip route add 127.0.0.1/32 via 10.88.0.1 dev eth0"""
    subprocess.run([*own, "sh", "-c", text], check=True)
    code = "import socket; socket.create_connection(('127.0.0.1', 7777), timeout=2)"
    done = subprocess.run([*own, sys.executable, "-c", code], capture_output=True, check=False)
    assert b"timed out" in done.stderr
    host.shell("nft flush chain inet minirun first")
    done = subprocess.run([*own, sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, "it is this rule that stops the packet"
    ended(server)


def test_a_port_that_is_not_published(network_host: Host) -> None:
    """A neighbour of the host that routes the container's subnet by the host does not get in."""
    host = network_host
    serve(host, "-p", "127.0.0.1:8080:80")
    at = address(host, "web")
    host.shell(f"ip route add 10.88.0.0/16 via {HOST}; ip route add 127.0.0.1/32 via {HOST}"
               " table 99; ip rule add to 127.0.0.1 lookup 99", outside=True)  # fmt: skip
    assert page(host, f"{at}:80", outside=True) == NO_ANSWER
    assert page(host, f"{HOST}:8080", outside=True) == REFUSED
    assert page(host, f"{at}:80") == "hello"


def test_another_network(network_host: Host) -> None:
    """Not by address, not through the other bridge's gateway, and not by a route of its own."""
    host = network_host
    for name in "ab":
        host.run("network", "create", name)
    serve(host, "--network", "a")
    at = address(host, "web")
    ways = (f"{GET} {at} 80", f"ip route add {at} via 10.89.1.1; {GET} {at} 80")
    for way in ways:
        words = (
            "--network",
            "b",
            "--cap-add",
            "NET_ADMIN",
            "busybox",
            "sh",
            "-c",
            f"{way}; exit 0",
        )
        assert host.run("run", "--rm", "-q", *words) == ""


def test_the_table_is_the_hosts(network_host: Host) -> None:
    """With CAP_NET_ADMIN a container changes its own namespace's rules, and sees no others."""
    host = network_host
    host.run("run", "-d", "-q", "--name", "in", "--cap-add", "NET_ADMIN", "busybox", "sleep", "99")
    pid = json.loads(host.run("state", "in"))["pid"]
    own = ["nsenter", f"--net=/proc/{pid}/ns/net", "nft"]
    listed = subprocess.run([*own, "list", "ruleset"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""
    done = subprocess.run([*own, "delete", "table", "inet", "minirun"], check=False,
                          capture_output=True)  # fmt: skip
    assert done.returncode == 1
    assert "chain forward" in host.shell("nft list table inet minirun")


def test_no_address_of_a_neighbour_for_longer_than_it_lives(network_host: Host) -> None:
    """A container may claim one by ARP while it lives, as with docker; then it is as before."""
    host = network_host
    serve(host, "-p", "8080:80")
    at = address(host, "web")
    take = f"ip address add {at}/16 dev eth0; arping -c 2 -U -I eth0 {at} || true"
    host.run("run", "--rm", "-q", "--cap-add", "NET_ADMIN", "busybox", "sh", "-c", take)
    host.shell("ip neigh flush dev minirun0")
    assert page(host, "127.0.0.1:8080") == "hello"
    assert page(host, f"{HOST}:8080", outside=True) == "hello"


def holder_of(host: Host) -> int:
    """Return the pid of the one process that holds ports on the host."""
    return int(host.shell("pgrep -x minirun:ports --ns $$ --nslist net").split()[0])


def test_who_may_end_the_process_that_holds_the_ports(network_host: Host) -> None:
    """Not the user nobody, as which other services run too, nor another container's holder."""
    host = network_host
    serve(host, "-p", "8080:80")
    pid = holder_of(host)
    for uid in (65534, 1000, 0xF000_0000 + pid + 1):
        ended = f"import os; os.setgroups([]); os.setuid({uid}); os.kill({pid}, 9)"
        done = host.shell(f'{sys.executable} -c "{ended}"')
        assert "peration not permitted" in done, uid
    taken = "import socket; socket.create_server(('', 8080))"
    done = host.shell(f'setpriv --reuid 65534 --clear-groups {sys.executable} -c "{taken}"')
    assert "Address already in use" in done
    assert page(host, "[::1]:8080") == "hello"


ADVERTISEMENT = """
import socket, struct, sys
link = "eth0"
raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
prefix = struct.pack("!BBBBIII16s", 3, 4, 64, 0xC0, 9999, 9999, 0,
                     socket.inet_pton(socket.AF_INET6, "2001:db8:bad::"))
text = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 9999, 0, 0) + prefix
for _ in range(3):
    raw.sendto(text, ("ff02::1", 0, 0, socket.if_nametoindex(link)))
"""
"""A router advertisement, RFC 4861: a default route and a prefix."""


def test_a_neighbours_router_advertisements(network_host: Host) -> None:
    """Neighbours on the network take no route and no address from it, and the host takes none."""
    host = network_host
    host.run("network", "create", "--ipv6", "--subnet", "fd00:99::/64", "six")
    for name in ("victim", "bad"):
        host.run("run", "-d", "-q", "--name", name, "--network", "six", "busybox", "sleep", "99")
    enter = {
        name: f"nsenter --net=/proc/{json.loads(host.run('state', name))['pid']}/ns/net"
        for name in ("victim", "bad")
    }
    look = "ip -6 route; ip -6 -o address | grep -v fe80"
    before = {way: host.shell(f"{way} sh -c '{look}'") for way in ("", enter["victim"])}
    said = host.shell(f"{enter['bad']} {sys.executable} - <<'E'\n{ADVERTISEMENT}\nE")
    assert said == ""
    time.sleep(1)
    for way, text in before.items():
        assert host.shell(f"{way} sh -c '{look}'") == text, way or "the host"
    host.shell(f"{enter['victim']} sysctl -qw net.ipv6.conf.eth0.accept_ra=1")
    host.shell(f"{enter['bad']} {sys.executable} - <<'E'\n{ADVERTISEMENT}\nE")
    wait_until(lambda: "2001:db8:bad:" in host.shell(f"{enter['victim']} sh -c '{look}'"))


def test_the_process_that_holds_the_ports(network_host: Host) -> None:
    """It is a user of its own, has no capability and only its sockets, and ends with init."""
    host = network_host
    serve(host, "-p", "8080:80", "-p", "5300:53/udp")
    pid = holder_of(host)
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        rows = {line.partition(":")[0]: line.partition(":")[2].strip() for line in file}
    own = str(0xF000_0000 + pid)
    assert rows["Uid"].split() == rows["Gid"].split() == [own] * 4
    assert rows["CapEff"] == rows["CapPrm"] == "0" * 16
    assert rows["Groups"] == ""
    kinds = subprocess.run(
        ["ls", "-l", f"/proc/{pid}/fd"], capture_output=True, text=True, check=True
    )
    targets = {
        line.rpartition("-> ")[2].partition(":")[0] for line in kinds.stdout.splitlines()[1:]
    }
    assert targets <= {"/dev/null", "socket", "anon_inode", "pipe"}
    host.run("kill", "web", "KILL")


BAD = [
    (("-p", "x"), "invalid containerPort: 'x'"),
    (("-p", "0"), "invalid containerPort: '0'"),
    (("-p", "65536"), "invalid containerPort: '65536'"),
    (("-p", "-1:80"), "invalid hostPort: '-1'"),
    (("-p", "80:"), "invalid containerPort: ''"),
    (("-p", ":"), "invalid containerPort: ''"),
    (("-p", ""), "invalid containerPort: ''"),
    (("-p", "80:80:80:80"), "invalid publish opts format"),
    (("-p", "1.2.3:80:80"), "invalid IP address: 1.2.3"),
    (("-p", "localhost:80:80"), "invalid IP address: localhost"),
    (("-p", "[::1:80:80"), "invalid publish opts format"),
    (("-p", "[::g]:80:80"), "invalid IP address: ::g"),
    (("-p", "80:80/icmp"), "invalid proto: icmp"),
    (("-p", "8000-8003:80-82"), "invalid ranges specified"),
    (("-p", "8003-8000:80"), "the first is larger than the last"),
    (("-p", "8000-8003:82-80"), "the first is larger than the last"),
    (("-p", "８０:80"), "invalid hostPort"),
    (("-p", "80:80", "-p", "80:81"), "host port 0.0.0.0:80/tcp is published twice"),
    (("-p", "203.0.113.9:80:80"), "203.0.113.9 is no address of this host"),
    (("--network", ""), "invalid network ''"),
    (("--network", "no such"), "invalid network 'no such'"),
    (("--network", "nosuch"), "network nosuch not found"),
    (("--network", "../x"), "invalid network '../x'"),
    (("--network", "container:"), "invalid network 'container:'"),
    (("--network", "container:nosuch"), "'nosuch' does not exist"),
    (("--network", "host", "--network", "bridge"), "host is the only network of a container"),
    (("--network", "none", "--ip", "10.1.1.1"), "--ip needs a network with addresses"),
    (("--network", "container:web", "-p", "80"), "port publishing and the container type"),
    (("--network", "container:web", "--dns", "1.1.1.1"), "dns and the container type"),
    (("--network", "container:web", "--hostname", "x"), "hostname and the container type"),
    (("--network", "container:web", "--add-host", "a:1.1.1.1"), "custom host-to-IP mapping and"),
    (("--network", "container:web", "--mac-address", "02:00:00:00:00:01"), "mac-address and the"),
    (("--ip", "10.88.0.9"), "--ip and --ip6 are for networks that you have created"),
    (("--network-alias", "x"), "aliases are for networks that you have created"),
    (("--network", "n", "--ip", "x"), "invalid IP address in --ip: 'x'"),
    (("--network", "n", "--ip", "fd00::1"), "invalid IP address in --ip: 'fd00::1'"),
    (("--network", "n", "--ip6", "10.1.1.1"), "invalid IP address in --ip6: '10.1.1.1'"),
    (("--network", "n", "--ip", "10.1.1.1"), "10.1.1.1 is no host's address in 10.89.0.0/24"),
    (("--network", "n", "--ip", "10.89.0.0"), "10.89.0.0 is no host's address"),
    (("--network", "n", "--ip", "10.89.0.255"), "10.89.0.255 is no host's address"),
    (("--network", "n", "--ip", "10.89.0.1"), "address 10.89.0.1 is in use"),
    (("--network", "given", "--ip", "10.89.1.9"), "networks with user configured subnets"),
    (("--network", "n", "--ip6", "fd00::9"), "network n has no IPv6 prefix"),
    (("--mac-address", "x"), "invalid MAC address 'x'"),
    (("--mac-address", "01:00:00:00:00:01"), "invalid MAC address"),
    (("--mac-address", "00:00:00:00:00:00"), "invalid MAC address"),
    (("--mac-address", "02:00:00:00:00"), "invalid MAC address"),
    (("--network", "n", "--network-alias", "a b"), "invalid name in --network-alias: 'a b'"),
    (("--network", "n", "--network-alias", "a\n1.1.1.1 b"), "invalid name in --network-alias"),
    (("--dns", "x"), "invalid IP address in --dns: 'x'"),
    (("--dns", "1.1.1.1\nnameserver 2.2.2.2"), "invalid IP address in --dns"),
    (("--dns-search", "a b"), "invalid name in --dns-search: 'a b'"),
    (("--dns-search", "a\noptions x"), "invalid name in --dns-search"),
    (("--dns-option", "ndots 2"), "invalid --dns-option 'ndots 2'"),
    (("--dns-option", "x\ny"), "invalid --dns-option"),
    (("--add-host", "x"), "bad format for add-host: 'x'"),
    (("--add-host", ":1.1.1.1"), "bad format for add-host"),
    (("--add-host", "a:b"), "invalid IP address in add-host: 'b'"),
    (("--add-host", "a b:1.1.1.1"), "bad format for add-host"),
    (("--add-host", "a\n6.6.6.6 b:1.1.1.1"), "bad format for add-host"),
    (("--hostname", "a b"), "invalid name in --hostname: 'a b'"),
    (("--network", "n", "--hostname", "a\n6.6.6.6 b"), "invalid name in --hostname"),
    (("--domainname", "a b"), "invalid name in --domainname: 'a b'"),
    (("--domainname", "a" * 64), "invalid name in --domainname"),
]
CREATE = [
    (("x y",), "invalid network name 'x y'"),
    (("../x",), "invalid network name '../x'"),
    (("a" * 129,), "invalid network name"),
    (("bridge",), "operation is not permitted on predefined bridge network"),
    (("host",), "operation is not permitted on predefined host network"),
    ((), '"minirun network create" requires exactly 1 argument'),
    (("--subnet", "10.1.1.1", "x"), "invalid --subnet '10.1.1.1'"),
    (("--subnet", "10.1.1.1/24", "x"), "10.1.1.1/24 has host bits set"),
    (("--subnet", "10.1.1.0/31", "x"), "four addresses at least"),
    (("--subnet", "127.0.0.0/8", "x"), "no container can have an address of 127.0.0.0/8"),
    (("--subnet", "224.0.0.0/8", "x"), "no container can have an address of 224.0.0.0/4"),
    *(
        (("--subnet", subnet, "x"), "no container can have an address of ")
        for subnet in (
            "0.0.0.0/0",
            "0.0.0.0/8",
            "0.0.0.0/1",
            "0.1.0.0/16",
            "64.0.0.0/2",
            "127.5.0.0/16",
            "169.254.0.0/16",
            "169.254.7.0/24",
            "160.0.0.0/4",
            "239.0.0.0/8",
            "255.255.255.0/24",
            "240.0.0.0/4",
        )
    ),
    *(
        (("--subnet", "10.44.0.0/24", "--subnet", subnet, "x"), "no container can have an ")
        for subnet in (
            "::/0",
            "::/64",
            "::/8",
            "::ffff:10.0.0.0/104",
            "::ffff:0:0/96",
            "::10.0.0.0/104",
            "64:ff9b::/96",
            "fe80::/64",
            "fe80::/10",
            "fe00::/7",
            "ff02::/64",
            "ff00::/8",
            "8000::/1",
        )
    ),
    (("--subnet", "192.0.2.0/24", "x"), "subnet 192.0.2.0/24 overlaps 192.0.2.0/24"),
    (("--subnet", "10.1.1.0/24", "--subnet", "10.2.2.0/24", "x"), "one for IPv4 is given already"),
    (("--subnet", "10.1.1.0/24", "--gateway", "10.2.2.1", "x"), "no host's address in 10.1.1.0/24"),
    (("--subnet", "10.1.1.0/24", "--ip-range", "10.2.2.0/28", "x"), "is not in the subnet"),
    (("--gateway", "fd00::1", "x"), "--gateway fd00::1 without an IPv6 subnet"),
    (("--opt", "mtu=67", "x"), "invalid mtu 67"),
    (("--opt", "mtu=x", "x"), "invalid --opt 'mtu=x'"),
    (("--opt", "nosuch=1", "x"), "invalid --opt 'nosuch=1'"),
    (("--driver", "overlay", "x"), "plugin 'overlay' not found"),
    (("--label", "=1", "x"), "invalid --label '=1'"),
]


EACH = """
import json, os, sys, traceback
from minirun import cli
answers, out = [], os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
for words in json.load(sys.stdin):
    said = os.memfd_create("said")
    os.dup2(said, 2)
    try:
        status = cli.main([*sys.argv[1:], *words])
    except BaseException:
        traceback.print_exc()
        status = -1
    os.lseek(said, 0, os.SEEK_SET)
    answers.append((status, os.read(said, 1 << 16).decode()))
    os.close(said)
os.write(out, json.dumps(answers).encode())
"""
"""Calls the command line with each list of words, in one process: its imports take longer."""


def test_wrong_values(network_host: Host) -> None:
    """One line each, docker's status, and nothing is left."""
    host = network_host
    host.run("network", "create", "--subnet", "10.89.0.0/24", "n")
    host.run("network", "create", "given")
    before = host.state()
    calls = [["run", "--rm", "-q", *flags, "busybox", "true"] for flags, _ in BAD]
    calls += [["network", "create", *flags] for flags, _ in CREATE]
    words = [*host.inside(), sys.executable, "-c", EACH, *host.argv()[len(host.inside()) + 1 :]]
    done = subprocess.run(words, input=json.dumps(calls), capture_output=True, text=True)
    answers = json.loads(done.stdout)
    wrong = []
    for (flags, text), (status, said) in zip(BAD + CREATE, answers, strict=True):
        statuses = (125,) if (flags, text) in BAD else (1, 125)
        if status not in statuses or text not in said or said.count("\n") != 1:
            wrong.append((flags, status, said))
    assert wrong == []
    after = host.state()
    assert {key: after[key] for key in before if after[key] != before[key]} == {}
    assert host.run("network", "ls", "--format", "{{.Name}}").split() == [
        "bridge", "given", "host", "n", "none",
    ]  # fmt: skip
