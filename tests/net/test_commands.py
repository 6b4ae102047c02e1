"""network ls, rm and prune: which networks there are, which go, and which stay."""

from __future__ import annotations

import json
import time

import pytest

from net.hosts import Host

ALWAYS = ["bridge", "host", "none"]


@pytest.fixture
def three(network_host: Host) -> Host:
    """Networks a, b and used, which a container is on."""
    network_host.run("network", "create", "--label", "keep=yes", "--subnet", "10.98.1.0/24", "a")
    network_host.run("network", "create", "--internal", "--ipv6", "b")
    network_host.run("network", "create", "used")
    network_host.run(
        "run", "-d", "-q", "--name", "c", "--network", "used", "busybox", "sleep", "99"
    )
    return network_host


def names(host: Host, *words: str) -> list[str]:
    return host.run("network", "ls", "--format", "{{.Name}}", *words).split()


def test_ls(three: Host) -> None:
    rows = [line.split() for line in three.run("network", "ls").splitlines()]
    assert rows[0] == ["NETWORK", "ID", "NAME", "SUBNET", "BRIDGE", "INTERNAL", "CONTAINERS"]
    found = {row[1]: row for row in rows[1:]}
    assert [row[0] for row in rows[1:]] == three.run("network", "ls", "-q").split()
    assert found["a"][2] == "10.98.1.0/24" and found["a"][-2:] == ["-", "0"]
    assert found["b"][-2:] == ["yes", "0"] and found["used"][-2:] == ["-", "1"]
    form = "{{.Name}} {{.Driver}} {{.Internal}} {{.IPv6}} {{.Labels}}"
    lines = three.run("network", "ls", "--format", form).splitlines()
    assert {"a bridge false false keep=yes", "b bridge true true "} <= set(map(str, lines))
    table = three.run("network", "ls", "--format", "table {{.Name}}\t{{.Subnet}}").splitlines()
    assert table[0].split() == ["NAME", "SUBNET"] and ["a", "10.98.1.0/24"] in map(str.split, table)
    lines = three.run("network", "ls", "--format", "json").splitlines()
    assert {json.loads(line)["Name"] for line in lines} == set(names(three))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("name=us", {"used"}), ("name=a name=b", {"a", "b", "bridge"}), ("label=keep", {"a"}),
        ("label=keep=no", set()), ("dangling=true", {"a", "b"}),
        ("dangling=false", {"used", *ALWAYS}), ("driver=bridge name=b", {"b", "bridge"}),
        ("driver=macvlan", set()), ("driver=null", {"none"}), ("type=builtin", {*ALWAYS}),
        ("type=custom", {"a", "b", "used"}), ("label=keep type=builtin", set()),
    ],
)  # fmt: skip
def test_ls_filters(three: Host, words: str, found: set[str]) -> None:
    flags = [flag for word in words.split() for flag in ("-f", word)]
    assert set(names(three, *flags)) == found


def test_those_that_are_always_there(network_host: Host) -> None:
    """bridge before its first use, host and none; who is on them; they go in no way."""
    host = network_host
    assert names(host) == ALWAYS
    ids = host.run("network", "ls", "-q", "--no-trunc").split()
    for word in ("host", "none"):
        host.run("run", "-d", "-q", "--name", f"on-{word}", "--network", word, "busybox",
                 "sleep", "99")  # fmt: skip
        found = json.loads(host.run("network", "inspect", word))[0]
        assert [each["Name"] for each in found["Containers"].values()] == [f"on-{word}"]
        assert host("network", "rm", word).returncode == 1
    shown = json.loads(host.run("network", "inspect", *(each[:12] for each in ids)))
    assert [each["Name"] for each in shown] == ALWAYS
    assert [each["Driver"] for each in shown] == ["bridge", "host", "null"]
    host.run("network", "prune", "-f")
    assert names(host) == ALWAYS


def test_rm(three: Host) -> None:
    """One that is in use stays, with its container; the others go, and their bridges."""
    done = three("network", "rm", "a", "used", "nosuch", "b")
    assert (done.returncode, done.stdout) == (1, "a\nb\n")
    assert done.stderr.splitlines() == [
        "minirun: network used is in use by c (minirun network disconnect used c)",
        "minirun: network nosuch not found (minirun network ls)",
    ]
    assert names(three) == [*ALWAYS, "used"]
    assert three("network", "rm", "-f", "nosuch").returncode == 0
    assert three("exec", "c", "ip", "address", "show", "eth0").returncode == 0
    three.run("rm", "-f", "c")
    assert three.run("network", "rm", "used") == "used"


def test_prune(three: Host) -> None:
    assert three.run("network", "prune", "-f", "--filter", "until=1h") == ""
    time.sleep(0.01)
    done = three.run("network", "prune", "-f", "--filter", "label=keep=yes")
    assert done == "Deleted Networks:\na"
    asked = three("network", "prune", input="n\n")
    assert asked.returncode == 1 and "nothing is removed" in asked.stderr
    assert three.run("network", "prune", input="y\n").endswith("Deleted Networks:\nb")
    assert "used" in names(three)
    three.run("rm", "-f", "c")
    assert three.run("network", "prune", "-f").splitlines()[1:] == ["used"]
