"""The same command lines with minirun and with docker: what arrives, and what does not.

Each has a host of its own with another one outside (hosts.py); dockerd makes its bridge and its
rules there. Only what both have to do alike is asked; walls that docker lacks are in test_walls.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engines.clients.engine import IMAGE, Docker
from net.hosts import HOST, OUTSIDE, cable, host, namespace
from required import installed

TAKE = (
    "import socket, sys; kind, at, port = sys.argv[1:]\n"
    "family = socket.AF_INET6 if ':' in at else socket.AF_INET\n"
    "s = socket.socket(family, socket.SOCK_DGRAM if kind == 'udp' else socket.SOCK_STREAM)\n"
    "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((at, int(port)))\n"
    "kind == 'udp' or s.listen(); print(1, flush=True)\n"
    "while True:\n"
    "    if kind == 'udp': data, peer = s.recvfrom(99); s.sendto(data.upper(), peer); continue\n"
    "    c = s.accept()[0]; data = b''\n"
    "    while part := c.recv(1 << 20): data += part\n"
    "    c.sendall(data.upper()); c.close()\n"
)
SEND = (
    "import hashlib, os, socket, sys; kind, at, port, size = sys.argv[1:]\n"
    "family = socket.AF_INET6 if ':' in at else socket.AF_INET\n"
    "s = socket.socket(family, socket.SOCK_DGRAM if kind == 'udp' else socket.SOCK_STREAM)\n"
    "s.settimeout(5); data = b'a' * int(size); s.connect((at, int(port)))\n"
    "s.settimeout(5 if kind == 'udp' else 50)\n"
    "s.sendall(data); kind == 'udp' or s.shutdown(1); back = b''\n"
    "while part := s.recv(1 << 20):\n"
    "    back += part\n"
    "    if kind == 'udp': break\n"
    "sys.exit(back != data.upper())\n"
)


ASK = (
    "import sys, dns.flags, dns.message, dns.query, dns.rcode; name, kind, how, at = sys.argv[1:]\n"
    "found = getattr(dns.query, how)(dns.message.make_query(name, kind), at, timeout=15)\n"
    "print(dns.rcode.to_text(found.rcode()))\n"
    "print(' '.join(sorted(str(each) for rows in found.answer for each in rows)))\n"
    "print('ra' if found.flags & dns.flags.RA else '')\n"
)


def asked(
    where: list[str], name: str, kind: str, how: str = "udp", at: str = "127.0.0.11"
) -> tuple[str, ...]:
    """Return what DNS answers: its code, the texts of its records, and if it looks up others'."""
    pytest.importorskip("dns", reason="apt-get install python3-dnspython, then make setup")
    words = [*where, sys.executable, "-c", ASK, name, kind, how, at]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(done.stdout.split("\n")[:3])


class Peer:
    """minirun or docker on a host of its own."""

    def __init__(
        self, call: tuple[str, ...], image: str, inside: list[str], out: list[str]
    ) -> None:
        self.call, self.image = call, image
        self.host, self.outside = inside, out
        """Command lines that run what follows on the host, and outside."""

    def full(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.host, *self.call, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def __call__(self, *words: str) -> str:
        done = self.full(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def start(self, name: str, *flags: str) -> list[str]:
        """Start a container; return the command line that enters its network namespace."""
        self("run", "-d", "--name", name, *flags, self.image, "sleep", "300")
        return self.inside(name)

    def inside(self, name: str) -> list[str]:
        if self.image == IMAGE:
            pid = self("inspect", "--format", "{{.State.Pid}}", name)
            prefix = [*self.host, "nsenter", f"--net=/proc/{pid}/ns/net"]
        else:
            prefix = ["nsenter", f"--net=/proc/{self._pid(name)}/ns/net"]
        return prefix

    def _pid(self, name: str) -> str:
        return self("state", name).split('"pid": ')[1].split(",")[0]


def reaches(sender: list[str], at: str, port: int, kind: str = "tcp", size: int = 9) -> bool:
    """Return True if data comes back from there, in capitals, byte for byte."""
    words = [*sender, sys.executable, "-c", SEND, kind, at, str(port), str(size)]
    return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0


@contextmanager
def serving(where: list[str], port: int, kind: str = "tcp", at: str = "0.0.0.0") -> Iterator[None]:
    words = [*where, sys.executable, "-c", TAKE, kind, at, str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"1\n"
            yield
        finally:
            process.kill()


@pytest.fixture(scope="module")
def made(
    request: pytest.FixtureRequest, command: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """A peer, for all tests of it: dockerd takes seconds to start."""
    for program in ("ip", "nft"):
        installed(program)
    if request.param == "minirun":
        folder = tmp_path_factory.mktemp("beside")
        with host(command, folder) as found:
            yield Peer(
                (command, "--root", str(found.root), "--store", str(found.store)), "busybox",
                found.inside(), found.inside(found.outside),
            )  # fmt: skip
        return
    docker = Docker("runc", command)
    try:
        with namespace() as outside:
            cable(docker.cell.pid, outside)
            yield Peer(
                docker.client, IMAGE, docker.cell.argv("env"),
                ["nsenter", f"--net=/proc/{outside}/ns/net"],
            )  # fmt: skip
            docker.clean()
    finally:
        docker.close()


@pytest.fixture
def peer(made: Peer) -> Iterator[Peer]:
    yield made
    for name in made("ps", "-a", "-q").split():
        made("rm", "-f", name)
    for name in ("one", "two", "inner"):
        made.full("network", "rm", name)


pytestmark = pytest.mark.parametrize("made", ["minirun", "docker"], indirect=True)


@pytest.mark.parametrize("at", ["127.0.0.1", HOST, "::1"])
def test_from_the_host(peer: Peer, at: str) -> None:
    with serving(peer.start("web", "-p", "8080:80"), 80):
        assert reaches(peer.host, at, 8080)


def test_from_outside_and_by_the_published_port_within(peer: Peer) -> None:
    web = peer.start("web", "-p", "8080:80")
    other = peer.start("other")
    with serving(web, 80):
        assert reaches(peer.outside, HOST, 8080)
        assert reaches(web, HOST, 8080), "hairpin"
        assert reaches(other, HOST, 8080)
        assert not reaches(peer.outside, HOST, 80)


@pytest.mark.parametrize(("kind", "size"), [("tcp", 9), ("tcp", 20 << 20), ("udp", 9)])
def test_to_the_outside(peer: Peer, kind: str, size: int) -> None:
    inside = peer.start("web")
    with serving(peer.outside, 6000, kind):
        assert reaches(inside, OUTSIDE, 6000, kind, size)


def test_ping(peer: Peer) -> None:
    peer.start("web")
    peer("exec", "web", "ping", "-c", "1", "-W", "5", OUTSIDE)


def test_neighbours_by_name(peer: Peer) -> None:
    peer("network", "create", "one")
    peer.start("web", "--network", "one", "--network-alias", "till")
    peer.start("guest", "--network", "one")
    for name in ("web", "till"):
        peer("exec", "guest", "ping", "-c", "1", "-W", "5", name)
    peer("rm", "-f", "web")
    peer.start("first", "--network", "one")
    peer.start("web", "--network", "one", "--network-alias", "till")
    peer("exec", "guest", "ping", "-c", "1", "-W", "5", "till")


def test_neighbours_by_dns(peer: Peer) -> None:
    """Where a program asks, how it is answered, and where its resolv.conf is from."""
    peer("network", "create", "one")
    flags = ("--dns", OUTSIDE, "--dns-search", "a.test", "--dns-opt", "timeout:1")
    guest = peer.start("guest", "--network", "one", *flags)
    text = peer("exec", "guest", "cat", "/etc/resolv.conf")
    rows = sorted(line for line in text.splitlines() if line and not line.startswith("#"))
    assert rows == ["nameserver 127.0.0.11", "options timeout:1 ndots:0", "search a.test"]
    peer.start("web", "--network", "one", "--network-alias", "till")
    peer.start("web2", "--network", "one", "--network-alias", "till")
    address = asked(guest, "web", "A")[1]
    assert asked(guest, "web", "A") == ("NOERROR", address, "ra")
    assert asked(guest, "WEB.one", "A")[1] == address
    assert asked(guest, "till", "A")[1].count(" ") == 1
    assert asked(guest, "web", "AAAA") == ("NOERROR", "", "ra")
    assert asked(guest, "web", "MX") == ("NOERROR", "", "ra")
    assert asked(guest, "web", "A", "tcp")[1] == address
    reverse = ".".join(reversed(address.split("."))) + ".in-addr.arpa"
    assert asked(guest, reverse, "PTR")[1] == "web.one."


def test_two_networks(peer: Peer) -> None:
    for name in ("one", "two"):
        peer("network", "create", name)
    peer.start("web", "--network", "one")
    guest = peer.start("guest", "--network", "two")
    assert peer.full("exec", "guest", "ping", "-c", "1", "-W", "2", "web").returncode != 0
    peer("network", "connect", "one", "guest")
    peer("exec", "guest", "ping", "-c", "1", "-W", "5", "web")
    peer("network", "disconnect", "one", "guest")
    assert peer.full("exec", "guest", "ping", "-c", "1", "-W", "2", "web").returncode != 0
    with serving(peer.outside, 6000):
        assert reaches(guest, OUTSIDE, 6000)


def test_an_internal_network(peer: Peer) -> None:
    peer("network", "create", "--internal", "inner")
    peer.start("web", "--network", "inner")
    guest = peer.start("guest", "--network", "inner")
    peer("exec", "guest", "ping", "-c", "1", "-W", "5", "web")
    with serving(peer.outside, 6000):
        assert not reaches(guest, OUTSIDE, 6000)


def test_ranges_and_udp(peer: Peer) -> None:
    web = peer.start("web", "-p", "8000-8002:80-82", "-p", "5300:53/udp")
    with serving(web, 81), serving(web, 53, "udp"):
        assert reaches(peer.outside, HOST, 8001)
        assert reaches(peer.outside, HOST, 5300, "udp")
        assert reaches(peer.host, "127.0.0.1", 5300, "udp")


def test_another_ones_namespace_and_none(peer: Peer) -> None:
    web = peer.start("web", "-p", "8080:80")
    beside = peer.start("beside", "--network", "container:web")
    with serving(beside, 80):
        assert reaches(peer.outside, HOST, 8080)
        assert reaches(web, "127.0.0.1", 80)
    alone = peer.start("alone", "--network", "none")
    with serving(peer.outside, 6000):
        assert not reaches(alone, OUTSIDE, 6000)
    with serving(peer.start("open", "--network", "host"), 8090):
        assert reaches(peer.outside, HOST, 8090)


def test_a_port_of_one_address(peer: Peer) -> None:
    web = peer.start("web", "-p", "127.0.0.1:8081:80", "-p", f"{HOST}:8082:80")
    with serving(web, 80):
        assert reaches(peer.host, "127.0.0.1", 8081)
        assert not reaches(peer.outside, HOST, 8081)
        assert reaches(peer.outside, HOST, 8082)


def test_a_port_that_is_taken(peer: Peer) -> None:
    with serving(peer.host, 8080):
        done = peer.full("run", "-p", "8080:80", peer.image, "true")
    assert done.returncode == 125
    assert "address already in use" in done.stderr


def test_mtu(peer: Peer) -> None:
    peer("network", "create", "--opt", "com.docker.network.driver.mtu=1400", "one")
    inside = peer.start("web", "--network", "one")
    link = subprocess.check_output([*inside, "ip", "link", "show", "eth0"], text=True)
    assert " mtu 1400 " in link
    with serving(peer.outside, 6000):
        assert reaches(inside, OUTSIDE, 6000, size=1 << 20)


def test_neighbours_by_ipv6(peer: Peer) -> None:
    peer("network", "create", "--ipv6", "--subnet", "fd00:99::/64", "one")
    web = peer.start("web", "--network", "one")
    guest = peer.start("guest", "--network", "one")
    words = [*web, "ip", "-6", "-o", "address", "show", "dev", "eth0", "scope", "global"]
    address = subprocess.check_output(words, text=True).split()[3].partition("/")[0]
    assert address.startswith("fd00:99::")
    with serving(web, 80, at="::"):
        assert reaches(guest, address, 80)
