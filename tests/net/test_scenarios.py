"""What goes from where to where: host, outside, container, another container, each way."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import wait_until
from layers import copy_layer, layer_of
from net.hosts import HOST, HOST6, OUTSIDE, OUTSIDE6, Host

SERVER = "mkdir /www; echo hello > /www/index.html; exec httpd -f -p 80 -h /www"
GET = 'get() { printf "GET / HTTP/1.0\\r\\n\\r\\n" | nc -w 3 "$@" 2>/dev/null | tail -n 1; }; get'
"""busybox's own wget looks names up in a way that a static program cannot."""


def page(host: Host, where: str, *, outside: bool = False, seconds: float = 2) -> str:
    """Get the page at ADDRESS:PORT on the host or outside; return it, or the error's name."""
    code = (
        "import sys, urllib.request as r\n"
        f"try: print(r.urlopen('http://{where}/', timeout={seconds}).read().decode())\n"
        "except Exception as e: print(type(getattr(e, 'reason', e)).__name__)"
    )
    return host.shell(f'{sys.executable} -c "{code}"', outside=outside)


REFUSED, NO_ANSWER = "ConnectionRefusedError", "TimeoutError"


def serve(host: Host, *flags: str, name: str = "web") -> None:
    """Start a web server, and wait until it answers on its own."""
    host.run("run", "-d", "-q", "--name", name, *flags, "busybox", "sh", "-c", SERVER)
    wait_until(lambda: host("exec", name, "sh", "-c", f"{GET} 127.0.0.1 80").stdout == "hello\n")


def address(host: Host, name: str) -> str:
    """Return the container's first address."""
    rows = json.loads(host.run("inspect", "--json", name))["interfaces"]
    return next(row["addresses"][0].partition("/")[0] for row in rows if row["name"] == "eth0")


@contextmanager
def answering_udp(inside: list[str], port: int) -> Iterator[None]:
    """Answer datagrams in capitals, in the network namespace that the words `inside` enter."""
    server = (
        f"import socket; s = socket.socket(2, 2); s.bind((str(), {port})); print(1, flush=True)\n"
        "while True: d, a = s.recvfrom(99); s.sendto(d.upper(), a)"
    )
    words = [*inside, sys.executable, "-c", server]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"1\n"
            yield
        finally:
            process.kill()


def test_a_published_port_answers_everywhere(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "8080:80")
    for where in ("127.0.0.1", HOST, "[::1]", f"[{HOST6}]"):
        assert page(host, f"{where}:8080") == "hello", where
    for where in (HOST, f"[{HOST6}]"):
        assert page(host, f"{where}:8080", outside=True) == "hello", where
    own = host.run("exec", "web", "sh", "-c", f"{GET} {HOST} 8080")
    assert own == "hello", "hairpin"
    other = host.run("run", "--rm", "-q", "busybox", "sh", "-c", f"{GET} {HOST} 8080")
    assert other == "hello"
    assert host.run("port", "web") == "80/tcp -> 0.0.0.0:8080\n80/tcp -> [::]:8080"
    assert host.run("port", "web", "80") == "0.0.0.0:8080\n[::]:8080"
    assert "0.0.0.0:8080->80/tcp, [::]:8080->80/tcp" in host.run("ps")


def test_a_port_of_one_address(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "127.0.0.1:8081:80", "-p", f"{HOST}:8082:80", "-p", f"[{HOST6}]:8083:80")
    assert page(host, "127.0.0.1:8081") == "hello"
    assert page(host, f"{HOST}:8081") == REFUSED
    assert page(host, f"{HOST}:8081", outside=True) == REFUSED
    assert page(host, f"{HOST}:8082", outside=True) == "hello"
    assert page(host, "127.0.0.1:8082") == REFUSED
    assert page(host, f"[{HOST6}]:8083", outside=True) == "hello"


def test_out_of_the_container(network_host: Host, tmp_path: Path) -> None:
    """TCP, UDP and ping to the outside; 100 MB arrive whole."""
    host = network_host
    data = os.urandom(1 << 20) * 100
    (tmp_path / "file").write_bytes(data)
    sender = f"timeout 60 python3 -m http.server -d {tmp_path} -b {OUTSIDE} 8000"
    host.shell(f"{sender} >/dev/null 2>&1 & sleep 0.7", outside=True)
    text = f"""ping -c 1 -W 2 {OUTSIDE} | grep -c ' 0% packet loss'
        printf 'GET /file HTTP/1.0\r\n\r\n' | nc {OUTSIDE} 8000 | tail -c {len(data)} | sha256sum"""
    said = host.run("run", "--rm", "-q", "busybox", "sh", "-c", text).splitlines()
    assert said == ["1", f"{hashlib.sha256(data).hexdigest()}  -"]
    word = (
        f"exec 3<>/dev/udp/{OUTSIDE}/5000; echo word >&3; read -t 9 -N 4 answer <&3; echo $answer"
    )
    with answering_udp(host.inside(host.outside), 5000):
        assert host.run("run", "--rm", "-q", "debian", "bash", "-c", word) == "WORD"


def test_neighbours_by_name_and_alias(network_host: Host) -> None:
    host = network_host
    host.run("network", "create", "--subnet", "10.89.0.0/24", "shop")
    serve(host, "--network", "shop", "--network-alias", "till")
    for name in ("web", "till"):
        said = host.run(
            "run", "--rm", "-q", "--network", "shop", "busybox", "sh", "-c", f"{GET} {name} 80"
        )
        assert said == "hello", name
    host.run("run", "-d", "-q", "--name", "guest", "--network", "shop", "busybox", "sleep", "99")
    host.run("exec", "guest", "ping", "-c", "1", "-W", "2", "till")
    host.run("rm", "-f", "web")
    assert "till" not in host.run("exec", "guest", "cat", "/etc/hosts")
    serve(host, "--network", "shop", "--network-alias", "till", "--ip", "10.89.0.77")
    assert host.run("exec", "guest", "sh", "-c", f"{GET} till 80") == "hello"
    done = host("network", "rm", "shop")
    assert done.returncode == 1
    assert "network shop is in use by guest, web" in done.stderr


def test_a_name_is_given_whole(network_host: Host) -> None:
    """Names that begin alike stay several; the first 12 digits of each id are a name too."""
    host = network_host
    host.run("network", "create", "shop")
    given = ("database-primary", "database-replica", "0123456789abcdef" * 4)
    for name in given:
        host.run("run", "-d", "-q", "--name", name, "--network", "shop", "busybox", "sleep", "99")
    rows = host.run("exec", "database-primary", "cat", "/etc/hosts").splitlines()
    names = {row.split()[0]: row.split()[1:] for row in rows if row.startswith("10.89.")}
    own, *others = given
    assert sorted(names.values()) == sorted(
        [[host.id(own)[:12]], *([host.id(name)[:12], name] for name in others)]
    )


def test_two_networks_and_a_wall_between(network_host: Host) -> None:
    host = network_host
    host.run("network", "create", "a")
    host.run("network", "create", "b")
    serve(host, "--network", "a")
    at = address(host, "web")
    other = ("run", "--rm", "-q", "--network", "b", "busybox", "sh", "-c", f"{GET} {at} 80; exit 0")
    assert host.run(*other) == ""
    both = ("--network", "b", "--network", "a", "busybox", "sh", "-c", f"{GET} web 80; ip route")
    said = host.run("run", "--rm", "-q", *both).splitlines()
    assert said[0] == "hello"
    assert [line.split()[:3] for line in said if "default" in line] == [
        ["default", "via", "10.89.1.1"]
    ]
    host.run("network", "connect", "b", "web")
    assert host.run(*other) == ""
    assert host.run(*other[:-1], f"{GET} web 80") == "hello"
    host.run("network", "disconnect", "b", "web")
    assert "eth1" not in host.run("exec", "web", "ip", "link")


def test_an_internal_network(network_host: Host) -> None:
    host = network_host
    host.run("network", "create", "--internal", "vault")
    serve(host, "--network", "vault")
    text = f"ip route | grep -c default; ping -c 1 -W 1 {OUTSIDE} >/dev/null 2>&1; echo $?"
    assert host.run("exec", "web", "sh", "-c", text).splitlines() == ["0", "1"]
    way = f"ip route add default via 10.89.0.1 && ping -c 1 -W 1 {OUTSIDE} >/dev/null; echo $?"
    host.run("run", "-d", "-q", "--name", "out", "--network", "vault", "--cap-add", "NET_ADMIN",
             "busybox", "sh", "-c", f"{way} > /said; sleep 99")  # fmt: skip
    wait_until(lambda: host("exec", "out", "cat", "/said").stdout == "1\n")
    peer = ("run", "--rm", "-q", "--network", "vault", "busybox", "sh", "-c", f"{GET} web 80")
    assert host.run(*peer) == "hello"
    host.run("run", "-d", "-q", "--name", "shut", "--network", "vault", "-p", "8080:80",
             "busybox", "sleep", "99")  # fmt: skip
    assert host.run("port", "shut") == "", "nothing is published there, as with docker"


def test_containers_that_are_kept_apart(network_host: Host) -> None:
    """docker's enable_icc=false: none reaches another, also by the gateway; all reach outside."""
    host = network_host
    option = "com.docker.network.bridge.enable_icc=false"
    host.run("network", "create", "--opt", option, "--subnet", "10.77.0.0/24", "apart")
    serve(host, "--network", "apart", "--ip", "10.77.0.9", "-p", "8080:80")
    get, way = f"{GET} 10.77.0.9 80; echo -", "ip route add 10.77.0.9/32 via 10.77.0.1"
    text = f"{get}; {way}; {get}; ping -c 1 -W 5 {OUTSIDE} >/dev/null; echo $?"
    words = ("run", "--rm", "-q", "--network", "apart", "--cap-add", "NET_ADMIN", "busybox")
    said = host.run(*words, "sh", "-c", text).split()
    assert said == ["-", "-", "0"]
    assert page(host, f"{HOST}:8080") == "hello", "what is published is reached from the host"


def test_a_network_of_a_container_that_has_ended(network_host: Host) -> None:
    """It is on it from its next start on; so with docker."""
    host = network_host
    host.run("network", "create", "one")
    words = ("sh", "-c", "ls /sys/class/net")
    host.run("run", "-q", "--name", "c", "busybox", *words)
    for _ in range(2):
        host.run("network", "connect", "one", "c")
    assert host.run("start", "-a", "c").split() == ["eth0", "eth1", "lo"]
    host.run("network", "disconnect", "one", "c")
    assert host.run("start", "-a", "c").split() == ["eth0", "lo"]


def test_ipv6(network_host: Host) -> None:
    host = network_host
    host.run("network", "create", "--ipv6", "--subnet", "fd00:99::/64", "six")
    serve(host, "--network", "six", "-p", "8080:80")
    for where in ("127.0.0.1", HOST, "[::1]", f"[{HOST6}]"):
        assert page(host, f"{where}:8080") == "hello", where
    assert page(host, f"[{HOST6}]:8080", outside=True) == "hello"
    host.run("exec", "web", "ping", "-6", "-c", "1", "-W", "2", OUTSIDE6)
    peer = (
        "run",
        "--rm",
        "-q",
        "--network",
        "six",
        "busybox",
        "ping",
        "-6",
        "-c",
        "1",
        "fd00:99::2",
    )
    host.run(*peer)
    host.shell(f"ip -6 route add fd00:99::/64 via {HOST6}", outside=True)
    assert page(host, "[fd00:99::2]:80", outside=True) == NO_ANSWER
    assert host.shell("cat /proc/sys/net/ipv6/conf/e0/accept_ra")


def test_ranges_and_udp(network_host: Host) -> None:
    host = network_host
    host.run("run", "-d", "-q", "--name", "dns", "-p", "5300:53/udp", "-p", "8000-8002:80-82",
             "-p", "9000-9005:90", "busybox", "sleep", "99")  # fmt: skip
    rows = host.run("port", "dns").splitlines()
    assert rows[1::2] == [row.replace("0.0.0.0", "[::]") for row in rows[::2]]
    assert rows[::2] == [
        "53/udp -> 0.0.0.0:5300", "80/tcp -> 0.0.0.0:8000", "81/tcp -> 0.0.0.0:8001",
        "82/tcp -> 0.0.0.0:8002", "90/tcp -> 0.0.0.0:9000",
    ]  # fmt: skip
    pid = json.loads(host.run("state", "dns"))["pid"]
    with answering_udp(["nsenter", f"--net=/proc/{pid}/ns/net"], 53):
        for family, where in ((2, "127.0.0.1"), (2, HOST), (10, "::1"), (10, HOST6)):
            ask = (
                f"import socket; s = socket.socket({family}, 2); s.settimeout(5);"
                f"s.sendto(b'hello', ('{where}', 5300)); print(s.recv(9).decode())"
            )
            assert host.shell(f'python3 -c "{ask}"') == "HELLO", where


def datagrams(port: int) -> str:
    """Return a program that sends from one port to the host; it prints each line's answer."""
    return (
        "import socket, sys\n"
        "s = socket.socket(2, 2); s.bind((str(), 7000)); s.settimeout(1)\n"
        f"for line in sys.stdin:\n s.sendto(line.strip().encode(), ('{HOST}', {port}))\n"
        " try: print(s.recv(9).decode(), flush=True)\n"
        " except OSError as e: print(type(e).__name__, flush=True)\n"
    )


def test_a_client_of_udp_reaches_who_has_the_port_now(network_host: Host) -> None:
    """Although it never stops sending, from the same port: conntrack remembers its connection."""
    host = network_host
    words = [*host.inside(host.outside), sys.executable, "-u", "-c", datagrams(5300)]
    with subprocess.Popen(words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sent:
        assert sent.stdin and sent.stdout

        def ask() -> str:
            print("hello", file=sent.stdin, flush=True)
            return sent.stdout.readline().strip()

        assert ask() in (NO_ANSWER, REFUSED), "nothing is published yet"
        for name in ("one", "two"):
            published = ("-p", "5300:53/udp", "busybox", "sleep", "99")
            host.run("run", "-d", "-q", "--name", name, *published)
            pid = json.loads(host.run("state", name))["pid"]
            with answering_udp(["nsenter", f"--net=/proc/{pid}/ns/net"], 53):
                assert ask() == "HELLO", name
            host.run("rm", "-f", name)
        assert ask() in (NO_ANSWER, REFUSED)
        sent.stdin.close()


def test_published_ports_follow_the_network_that_leads_out(network_host: Host) -> None:
    host = network_host
    for name in ("front", "back"):
        host.run("network", "create", name)
    host.run("network", "create", "--internal", "inner")
    serve(host, "--network", "front", "-p", "8080:80", "-p", "80")
    chosen = [row for row in host.run("port", "web").splitlines() if "8080" not in row]
    assert len(chosen) == 2, "by IPv4, and by IPv6"
    host.run("network", "connect", "inner", "web")
    host.run("network", "connect", "back", "web")
    assert host.run("port", "web").splitlines()[2:] == chosen, "what was published stays"
    host.run("network", "disconnect", "front", "web")
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    assert len(host.run("port", "web").splitlines()) == 4
    host.run("network", "disconnect", "back", "web")
    assert page(host, f"{HOST}:8080", outside=True) == REFUSED
    assert host.run("port", "web") == ""
    host.run("network", "connect", "front", "web")
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    host.run("rm", "-f", "web")
    for name in ("front", "back", "inner"):
        host.run("network", "rm", name)


NAMES = ("cat", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


def test_names_of_a_read_only_root_and_of_an_image_without_etc(
    network_host: Host, tmp_path: Path
) -> None:
    host = network_host
    (tmp_path / "Dockerfile").write_text(
        "FROM busybox AS tools\nFROM scratch\nCOPY --from=tools /bin/busybox /busybox\n"
    )
    image = f"bare-{os.getpid()}"  # in the store of all tests
    host.run("build", "-q", "-t", image, str(tmp_path))
    for flags, command in (
        (("--read-only", "busybox"), NAMES), ((image,), ("/busybox", *NAMES))
    ):  # fmt: skip
        said = host.run("run", "--rm", "-q", "--hostname", "me", *flags, *command).splitlines()
        assert "127.0.0.1\tlocalhost" in said
        assert any(row.startswith("10.88.") and row.endswith("\tme") for row in said)
        assert "me" in said
        assert any(row.startswith("nameserver ") for row in said)
    host.run("rmi", image)


@pytest.mark.parametrize(
    ("own", "of_resolved", "expected"),
    [
        ("nameserver 192.0.2.7\n", "nameserver 192.0.2.99\n", "nameserver 192.0.2.7"),
        ("nameserver 127.0.0.53\n", "nameserver 192.0.2.99\n", "nameserver 192.0.2.99"),
        ("nameserver 127.0.0.53\nnameserver 192.0.2.7\n", "nameserver 192.0.2.99\n",
         "nameserver 192.0.2.7"),
        ("nameserver 127.0.0.53\n", "", "nameserver 8.8.8.8\nnameserver 8.8.4.4"),
        ("nameserver 127.0.0.1\n", "nameserver 192.0.2.99\n",
         "nameserver 8.8.8.8\nnameserver 8.8.4.4"),
        ("sortlist 192.0.2.0/255.255.255.0\ndomain a.test\nnameserver 192.0.2.7 # ours\n", "",
         "nameserver 192.0.2.7\nsearch a.test\nsortlist 192.0.2.0/255.255.255.0"),
    ],
    ids=["another server", "resolved alone", "resolved and another", "no file of resolved",
         "another on loopback", "sortlist"],
)  # fmt: skip
def test_whose_resolv_conf(
    network_host: Host, tmp_path: Path, own: str, of_resolved: str, expected: str
) -> None:
    """systemd-resolved's own list counts only if 127.0.0.53 is the one server: docker's rule."""
    (tmp_path / "own").write_text(own)
    (tmp_path / "resolved").write_text(of_resolved)
    there = (
        "[ -d /run/systemd ] || mount -t tmpfs none /run; mkdir -p /run/systemd; "
        f"mount --bind {tmp_path}/own /etc/resolv.conf; mount -t tmpfs none /run/systemd; "
        f"mkdir /run/systemd/resolve; cp {tmp_path}/resolved /run/systemd/resolve/resolv.conf; "
        'exec "$@"'
    )
    argv = network_host.argv("run", "--rm", "-q", "busybox", "cat", "/etc/resolv.conf")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", there, "sh", *argv],
        check=True, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == f"{expected}\n"


def test_a_bundle_gets_no_network_of_ours(network_host: Host, tmp_path: Path) -> None:
    """An engine gives its containers their network itself."""
    host = network_host
    before = host.state()
    command = ("sh", "-c", "ls /sys/class/net; sleep 2")
    copy_layer(layer_of("busybox"), tmp_path / "rootfs")
    (tmp_path / "config.json").write_text(host.run("spec", "busybox", *command))
    with subprocess.Popen(
        host.argv("run", "--bundle", str(tmp_path), "c"), text=True, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdout.readline() == "lo\n"
        after = host.state()
        after["processes"] = before["processes"]
        assert after == before
    assert process.returncode == 0


def test_mtu(network_host: Host) -> None:
    host = network_host
    host.run("network", "create", "--opt", "mtu=1400", "small")
    said = host.run("run", "--rm", "-q", "--network", "small", "busybox", "ip", "link")
    assert "mtu 1400" in said
    host.shell("ip link set e0 mtu 1450")
    assert "mtu 1450" in host.run("run", "--rm", "-q", "busybox", "ip", "link", "show", "eth0")
    host.shell("ip link set e0 mtu 1500")


@pytest.mark.parametrize("kind", ["container", "host", "none"])
def test_another_namespace(network_host: Host, kind: str) -> None:
    host = network_host
    serve(host, "--hostname", "box")
    if kind == "container":
        words = (
            "--network",
            "container:web",
            "busybox",
            "sh",
            "-c",
            f"{GET} 127.0.0.1 80; hostname",
        )
        assert host.run("run", "--rm", "-q", *words).splitlines() == ["hello", "box"]
    elif kind == "host":
        at = address(host, "web")
        words = ("--network", "host", "busybox", "sh", "-c", f"{GET} {at} 80; ip link | grep -c e0")
        assert host.run("run", "--rm", "-q", *words).splitlines()[0] == "hello"
    else:
        said = host.run("run", "--rm", "-q", "--network", "none", "busybox", "ip", "-o", "link")
        assert len(said.splitlines()) == 1


def test_a_port_that_is_taken(network_host: Host) -> None:
    host = network_host
    listen = "import socket,time; s=socket.create_server(('',7070)); time.sleep(60)"
    host.shell(f'timeout 60 python3 -c "{listen}" >/dev/null 2>&1 & sleep 0.7')
    done = host("run", "--rm", "-q", "-p", "7070:80", "busybox", "true")
    assert done.returncode == 125
    assert (
        "failed to bind host port 0.0.0.0:7070/tcp: address already in use by python3"
        in done.stderr
    )
    serve(host, "-p", "8080:80")
    done = host("run", "--rm", "-q", "-p", "8080:80", "busybox", "true")
    assert "address already in use by the container web" in done.stderr
    bind = "import socket; socket.socket().bind(('', 8080))"
    assert "Address already in use" in host.shell(f'python3 -c "{bind}"'), "the port is held"
    host.run("rm", "-f", "web")
    serve(host, "-p", "8080:80")


def test_the_kernel_chooses(network_host: Host) -> None:
    host = network_host
    serve(host, "-p", "80")
    number = host.run("port", "web", "80").rpartition(":")[2]
    assert int(number) > 1023
    assert page(host, f"{HOST}:{number}", outside=True) == "hello"


def test_all_that_an_image_exposes(network_host: Host, tmp_path: Path) -> None:
    """-P; what the image says is a port of the container, and never one of the host."""
    host = network_host
    rows = {"good": ["80/tcp", "53/udp"], "bad": ["127.0.0.1:80:80"], "many": ["1-5000"]}
    source = host.store / "images"
    copies = tmp_path / "images"
    copies.mkdir()
    for name, exposed in rows.items():
        shutil.copytree(os.path.realpath(source / "busybox"), copies / name, symlinks=True)
        details = json.loads((copies / name / "image.json").read_text())
        changed = details | {"name": name, "ports": exposed}
        (copies / name / "image.json").write_text(json.dumps(changed))
    source.unlink()
    source.symlink_to(copies)
    host.run("run", "-d", "-q", "--name", "web", "-P", "-p", "8053:53/udp", "good", "sleep", "99")
    ports = dict(line.split(" -> ") for line in host.run("port", "web").splitlines())
    assert ports.keys() == {"80/tcp", "53/udp"}
    assert ports["53/udp"] == "[::]:8053"
    for name, text in (("bad", "the image exposes '127.0.0.1:80:80'"), ("many", "more than 1000")):
        done = host("run", "--rm", "-q", "-P", name, "true")
        assert done.returncode == 125 and text in done.stderr, done.stderr
