"""A user's container joins namespaces of another one: it enters its user namespace first."""

from __future__ import annotations

import os

import pytest

from conftest import wait_until
from engines.rootless.conftest import User

SERVER = "echo hello > /tmp/x; exec httpd -f -p 80 -h /tmp"
FETCH = ("wget", "-qO-", "http://127.0.0.1/x")


@pytest.fixture
def first(user: User) -> User:
    """The user, with a container `a` that serves a file to those in its network namespace."""
    done = user("run", "-d", "--name", "a", "busybox", "sh", "-c", SERVER)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: user("exec", "a", *FETCH).stdout == "hello\n")
    return user


def test_the_network(first: User) -> None:
    done = first("run", "--rm", "--network", "container:a", "busybox", *FETCH)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_the_processes(first: User) -> None:
    words = ("--pid", "container:a", "busybox", "sh", "-c", "ps; kill -9 1; kill $(pidof httpd)")
    done = first("run", "--rm", *words)
    assert "httpd -f" in done.stdout, done


def test_it_starts_again_and_so_does_the_other(first: User) -> None:
    """The pid in the path is another one then: the record has the container's id."""
    words = ("--network", "container:a", "--pid", "container:a")
    done = first("create", "--name", "b", *words, "busybox", "sh", "-c", "echo x > /x; sleep 99")
    assert done.returncode == 0, done.stderr
    assert first("exec", "b", "id", "-u").stdout == "0\n", "before its command runs"
    for names in (("b",), ("a", "b")):
        for name in names:
            done = first("restart", "-t", "0", name)
            assert done.returncode == 0, done.stderr
        wait_until(lambda: first("exec", "b", *FETCH).stdout == "hello\n")
        assert "httpd" in first("exec", "b", "ps").stdout
    assert first("rm", "-f", "b", "a").returncode == 0


def test_more_ids(granted: User) -> None:
    """Files of further ids, in there, are removed with the container."""
    assert granted("run", "-d", "--name", "a", "busybox", "sleep", "99").returncode == 0
    script = "mkdir /d; echo x > /d/f; chown -R 7:7 /d; chmod 700 /d; stat -c %u /d"
    words = ("run", "--name", "b", "--network", "container:a", "busybox", "sh", "-c", script)
    done = granted(*words)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
    done = granted("rm", "-f", "b", "a")
    assert (done.returncode, done.stderr) == (0, "")
    assert not granted.directory("b").exists()


def test_two_user_namespaces(first: User) -> None:
    assert first("run", "-d", "--name", "c", "busybox", "sleep", "99").returncode == 0
    words = ("--network", "container:a", "--pid", "container:c")
    done = first("run", "--name", "d", *words, "busybox", "true")
    assert (done.returncode, done.stdout) == (1, "") or done.returncode == 125
    assert "without root, containers with user namespaces of their own" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not first.directory("d").exists()


def test_maps_of_its_own(first: User) -> None:
    words = ("--uidmap", "0:54321:1", "--network", "container:a")
    done = first("run", "--name", "d", *words, "busybox", "true")
    assert done.returncode == 125 and "leave --uidmap and --gidmap out" in done.stderr
    assert not first.directory("d").exists()


def test_init_is_closed_to_the_processes_of_the_other(user: User) -> None:
    """They are root in the same user namespace: what init has of the host is not theirs.

    The trampoline, which follows it under the same name, has the streams and itself, no more.
    """
    spy = (
        "own() { grep -q minirun $p/comm 2>/dev/null; }; while :; do for p in /proc/[0-9]*; do"
        f" own && {{ s=$(ls -d $p/fd/[4-9] $p/fd/1? $p/root{user.home} 2>/dev/null); own &&"
        " { echo x >> /tmp/met; echo $s >> /tmp/seen; }; }; done; done"
    )
    words = ("-d", "--name", "a", "--cap-add", "SYS_PTRACE", "busybox", "sh", "-c", spy)
    assert user("run", *words).returncode == 0

    def met() -> bool:
        words = ("--network", "none", "--pid", "container:a", "busybox", "true")
        assert user("run", "--rm", *words).returncode == 0
        return user("exec", "a", "test", "-e", "/tmp/met").returncode == 0

    wait_until(met)
    assert user("exec", "a", "cat", "/tmp/seen").stdout.strip() == ""


def test_the_processes_of_the_host(user: User) -> None:
    """Its /proc is bound: a new one of the host's pid namespace no user may mount."""
    script = "readlink /proc/self/ns/pid; echo x > /proc/sys/kernel/domainname || echo closed"
    done = user("run", "--rm", "--pid", "host", "busybox", "sh", "-c", script)
    assert "Read-only file system" in done.stderr
    assert done.stdout == f"{os.readlink('/proc/self/ns/pid')}\nclosed\n", done
    done = user("run", "--rm", "--pid", "host", "busybox", "cat", "/proc/kcore", "/proc/keys")
    assert done.stdout == "", "hidden as ever"
    done = user("run", "-d", "--name", "c", "--pid", "host", "busybox", "sleep", "99")
    rows = [line.split()[2:] for line in user("exec", "c", "ps").stdout.splitlines()]
    assert ["sleep", "99"] in rows
    assert user("restart", "-t", "0", "c").returncode == 0
