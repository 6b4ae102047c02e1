"""Level 8: addresses, a way out, a port that leads in."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from minirun.faces.teach.levels import facts, tried
from minirun.faces.teach.levels.material import PROC
from minirun.faces.teach.levels.tried import NotYet, TriedProgram, wait

_PORT, _SECOND = 8080, 8083
_HOST, _OUTSIDE = "10.99.0.1", "10.99.0.2"
"""Addresses of the sandbox, which is the host here, and of a machine outside."""


def network_is_there(program: TriedProgram) -> None:
    """The container has an address, a way out, and lo."""
    done = program.run("/bin/sh", "-c", "ip addr; ip route; ping -c1 -W1 127.0.0.1")
    if not re.search(r"inet 127.0.0.1/8", done.out) or "1 packets received" not in done.out:
        raise NotYet("lo-down", done.said)
    if not re.search(r"inet (?!127)[0-9.]+/\d+ .*scope global", done.out):
        raise NotYet("no-address")
    route = re.search(r"default via ([0-9.]+)", done.out)
    if not route:
        raise NotYet("no-route")
    if program.run("ping", "-c1", "-W2", route[1]).status:
        raise NotYet("no-gateway", route[1])


def packets_are_translated(program: TriedProgram) -> None:
    """A machine outside, which knows nothing of the container's addresses, can answer it."""
    with _machine_outside() as pid:
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.append(facts.in_namespace(pid, _peer, "net")))
        thread.start()
        program.run("/bin/sh", "-c", f"sleep 0.3; nc -w 2 {_OUTSIDE} 9090 < /dev/null")
        thread.join()
    if seen == [""]:
        raise NotYet("no-way-out", _OUTSIDE)
    if seen != [_HOST]:
        raise NotYet("not-translated", seen[0])


def port_leads_in(program: TriedProgram) -> None:
    """Published ports reach the container, from the host and from outside."""
    script = "mkdir -p /www; echo hello > /www/index.html; exec httpd -f -p 80 -h /www"
    flags = ("-p", f"{_PORT}:80", "-p", f"{_SECOND}:80")
    words = program.words("/bin/sh", "-c", script, flags=flags)
    server = ("httpd", "-f", "-p", "80", "-h", "/www")
    with _machine_outside() as pid, program.running(*server, words=words):
        for port in (_PORT, _SECOND):
            ask = partial(facts.get, _HOST, port)
            if "hello" not in (wait(partial(facts.in_namespace, pid, ask, "net"), 4.0) or ""):
                raise NotYet("port-closed", f"{_HOST}:{port}")
            if "hello" not in (wait(ask, 2.0) or ""):
                raise NotYet("port-closed-on-the-host", f"{_HOST}:{port}")


def containers_differ(program: TriedProgram) -> None:
    """Two containers at once have different addresses."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        done = program.run("/bin/sh", "-c", "ip -4 -o addr show scope global")
        first = facts.in_namespace(pid, facts.addresses, "net")
        second = re.findall(r"inet ([0-9.]+)", done.out)
        if set(first) & set(second):
            raise NotYet("same-address", second[0])


def others_are_left_alone(program: TriedProgram) -> None:
    """The end of one container does nothing to another: the bridge, its address, the rules."""
    with program.running("sleep", tried.SLEEP) as (_, pid):
        program.run("true", flags=("-p", f"{_PORT}:80"))
        gateway = facts.in_namespace(pid, facts.gateway, "net")
        if not facts.in_namespace(pid, lambda: facts.answers(gateway), "net"):
            raise NotYet("bridge-taken-away", gateway)


def only_its_port_leads_in(program: TriedProgram) -> None:
    """Other ports stay the host's, those of other machines theirs; a caller keeps its address."""
    flags = ("-p", f"{_PORT}:80")
    sleeping = program.running("sleep", tried.SLEEP, flags=flags)
    with _machine_outside() as outside, sleeping as (_, pid):
        seen = _callers(pid, outside, 80, _PORT)
        if seen != [_OUTSIDE]:
            raise NotYet("caller-hidden", ", ".join(seen) or "nothing")
        if _callers(os.getpid(), outside, _PORT + 1, _PORT + 1) != [_OUTSIDE]:
            raise NotYet("other-port", str(_PORT + 1))
        if not _callers(outside, pid, _PORT, _PORT, _OUTSIDE):
            raise NotYet("other-machines-port", f"{_OUTSIDE}:{_PORT}")


def _callers(
    server: int, caller: int, listening: int, called: int, address: str = _HOST
) -> list[str]:
    """Return the address that a server sees of a caller; both are pids in network namespaces.

    The server listens on one port, and another is called at an address, which may lead to it.
    """
    seen: list[str] = []

    def serve() -> None:
        seen.append(facts.in_namespace(server, partial(_peer, listening, 3.0), "net"))

    thread = threading.Thread(target=serve)
    thread.start()
    wait(lambda: facts.in_namespace(caller, partial(_connects, address, called), "net"), 2.0)
    thread.join()
    return [each for each in seen if each]


def _connects(address: str, port: int) -> bool:
    """Return True if a machine takes a connection to a port."""
    with suppress(OSError), socket.create_connection((address, port), 0.5):
        return True
    return False


def links_are_removed(program: TriedProgram) -> None:
    """No interface and no rule is left, of this start nor of an earlier one."""
    before, tables = set(program.links), _tables()
    program.run("true", flags=("-p", f"{_PORT}:80"))
    wait(lambda: set(os.listdir("/sys/class/net")) <= before, 1.0)
    if new := sorted(set(os.listdir("/sys/class/net")) - before):
        raise NotYet("link-left", new[0])
    if new := sorted(_tables() - tables):
        raise NotYet("rules-left", new[0])


def _tables() -> set[str]:
    """Return the tables of nftables."""
    done = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True)
    return set(done.stdout.splitlines())


@contextmanager
def _machine_outside() -> Iterator[int]:
    """Connect a network namespace to the sandbox: a machine beside the host. Yield a pid in it."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    try:
        own = os.readlink(f"{PROC}/self/ns/net")
        wait(lambda: os.readlink(f"{PROC}/{holder.pid}/ns/net") != own)
        for command in (
            f"ip link add outside0 type veth peer name eth0 netns {holder.pid}",
            f"ip addr add {_HOST}/24 dev outside0",
            "ip link set outside0 up",
            f"nsenter --target {holder.pid} --net ip addr add {_OUTSIDE}/24 dev eth0",
            f"nsenter --target {holder.pid} --net ip link set eth0 up",
            f"nsenter --target {holder.pid} --net ip route add default via {_HOST}",
        ):
            subprocess.run(command.split(), check=True)
        yield holder.pid
    finally:
        subprocess.run(["ip", "link", "del", "outside0"], stderr=subprocess.DEVNULL)
        holder.kill()  # its namespace, and with it the cable, would end some time later
        holder.wait()


def _peer(port: int = 9090, seconds: float = 0) -> str:
    """Return the address that a connection to a port comes from; "" if none comes.

    `seconds`: how long one is waited for; 0 for half of what a start may take.
    """
    with suppress(OSError), socket.create_server(("", port)) as server:
        server.settimeout(seconds or tried.seconds() / 2)
        connection, address = server.accept()
        connection.close()
        return str(address[0])
    return ""
