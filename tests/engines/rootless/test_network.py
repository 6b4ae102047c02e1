"""A network without root: pasta and slirp4netns, on a host of its own with another one outside.

/dev/net/tun is root's alone on some machines: the user gets one that everybody may open, as
distributions have it, in a mount namespace.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import skip, wait_until
from engines.rootless.conftest import User
from net.hosts import HOST, OUTSIDE, Host, host, ip
from net.test_scenarios import GET, REFUSED, SERVER, answering_udp, page
from net.test_walls import ended, listening
from required import installed

PROGRAMS = ("pasta", "slirp4netns")
_NAMES = ("pasta", "passt", "slirp4netns")
"""pasta may be passt.avx2: it executes what suits the processor."""
_TUN = 'mount --bind "$0" /dev/net/tun && exec "$@"'


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    installed(request.param)
    return str(request.param)


@pytest.fixture
def network_host(command: str, tmp_path: Path) -> Iterator[Host]:
    with host(command, tmp_path) as made:
        yield made


@pytest.fixture
def guest(user: User, network_host: Host, nodes_path: Path) -> Iterator[User]:
    """The user, on that host; a program that is left afterwards fails the test."""
    if not os.path.exists("/dev/net/tun"):
        skip("this kernel has no /dev/net/tun")
    tun = nodes_path / "tun"
    os.mknod(tun, stat.S_IFCHR, os.makedev(10, 200))
    tun.chmod(0o666)
    del user.env["MINIRUN_NETWORK"]
    user.before = (
        "nsenter", f"--net=/proc/{network_host.pid}/ns/net", "unshare", "-m",
        "sh", "-c", _TUN, str(tun),
    )  # fmt: skip
    yield user
    user.clean()
    assert helpers(network_host) == []


def started(guest: User, *flags: str, name: str = "web", command: str = SERVER) -> int:
    """Start a container in the background; return its init's pid."""
    done = guest("run", "-d", "-q", "--name", name, *flags, "busybox", "sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return int(json.loads(guest("state", name).stdout)["pid"])


def helpers(network_host: Host) -> list[str]:
    """Return the processes of pasta and slirp4netns on the host: it is this test's own."""
    return [name for name in network_host.processes() if name.startswith(_NAMES)]


def _reach_the_outside(host: Host, pid: int, folder: Path) -> None:
    """Get 20 MB by TCP, and an answer by UDP, in the network namespace of a container.

    Debian 12's pasta tells no end of a connection that its own side has half closed: so no nc.
    """
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c"]
    data = os.urandom(20 << 20)
    (folder / "file").write_bytes(data)
    sender = f"timeout 60 {sys.executable} -m http.server -d {folder} -b {OUTSIDE} 8000"
    host.shell(f"{sender} >/dev/null 2>&1 & sleep 0.7", outside=True)
    get = (
        "import hashlib, urllib.request as r;"
        f"data = r.urlopen('http://{OUTSIDE}:8000/file', timeout=30).read();"
        "print(hashlib.sha256(data).hexdigest())"
    )
    got = subprocess.check_output([*inside, get], text=True)
    assert got.strip() == hashlib.sha256(data).hexdigest()
    with answering_udp(host.inside(host.outside), 6000):
        ask = (
            "import socket; s = socket.socket(2, 2); s.settimeout(5);"
            f"s.sendto(b'out', ('{OUTSIDE}', 6000)); print(s.recv(9).decode())"
        )
        assert subprocess.check_output([*inside, ask], text=True) == "OUT\n"


def test_ports_and_the_way_out(
    guest: User, network_host: Host, program: str, tmp_path: Path
) -> None:
    flags = ("--network", program, "-p", "8080:80", "-p", "5300:53/udp", "-p", "127.0.0.1:8081:80")
    pid = started(guest, *flags)
    wait_until(lambda: page(network_host, "127.0.0.1:8080") == "hello")
    assert page(network_host, f"{HOST}:8080") == "hello"
    assert page(network_host, f"{HOST}:8080", outside=True) == "hello"
    assert page(network_host, "127.0.0.1:8081") == "hello"
    assert page(network_host, f"{HOST}:8081", outside=True) == REFUSED
    with answering_udp(["nsenter", f"--net=/proc/{pid}/ns/net"], 53):
        ask = (
            "import socket; s = socket.socket(2, 2); s.settimeout(5);"
            f"s.sendto(b'hello', ('{HOST}', 5300)); print(s.recv(9).decode())"
        )
        assert network_host.shell(f'python3 -c "{ask}"', outside=True) == "HELLO"
    rows = guest("port", "web").stdout.splitlines()
    assert rows == ["80/tcp -> 0.0.0.0:8080", "53/udp -> 0.0.0.0:5300", "80/tcp -> 127.0.0.1:8081"]
    assert "0.0.0.0:8080->80/tcp" in guest("ps").stdout
    inner = guest("exec", "web", "cat", "/etc/resolv.conf").stdout
    assert "nameserver" in inner
    _reach_the_outside(network_host, pid, tmp_path)
    (event,) = [
        row for row in guest.events("web") if row["kind"] == "note" and row["name"] == "network"
    ]
    assert event["args"]["network"] == program
    assert event["stage"] == 1
    assert len(helpers(network_host)) == 1
    assert guest("rm", "-f", "web").returncode == 0
    assert helpers(network_host) == []


def test_pasta_is_the_default_and_ends_with_the_command(guest: User, network_host: Host) -> None:
    installed("pasta")
    done = guest("run", "--rm", "-q", "busybox", "ip", "address")
    assert (done.returncode, done.stderr) == (0, "")
    assert "eth0" in done.stdout
    assert HOST in done.stdout
    assert helpers(network_host) == []


OFFLINE = "pasta failed with exit status 1: "


def test_offline_the_other_program_is_used(guest: User, network_host: Host) -> None:
    """pasta takes the address of an interface of the host's; here is none but lo."""
    for program in PROGRAMS:
        installed(program)
    ip(network_host.pid, "link", "delete", "e0")
    done = guest("run", "-d", "--name", "web", "-p", "8080:80", "busybox", "sh", "-c", SERVER)
    if OFFLINE not in done.stderr:
        skip("this pasta works without an interface")
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "slirp4netns is used" in done.stderr
    wait_until(lambda: page(network_host, "127.0.0.1:8080") == "hello")
    done = guest("run", "--rm", "-q", "busybox", "ip", "address")
    assert "10.0.2.100" in done.stdout, done
    (row,) = [
        row for row in json.loads(guest("doctor", "--json").stdout)["findings"]
        if row["name"] == "user network"
    ]  # fmt: skip
    assert row["works"] and "slirp4netns: the default" in row["found"] and OFFLINE in row["found"]
    done = guest("run", "--rm", "-q", "--network", "pasta", "busybox", "true")
    assert done.returncode == 125 and OFFLINE in done.stderr, "a name is a name"
    assert "(slirp4netns needs none: --network slirp4netns)" in done.stderr


def test_it_starts_again_offline(guest: User, network_host: Host) -> None:
    """The program is chosen at each start: the record does not hold the first one's."""
    for program in PROGRAMS:
        installed(program)
    started(guest, command="ip address; exec sleep 99")
    ip(network_host.pid, "link", "delete", "e0")
    done = guest("restart", "-t", "0", "web")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: guest("logs", "web").stdout.count("eth0:") == 2)


def test_offline_with_pasta_alone(guest: User, network_host: Host) -> None:
    """The container runs with lo; doctor says that there is no network, and what to install."""
    installed("pasta")
    ip(network_host.pid, "link", "delete", "e0")
    if other := shutil.which("slirp4netns"):
        script = 'mount --bind /dev/null "$0" && exec "$@"'
        guest.before = (*guest.before, "sh", "-c", script, other)
    done = guest("run", "--rm", "busybox", "echo", "hi")
    if OFFLINE not in done.stderr:
        skip("this pasta works without an interface")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert f"no network: {OFFLINE}" in done.stderr and "apt install slirp4netns" in done.stderr
    rows = json.loads(guest("doctor", "--json").stdout)["findings"]
    (row,) = [row for row in rows if row["name"] == "user network"]
    assert not row["works"] and "apt install slirp4netns" in row["advice"], row


def test_the_hosts_own_ports_are_not_the_containers(
    guest: User, network_host: Host, program: str
) -> None:
    """127.0.0.1 of the host is behind no address that the container has."""
    server = listening(network_host, "127.0.0.1", 9999)
    try:
        started(guest, "--network", program, command="sleep 99")
        gateway = guest("exec", "web", "sh", "-c", "ip route | sed -n 's/^default via //p'").stdout
        for where in ("127.0.0.1", gateway.split()[0], "10.0.2.2", HOST):
            done = guest("exec", "web", "sh", "-c", f"{GET} {where} 9999")
            assert done.stdout == "", where
    finally:
        ended(server)


def test_the_runtime_is_killed(guest: User, network_host: Host, program: str) -> None:
    """The program belongs to a container that is gone: `gc` ends it."""
    pid = started(guest, "--network", program, "-p", "8080:80")
    record = json.loads((guest.directory("web") / "state.json").read_text())
    for each in (record["supervisor"]["pid"], pid):
        os.kill(each, 9)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    assert guest("gc").returncode == 0
    guest("rm", "-f", "web")
    assert helpers(network_host) == []


@contextmanager
def taken(network_host: Host, port: int) -> Iterator[None]:
    server = listening(network_host, "0.0.0.0", port)
    try:
        yield
    finally:
        ended(server)


WRONG = [
    (("--ip", "10.0.0.5"), "--ip needs a network of root's, and not"),
    (("-p", "80:80/sctp"), "publishes no ports of SCTP"),
    (("--add-host", "me:host-gateway"), "has no host-gateway"),
    (("-p", "79:80"), "failed to bind host port 0.0.0.0:79/tcp: permission denied"),
    (("-p", "8090:80"), "failed to bind host port 0.0.0.0:8090/tcp: address already in use"),
    (("--network", "none"), "is the only network of a container"),
]


@pytest.mark.parametrize(("flags", "text"), WRONG, ids=[" ".join(flags) for flags, _ in WRONG])
def test_wrong_words(
    guest: User, network_host: Host, program: str, flags: tuple[str, ...], text: str
) -> None:
    with taken(network_host, 8090):
        done = guest("run", "--name", "web", "-q", "--network", program, *flags, "busybox", "true")
    assert done.returncode in (125, 1)
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not guest.directory("web").exists()
    assert helpers(network_host) == []


def test_a_run_step_has_it(guest: User, network_host: Host, program: str) -> None:
    folder = guest.home / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM busybox\nRUN ip address | grep eth0 > /seen\n")
    for each in (folder, folder / "Dockerfile"):
        os.chown(each, guest.home.stat().st_uid, guest.home.stat().st_gid)
    done = guest("build", "-q", "-t", "seen", "--network", program, str(folder))
    assert done.returncode == 0, done.stderr
    assert helpers(network_host) == []


def test_a_dry_run_says_what_a_run_executes(guest: User, network_host: Host, program: str) -> None:
    flags = ("--network", program, "-p", "8080:80", "-p", "5300:53/udp")
    done = guest("run", "--dry-run", *flags, "busybox", "true")
    assert done.returncode == 0, done.stderr
    (line,) = [row.strip() for row in done.stdout.splitlines() if row.strip().startswith(program)]
    assert helpers(network_host) == []
    pid = started(guest, *flags)
    calls = [e["args"] for e in guest.events("web") if e["name"] == "execve"]
    (argv,) = [args["argv"] for args in calls if args["argv"][0] == program]
    executed = " ".join(argv).replace(str(pid), "PID")
    ready = re.sub(r" --ready-fd \d+", "", executed)  # the run alone has a pipe to hear from
    assert ready == line.replace("$PID", "PID")
