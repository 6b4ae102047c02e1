"""lo, in network namespaces made for the test."""

import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minirun import net
from minirun.core import events
from minirun.core.kernel import namespaces
from minirun.net import interfaces


def forked_in_new_network(body: str) -> int:
    """Run `body` in a child with its own network namespace and return its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            namespaces.unshare(namespaces.CLONE_NEWNET)
            exec(body, globals())
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def container() -> Iterator[int]:
    """A process in its own network namespace, with lo still down."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        namespaces.unshare(namespaces.CLONE_NEWNET)
        os.write(writing, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    yield pid
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def talk_to_myself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()


def test_lo_is_down_before_and_carries_traffic_after() -> None:
    down = "try:\n    talk_to_myself()\nexcept OSError:\n    pass\nelse:\n    raise SystemExit(2)\n"
    assert forked_in_new_network(down + "net.set_up('lo')\ntalk_to_myself()") == 0


def test_up_is_logged_and_takes_no_time(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    body = f"""
took = []
for _ in range(20):
    start = time.perf_counter()
    net.set_up("lo")
    took.append(time.perf_counter() - start)
assert min(took) < 1e-3, took
events.open_log({str(log)!r}, "c1")
net.set_up("lo")
"""
    assert forked_in_new_network(body) == 0
    (event,) = map(json.loads, log.read_text().splitlines())
    assert (event["name"], event["args"]["request"], event["ret"]) == ("ioctl", "SIOCSIFFLAGS", 0)


def test_a_missing_interface_is_named() -> None:
    with pytest.raises(OSError, match="No such device: 'nosuch0'"):
        net.set_up("nosuch0")
    assert events.log_fds() == ()


def test_interfaces_of_a_container(container: int) -> None:
    before = os.listdir("/proc/self/fd")
    (lo,) = interfaces.interfaces(container)
    assert (lo.name, lo.up, lo.addresses) == ("lo", False, ())
    home = os.readlink("/proc/self/ns/net")
    with interfaces.network_of(container):
        net.set_up("lo")
        assert os.readlink("/proc/self/ns/net") != home
    assert os.readlink("/proc/self/ns/net") == home
    (lo,) = interfaces.interfaces(container)
    assert lo.up
    assert lo.addresses == ("127.0.0.1/8", "::1/128")
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_name_that_is_not_utf_8(container: int) -> None:
    """The kernel takes any bytes but a slash, a colon and white space."""
    with interfaces.network_of(container), socket.socket() as asked:
        fcntl.ioctl(asked, 0x8923, struct.pack("16s16s8x", b"lo", b"l\xff"))  # SIOCSIFNAME
    (lo,) = interfaces.interfaces(container)
    assert lo.name == "l\ufffd"


def test_a_dead_process_is_an_oserror() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    with pytest.raises(OSError, match=f"/proc/{pid}/ns/net"):
        interfaces.interfaces(pid)
