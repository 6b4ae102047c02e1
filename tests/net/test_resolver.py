"""Names by DNS on a network that the user has made: minirun:names, asked as programs ask.

Containers ask by busybox' nslookup and glibc's getent; packets that those do not make come from a
client of dnspython's in the container's network namespace. Other servers are of the test's own, on
the host outside (hosts.py), so nothing leaves this machine.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import wait_until
from minirun.common.network_request import Attachment, NetworkRequest
from minirun.core.keeping import state
from minirun.net import helpers, names, resolver
from net.hosts import HOST, OUTSIDE, Host

pytest.importorskip("dns", reason="apt-get install python3-dnspython, then make setup")
import dns.flags
import dns.message
import dns.rcode

ASK = """
import sys, dns.message, dns.query
name, kind, how, at, payload = sys.argv[1:]
query = dns.message.make_query(name, kind, use_edns=int(payload) > 0 or None,
                               payload=int(payload) or None)
found = getattr(dns.query, how)(query, at, timeout=8)
print(found.to_wire().hex(), found.time)
"""
SERVE = """
import socket, socketserver, sys, threading, dns.flags, dns.message, dns.rcode, dns.rrset
at, log = sys.argv[1:]
TEXTS = {"A": ["203.0.113.7"], "AAAA": ["2001:db8::7"],
         "TXT": ['"' + "x" * 200 + str(n) + '"' for n in range(20)]}
def answer(data, most):
    query = dns.message.from_wire(data)
    made = dns.message.make_response(query)
    asked = query.question[0]
    kind = dns.rdatatype.to_text(asked.rdtype)
    open(log, "a").write(f"{asked.name} {kind}\\n")
    if asked.name.to_text().lower() == "example.test.":
        made.answer = [dns.rrset.from_text_list(asked.name, 9, "IN", kind, TEXTS[kind])]
    else:
        made.set_rcode(dns.rcode.NXDOMAIN)
    try:
        return made.to_wire(max_size=most)
    except dns.exception.TooBig:
        made.answer, made.flags = [], made.flags | dns.flags.TC
        return made.to_wire()
class Stream(socketserver.StreamRequestHandler):
    def handle(self):
        size = int.from_bytes(self.rfile.read(2), "big")
        found = answer(self.rfile.read(size), 65535)
        self.wfile.write(len(found).to_bytes(2, "big") + found)
socketserver.TCPServer.allow_reuse_address = True
stream = socketserver.TCPServer((at, 53), Stream)
threading.Thread(target=stream.serve_forever, daemon=True).start()
packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
packets.bind((at, 53))
print("up", flush=True)
while True:
    data, peer = packets.recvfrom(9999)
    packets.sendto(answer(data, 512), peer)
"""
SILENT = """
import socket, sys
packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
packets.bind((sys.argv[1], 53))
print("up", flush=True)
while True:
    packets.recvfrom(9999)
"""


def start(host: Host, name: str, *flags: str, image: str = "busybox") -> None:
    host.run("run", "-d", "-q", "--name", name, *flags, image, "sleep", "300")


def address_of(host: Host, name: str) -> str:
    return host.run("exec", name, "hostname", "-i").split()[0]


def pid_of(host: Host, name: str) -> int:
    return int(json.loads(host.run("state", name))["pid"])


def python(text: str, where: list[str], *words: str) -> list[str]:
    return [*where, sys.executable, "-c", text, *words]


def ask(
    host: Host, container: str, name: str, kind: str = "A", how: str = "udp", payload: int = 0,
    at: str = names.RESOLVER,
) -> dns.message.Message:  # fmt: skip
    """Ask from within a container's network namespace."""
    where = host.inside(pid_of(host, container))
    argv = python(ASK, where, name, kind, how, at, str(payload))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    wire, seconds = done.stdout.split()
    answer = dns.message.from_wire(bytes.fromhex(wire))
    answer.time = float(seconds)
    return answer


def texts(answer: dns.message.Message) -> list[str]:
    return [str(each) for rows in answer.answer for each in rows]


@contextmanager
def serving(where: list[str], script: str, *words: str) -> Iterator[None]:
    with subprocess.Popen(python(script, where, *words), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"up\n"
            yield
        finally:
            process.kill()


def resolvers(host: Host) -> dict[str, int]:
    """Return the name of a container → the process that answers it."""
    found = {}
    for path in host.root.glob("*/network/resolver"):
        found[state.name_of(str(path.parents[1]))] = json.loads(path.read_text())
    return {name: row["pid"] for name, row in found.items() if state.is_alive(row)}


@pytest.fixture
def shop(network_host: Host) -> Host:
    """A host with a network, and a container "guest" on it."""
    network_host.run("network", "create", "--ipv6", "shop")
    start(network_host, "guest", "--network", "shop")
    return network_host


def looked_up(host: Host, container: str, name: str) -> list[str]:
    """Return what nslookup of busybox finds: addresses of IPv4, of IPv6, or a name.

    It asks for both at once, and prints them as they come: in any order.
    """
    said = host("exec", container, "nslookup", name).stdout
    found = re.findall(r"^Name:\t(\S+)\nAddress(?: \d)?: (\S+)$", said, re.MULTILINE)
    found += re.findall(r"^(\S+)\tname = (\S+)$", said, re.MULTILINE)
    assert "127.0.0.11" in said.splitlines()[0], said
    return sorted((what for _, what in found), key=lambda what: ":" in what)


def test_names_as_programs_ask(shop: Host) -> None:
    """busybox by UDP, glibc by its own; aliases of two, another network's name, a restart."""
    host = shop
    host.run("network", "create", "other")
    for each in ("one", "two"):
        start(host, each, "--network", "shop", "--network-alias", "till")
    start(host, "far", "--network", "other")
    start(host, "glibc", "--network", "shop", image="debian")
    one, one6 = looked_up(host, "guest", "one")
    two, _ = looked_up(host, "guest", "two")
    assert {one, two} <= set(looked_up(host, "guest", "till"))
    assert looked_up(host, "guest", "one.shop") == [one, one6]
    assert looked_up(host, "guest", "ONE") == [one, one6]
    assert (
        looked_up(host, "guest", "guest")[0]
        == host.run("exec", "guest", "hostname", "-i").split()[0]
    )
    assert looked_up(host, "guest", one) == ["one.shop"]
    assert looked_up(host, "guest", one6) == ["one.shop"]
    getent = host.run("exec", "glibc", "getent", "-s", "dns", "ahostsv4", "till")
    assert {line.split()[0] for line in getent.splitlines()} == {one, two}
    first = {texts(ask(host, "guest", "till"))[0] for _ in range(12)}
    assert first == {one, two}, "in random order"
    host.run("restart", "-t", "0", "one")
    again = looked_up(host, "guest", "one")
    assert again != [one, one6] and again[0] == address_of(host, "one")
    assert looked_up(host, "one", "two")[0] == two
    host.run("rm", "-f", "two")
    assert looked_up(host, "guest", "till") == again


def test_the_name_goes_to_the_next(shop: Host) -> None:
    """rename web web-old; run --name web: by DNS, in hosts, and for one that comes later."""
    host = shop
    start(host, "web", "--network", "shop")
    old = address_of(host, "web")
    host.run("rename", "web", "web-old")
    start(host, "web", "--network", "shop")
    start(host, "later", "--network", "shop")
    new = address_of(host, "web")
    assert new != old
    for guest in ("guest", "later"):
        assert looked_up(host, guest, "web")[0] == new
        assert looked_up(host, guest, "web-old")[0] == old
        known = host.run("exec", guest, "cat", "/etc/hosts").splitlines()
        rows = {row.split()[0]: row.split()[1:] for row in known}
        assert "web" in rows[new] and "web-old" not in rows[new]
        assert "web-old" in rows[old] and "web" not in rows[old]


def test_two_networks(shop: Host) -> None:
    """A name is known on its own networks, by whichever comes first; connect brings it."""
    host = shop
    host.run("network", "create", "other")
    start(host, "far", "--network", "other", "--network-alias", "both")
    start(host, "near", "--network", "shop", "--network-alias", "both")
    start(host, "middle", "--network", "shop", "--network", "other")
    with serving(host.inside(host.outside), SILENT, OUTSIDE):
        near, far = (texts(ask(host, "middle", name))[0] for name in ("near", "far"))
        assert texts(ask(host, "middle", "both")) == [near]
        assert texts(ask(host, "middle", "both.other")) == [far]
    start(host, "plain")
    assert names.RESOLVER not in host.run("exec", "plain", "cat", "/etc/resolv.conf")
    assert "plain" not in resolvers(host), "on the default network there are no names"
    host.run("network", "connect", "other", "plain")
    assert looked_up(host, "plain", "far") == [far]
    host.run("network", "connect", "other", "guest")
    assert looked_up(host, "guest", "far") == [far]
    host.run("network", "disconnect", "other", "guest")
    host.run("exec", "plain", "sh", "-c", "echo nameserver 192.0.2.9 >/etc/resolv.conf")
    host.run("restart", "-t", "0", "plain")
    written = host.run("exec", "plain", "cat", "/etc/resolv.conf")
    assert written == "nameserver 192.0.2.9", "what is changed by hand stays"


@pytest.mark.parametrize("how", ["udp", "tcp"])
def test_what_is_not_its_own_goes_on(network_host: Host, tmp_path: Path, how: str) -> None:
    """Answers, NXDOMAIN, and what is too long for UDP, come as the server gives them."""
    host, log = network_host, tmp_path / "asked"
    host.run("network", "create", "shop")
    start(host, "guest", "--network", "shop", "--dns", OUTSIDE)
    with serving(host.inside(host.outside), SERVE, OUTSIDE, str(log)):
        assert texts(ask(host, "guest", "example.test", how=how)) == ["203.0.113.7"]
        assert ask(host, "guest", "nosuch", how=how).rcode() == dns.rcode.NXDOMAIN
        assert ask(host, "guest", "_http._tcp.guest", "SRV", how).rcode() == dns.rcode.NXDOMAIN
        big = ask(host, "guest", "example.test", "TXT", how)
        assert bool(big.flags & dns.flags.TC) == (how == "udp")
        assert len(texts(big)) == (0 if how == "udp" else 20)
        asked = log.read_text()
        for kind in ("A", "AAAA", "MX", "TXT", "HTTPS"):
            own = ask(host, "guest", "guest", kind, how)
            assert own.rcode() == dns.rcode.NOERROR and bool(texts(own)) == (kind == "A")
            assert own.flags & dns.flags.RA
        assert log.read_text() == asked, "its own names leave the host in no form"
        if how == "udp":
            assert looked_up(host, "guest", "example.test") == ["203.0.113.7", "2001:db8::7"]


def test_a_silent_server(network_host: Host, tmp_path: Path) -> None:
    """It is given up before the client gives up; the next one is asked; names of its own come."""
    host = network_host
    host.run("network", "create", "shop")
    start(host, "alone", "--network", "shop", "--dns", HOST)
    start(host, "guest", "--network", "shop", "--dns", HOST, "--dns", OUTSIDE)
    with (
        serving(host.inside(), SILENT, HOST),
        serving(host.inside(host.outside), SERVE, OUTSIDE, str(tmp_path / "asked")),
    ):
        assert texts(ask(host, "alone", "alone")) != []
        for how in ("udp", "tcp"):
            answer = ask(host, "alone", "example.test", how=how)
            assert answer.rcode() == dns.rcode.SERVFAIL
            assert answer.time < 5, "resolv.conf(5) waits 5 seconds"
        assert texts(ask(host, "guest", "example.test")) == ["203.0.113.7"]
        assert texts(ask(host, "alone", "guest")) != []


def test_an_internal_network(network_host: Host, tmp_path: Path) -> None:
    """Its own names, and no question leaves: docker's SERVFAIL, at once."""
    host, log = network_host, tmp_path / "asked"
    host.run("network", "create", "--internal", "vault")
    for name in ("guest", "web"):
        start(host, name, "--network", "vault", "--dns", OUTSIDE)
    with serving(host.inside(host.outside), SERVE, OUTSIDE, str(log)):
        assert len(texts(ask(host, "guest", "web"))) == 1
        answer = ask(host, "guest", "example.test")
        assert answer.rcode() == dns.rcode.SERVFAIL and answer.time < 2 and not log.exists()


def test_a_server_on_the_hosts_loopback(network_host: Host, tmp_path: Path) -> None:
    """The host's 127.0.0.1 is asked on the host, --dns 127.0.0.1 in the container: docker's."""
    host, log, resolv = network_host, tmp_path / "asked", tmp_path / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\nsearch corp.test\noptions edns0\n")
    host.run("network", "create", "shop")
    mounted = f'mount --bind {resolv} /etc/resolv.conf && exec "$@"'
    for name, flags in (("guest", ()), ("own", ("--dns", "127.0.0.1"))):
        argv = host.argv("run", "-d", "-q", "--name", name, "--network", "shop", *flags, "busybox",
                         "sleep", "300")  # fmt: skip
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", mounted, "sh", *argv], check=False,
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    text = host.run("exec", "guest", "cat", "/etc/resolv.conf")
    assert text == f"nameserver {names.RESOLVER}\nsearch corp.test\noptions edns0 ndots:0"
    with serving(host.inside(), SERVE, "127.0.0.1", str(log)):
        assert texts(ask(host, "guest", "example.test")) == ["203.0.113.7"]
        assert ask(host, "own", "example.test").rcode() == dns.rcode.SERVFAIL
    with serving(host.inside(pid_of(host, "own")), SERVE, "127.0.0.1", str(log)):
        assert texts(ask(host, "own", "example.test")) == ["203.0.113.7"]


def test_beside_other_servers_and_seen_by_none_else(shop: Host, tmp_path: Path) -> None:
    """The host and the container have their own port 53; a neighbour and the host reach it not."""
    host, log = shop, str(tmp_path / "asked")
    start(host, "web", "--network", "shop")
    address = address_of(host, "web")
    with serving(host.inside(), SILENT, "0.0.0.0"):
        start(host, "late", "--network", "shop")
        assert texts(ask(host, "late", "web")) == [address]
    inner = host.inside(pid_of(host, "web"))
    with serving(inner, SERVE, "0.0.0.0", log):
        assert texts(ask(host, "guest", "example.test", at=address)) == ["203.0.113.7"]
        assert len(texts(ask(host, "web", "guest"))) == 1
    ports = [re.findall(rf"{re.escape(names.RESOLVER)}%lo:(\d+)", line) for line in
             subprocess.check_output([*inner, "ss", "-Hnlut"], text=True).splitlines()]  # fmt: skip
    numbers = [int(found[0]) for found in ports if found]
    assert len(numbers) == 2
    send = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.settimeout(1); s.connect((sys.argv[1], int(sys.argv[2])))\n"
        "s.send(bytes.fromhex('0001010000010000000000000377656200' '00010001'))\n"
        "print(s.recv(999).hex())"
    )
    heard = []
    for where in (host.inside(), host.inside(pid_of(host, "guest"))):
        for at in (address, names.RESOLVER):
            for number in numbers:
                argv = python(send, where, at, str(number))
                done = subprocess.run(argv, capture_output=True, text=True, check=False)
                heard.append(done.stdout)
    assert set(heard) == {""}


def test_it_has_no_rights_and_ends_with_its_container(shop: Host) -> None:
    """Killed, it comes back with the next one that comes or goes, and by network reload."""
    host = shop
    process = resolvers(host)["guest"]
    assert len(texts(ask(host, "guest", "guest"))) == 1
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{process}/status").read_text().splitlines() if ":\t" in line
    )  # fmt: skip
    assert len(set(status["Uid"].split())) == 1 and int(status["Uid"].split()[0]) > 0xF0000000
    assert {status[f"Cap{each}"] for each in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1" and status["Groups"].strip() == ""
    limits = Path(f"/proc/{process}/limits").read_text()
    assert re.search(r"Max file size +0 +0", limits)
    opened = {os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir()}
    its_own = {"/dev/null", f"{host.directory('guest')}/network", f"{host.path}.code"}
    assert not [path for path in opened - its_own if path.startswith("/")]
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not resolvers(host))
    why = host("network", "why", "guest", "example.test:80")
    assert "minirun network reload" in why.stdout, why
    start(host, "web", "--network", "shop")
    assert looked_up(host, "guest", "web")
    os.kill(resolvers(host)["guest"], signal.SIGKILL)
    wait_until(lambda: len(resolvers(host)) == 1)
    host.run("network", "reload")
    assert looked_up(host, "guest", "web")
    there = [state.identity(pid) for pid in resolvers(host).values()]
    assert len(there) == 2
    host.run("rm", "-f", "guest", "web")
    assert not any(map(state.is_alive, there))


def test_what_resolv_conf_says(network_host: Host) -> None:
    """Options of the caller's stand; ndots of his too."""
    host = network_host
    host.run("network", "create", "shop")
    flags = ("--dns-search", "a.test", "--dns-search", "b.test", "--dns-option", "ndots:2")
    text = host.run("run", "--rm", "-q", "--network", "shop", *flags, "--add-host", "db:10.1.2.3",
                    "busybox", "cat", "/etc/resolv.conf", "/etc/hosts")  # fmt: skip
    assert text.splitlines()[:3] == [
        f"nameserver {names.RESOLVER}", "search a.test b.test", "options ndots:2"
    ]  # fmt: skip
    assert "10.1.2.3\tdb" in text


def test_without_dnspython(network_host: Host, tmp_path: Path) -> None:
    """hosts files alone have the names, resolv.conf has the host's servers, and doctor says it."""
    host = network_host
    folder = os.path.dirname(names.library())
    hidden = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {folder} && exec "$@"', "sh"]

    def run(*words: str) -> str:
        done = subprocess.run(
            [*hidden, *host.argv(*words)], capture_output=True, text=True, timeout=60, check=False
        )
        assert words[0] == "doctor" or (done.returncode == 0 and not done.stderr), done.stderr
        return done.stdout

    run("network", "create", "shop")
    for name in ("web", "guest"):
        run("run", "-d", "-q", "--name", name, "--network", "shop", "busybox", "sleep", "300")
    assert resolvers(host) == {}
    files = run("exec", "guest", "cat", "/etc/resolv.conf", "/etc/hosts")
    assert names.RESOLVER not in files and f"\t{host.id('web')[:12]} web\n" in files
    said = [line for line in run("doctor").splitlines() if "names by DNS" in line]
    assert said and "dnspython is not installed" in " ".join(run("doctor").split())


def test_a_process_that_cannot_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A line says why, and resolv.conf names the host's servers: hosts alone has the names."""
    asked = NetworkRequest(networks=(Attachment("shop"),))
    names.make(str(tmp_path), asked, "web")
    resolv = tmp_path / "network/resolv.conf"
    assert names.RESOLVER in resolv.read_text()
    begun = helpers.begin(
        "minirun:names", os.getpid(), lambda: [os.open("/nosuch", os.O_RDONLY)], print, "a test"
    )
    resolver.finish(begun, str(tmp_path), asked)
    said = capfd.readouterr().err
    assert "no names by DNS" in said and "/nosuch: No such file or directory" in said
    assert resolv.read_text() == names.resolv_conf(asked)
    assert not resolver.is_alive(str(tmp_path))


def test_before_lo_is_up(tmp_path: Path) -> None:
    """Init may be late: an answer comes from 127.0.0.11 all the same, or no program takes it."""
    asked = NetworkRequest(networks=(Attachment("shop"),))
    names.make(str(tmp_path), asked, "web")
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 60"],
                          stdout=subprocess.PIPE) as init:  # fmt: skip
        assert init.stdout and init.stdout.readline()
        resolver.finish(resolver.begin(str(tmp_path), asked, init.pid), str(tmp_path), asked)
        rows = [["shop", "web", ["web"], ["10.89.7.2", ""]]]
        (tmp_path / "network/names").write_text(json.dumps({"rows": rows, "leads_out": False}))
        where = ["nsenter", f"--net=/proc/{init.pid}/ns/net"]
        subprocess.run([*where, "ip", "link", "set", "lo", "up"], check=True)
        for how in ("udp", "tcp"):
            argv = python(ASK, where, "web", "A", how, names.RESOLVER, "0")
            done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
            assert done.returncode == 0, done.stderr
            answer = dns.message.from_wire(bytes.fromhex(done.stdout.split()[0]))
            assert texts(answer) == ["10.89.7.2"]
        resolver.stop(str(tmp_path))
        init.kill()


def test_many_addresses(shop: Host) -> None:
    """More than 512 bytes by UDP: some of them, and TC; with EDNS, and by TCP, all."""
    host = shop
    rows = [["shop", f"c{n}", ["many", f"c{n}"], [f"10.89.7.{n}", ""]] for n in range(60)]
    path = host.directory("guest") / "network/names"
    path.write_text(json.dumps({"rows": rows, "leads_out": False}))
    cut = ask(host, "guest", "many")
    assert cut.flags & dns.flags.TC and 9 < len(texts(cut)) < 60
    for how, payload in (("tcp", 0), ("udp", 4096)):
        whole = ask(host, "guest", "many", how=how, payload=payload)
        assert not whole.flags & dns.flags.TC and len(set(texts(whole))) == 60
    assert texts(ask(host, "guest", "c7.shop", payload=1232)) == ["10.89.7.7"]
    path.write_text("{")
    assert ask(host, "guest", "many").rcode() == dns.rcode.SERVFAIL
