"""The flags of `minirun run` that say what a container may do, by what it then can and cannot."""

import json
import os
import stat
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from conftest import Program, wait_until
from minirun.core.process import caps

SHELL = ("busybox", "sh", "-c")


def output(minirun: Program, *args: str, **options: Any) -> str:
    """What a container's command prints; it must end well."""
    done = minirun("run", "--rm", *args, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_read_only(minirun: Program) -> None:
    script = (
        "touch /new; echo $?; touch /dev/shm/new; echo $?; cat /etc/passwd > /dev/null; echo $?"
    )
    done = minirun("run", "--rm", "--read-only", *SHELL, script)
    assert done.stdout.split() == ["1", "0", "0"]
    assert "Read-only file system" in done.stderr
    assert output(minirun, *SHELL, "touch /new; echo $?") == "0\n"


def held(minirun: Program, *flags: str) -> set[str]:
    found = output(minirun, *flags, "busybox", "grep", "CapEff", "/proc/self/status")
    return set(caps.names(int(found.split()[1], 16)))


def test_capabilities(minirun: Program) -> None:
    usual = held(minirun)
    assert len(usual) == 14
    assert held(minirun, "--cap-add", "NET_ADMIN") - usual == {"CAP_NET_ADMIN"}
    assert usual - held(minirun, "--cap-drop", "chown") == {"CAP_CHOWN"}
    assert held(minirun, "--cap-drop", "ALL") == set()
    assert held(minirun, "--cap-drop", "ALL", "--cap-add", "CAP_KILL") == {"CAP_KILL"}
    assert held(minirun, "--cap-add", "ALL") == set(caps.names(caps.held()))


def test_capabilities_have_an_effect(minirun: Program) -> None:
    chown = (*SHELL, "touch /x && chown 5 /x")
    assert minirun("run", "--rm", *chown).returncode == 0
    assert "Operation not permitted" in minirun("run", "--rm", "--cap-drop", "CHOWN", *chown).stderr
    down = ("busybox", "ip", "link", "set", "lo", "down")
    assert minirun("run", "--rm", *down).returncode != 0
    assert minirun("run", "--rm", "--cap-add", "NET_ADMIN", *down).returncode == 0


@pytest.fixture
def device(tmp_path: Path) -> str:
    """A device without a driver: to open it gives ENXIO, or EPERM where the cgroup says no."""
    path = tmp_path / "device"
    os.mknod(path, stat.S_IFCHR | 0o640, os.makedev(240, 77))
    os.chown(path, 3, 4)
    return str(path)


ALLOWED, DENIED = "No such device or address", "Operation not permitted"


@pytest.mark.parametrize(
    ("access", "reading", "writing"),
    [("", ALLOWED, ALLOWED), (":rwm", ALLOWED, ALLOWED), (":r", ALLOWED, DENIED),
     (":w", DENIED, ALLOWED)],
)  # fmt: skip
def test_device(
    minirun_both: Program, device: str, access: str, reading: str, writing: str
) -> None:
    script = "stat -c '%t:%T %a %u:%g' /dev/x; cat /dev/x; echo > /dev/x"
    done = minirun_both("run", "--rm", "--device", f"{device}:/dev/x{access}", *SHELL, script)
    assert done.stdout == "f0:4d 640 3:4\n"
    first, second = done.stderr.splitlines()
    assert reading in first
    assert writing in second


def test_a_device_that_was_not_given(minirun_both: Program) -> None:
    done = minirun_both("run", "--rm", *SHELL, "mknod /dev/x c 240 77; cat /dev/x")
    assert DENIED in done.stderr


def test_device_under_its_own_name(minirun: Program, device: str) -> None:
    found = output(minirun, "--device", device, "busybox", "stat", "-c", "%F", device)
    assert found == "character special file\n"


def test_network_none(minirun: Program) -> None:
    script = "ls /sys/class/net; cat /sys/class/net/lo/flags; ip -4 -o address"
    names, flags, address = output(minirun, *SHELL, script).splitlines()
    assert names == "lo"
    assert int(flags, 16) & 1, "lo is up"
    assert "127.0.0.1/8" in address
    assert output(minirun, "--network", "none", *SHELL, "ls /sys/class/net") == "lo\n"
    done = minirun("run", "--rm", "busybox", "ping", "-c", "1", "-W", "5", "127.0.0.1")
    assert done.returncode == 0, done.stderr


def test_network_host(minirun: Program) -> None:
    found = output(minirun, "--network", "host", "busybox", "readlink", "/proc/self/ns/net")
    assert found.strip() == os.readlink("/proc/self/ns/net")
    found = output(minirun, "--net=host", "busybox", "cat", "/etc/hosts")
    assert found == Path("/etc/hosts").read_text()


def test_uidmap(reachable: Program, tmp_path: Path) -> None:
    """Root inside is nobody outside; its groups are mapped as its users, or by --gidmap."""
    box = f"rights-{uuid.uuid4().hex[:10]}"
    flags = ("--uidmap", "0:100000:1000", "--uidmap", "2000:300000:5", "--gidmap", "0:200000:1000")
    script = "cat /proc/self/uid_map /proc/self/gid_map; touch /mine; id -u; exec sleep 100"
    done = reachable("run", "-d", "--name", box, *flags, *SHELL, script)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: len(reachable("logs", box).stdout.splitlines()) == 4)
    rows = [line.split() for line in reachable("logs", box).stdout.splitlines()]
    assert rows == [
        ["0", "100000", "1000"],
        ["2000", "300000", "5"],
        ["0", "200000", "1000"],
        ["0"],
    ]
    info = os.stat(f"/proc/{json.loads(reachable('state', box).stdout)['pid']}")
    assert (info.st_uid, info.st_gid) == (100000, 200000)
    made = (reachable.directory(box) / "upper/mine").stat()
    assert (made.st_uid, made.st_gid) == (100000, 200000)


def test_uidmap_and_the_images_files(reachable: Program) -> None:
    """The image's files belong to the container's root, and are not changed for it."""
    found = output(reachable, "--uidmap", "0:100000:65536", *SHELL, "stat -c %u:%g /bin/sh /etc")
    assert found == "0:0\n0:0\n"
    done = reachable("run", "--rm", "--uidmap", "0:100000:65536", *SHELL, "rm /etc/passwd; ls /etc")
    assert done.returncode == 0
    assert "passwd" in output(reachable, "busybox", "ls", "/etc")


def test_uidmap_user_and_device(reachable: Program) -> None:
    flags = ("--uidmap", "0:100000:65536", "-u", "1000:1000")
    assert output(reachable, *flags, *SHELL, "id -u; id -g; echo x > /dev/null") == "1000\n1000\n"


_WITHOUT_NAMES = """
mount -t tmpfs none "$1"; mkdir "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" none /etc
rm -f /etc/hosts /etc/resolv.conf
shift; exec "$@"
"""


def test_network_host_on_a_host_without_hosts(minirun: Program, tmp_path: Path) -> None:
    """A bare Debian has no /etc/hosts: its installer writes that file."""
    words = minirun.argv("run", "--rm", "--network", "host", "busybox", "echo", "hello")
    place = tmp_path / "place"
    place.mkdir()
    unshare = ("unshare", "--mount", "--propagation", "private")
    argv = [*unshare, "sh", "-euc", _WITHOUT_NAMES, "sh", str(place), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("hello\n", "")
