"""The network of a RUN step: what the command line says; a Dockerfile may ask for less alone."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import wait_until
from core.lifecycle.leftovers import Family
from net.hosts import OUTSIDE, Host, host
from required import installed

LINKS = "ls /sys/class/net > /net"
ASKED = f"FROM base\nRUN {LINKS}\n"


@pytest.fixture
def machine(command: str, base_store: Path, tmp_path: Path) -> Iterator[Host]:
    """A host of its own, with a store of its own; what is left of networks fails the test."""
    for program in ("ip", "nft"):
        installed(program)
    with host(command, tmp_path) as made:
        for each in ("images", "layers", "blobs"):
            (made.store / each).unlink()
        subprocess.run(["cp", "-a", f"{base_store}/.", str(made.store)], check=True)
        before = made.state()
        yield made
        after = made.state()
        assert {key: after[key] for key in before if after[key] != before[key]} == {}
        assert made.left() == []


def build(host: Host, folder: Path, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "Dockerfile").write_text(text)
    return host("build", "-t", "x", *flags, str(folder))


def links(host: Host, folder: Path, text: str, *flags: str) -> list[str]:
    """Return the links that a step has seen; it wrote them to /net."""
    done = build(host, folder, text, *flags)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return host.run("run", "--rm", "-q", "--network", "none", "x", "cat", "/net").split()


def test_the_default_is_the_bridge(machine: Host, context: Path) -> None:
    """With a way out, and names; of its files nothing is in the layer."""
    text = f"""FROM base
RUN {LINKS}; ping -c 1 -W 2 {OUTSIDE}; ip -o -4 address show eth0 | grep ' 10.88.0.2/16 '
RUN grep "10.88.0.3.$HOSTNAME" /etc/hosts && test -s /etc/resolv.conf
RUN --network=none ip -o link | wc -l > /alone
"""
    assert links(machine, context, text) == ["eth0", "lo"]
    show = ("run", "--rm", "-q", "--network", "none", "x")
    assert machine.run(*show, "cat", "/alone") == "1"
    assert machine.run(*show, "sh", "-c", "ls -A /etc") == machine.run(
        *show[:-1], "base", "sh", "-c", "ls -A /etc"
    )


def test_which_one_the_command_line_says(machine: Host, context: Path) -> None:
    """Each has a place of its own in the cache."""
    machine.run("network", "create", "--subnet", "10.98.0.0/24", "shop")
    assert links(machine, context, ASKED, "--network", "none") == ["lo"]
    assert links(machine, context, ASKED, "--network", "bridge") == ["eth0", "lo"]
    assert links(machine, context, ASKED, "--network", "default") == ["eth0", "lo"]
    assert "e0" in links(machine, context, ASKED, "--network", "host")
    text = "FROM base\nRUN ip -o -4 address show eth0 | grep -o '10[0-9./]*' | head -n 1 > /net\n"
    assert links(machine, context, text, "--network", "shop") == ["10.98.0.2/24"]
    done = build(machine, context, ASKED, "--network", "none")
    assert "using cache" in done.stdout


def test_a_dockerfile_gets_the_hosts_network_by_leave_alone(machine: Host, context: Path) -> None:
    asked = f"FROM base\nRUN --network=host {LINKS}\n"
    for flags in ((), ("--network", "bridge"), ("--network", "none")):
        done = build(machine, context, asked, *flags)
        assert done.returncode == 1
        assert done.stderr == (
            "minirun: Dockerfile:2: RUN --network=host: not allowed (minirun build --allow "
            "network.host, if you trust the Dockerfile)\n"
        )
    for flags in (("--allow", "network.host"), ("--network", "host")):
        assert "e0" in links(machine, context, asked, *flags)
    done = build(machine, context, asked)
    assert "not allowed" in done.stderr, "nor is it taken from the cache"
    assert links(machine, context, ASKED, "--allow", "network.host") == ["eth0", "lo"]


@pytest.mark.parametrize("word", ["$N", "${N:-host}", "host,none", "HOST", "container:x", "shop"])
def test_what_else_a_dockerfile_may_ask(machine: Host, context: Path, word: str) -> None:
    """Neither by a variable, nor by name."""
    machine.run("network", "create", "shop")
    done = build(machine, context, f"FROM base\nARG N=host\nRUN --network={word} {LINKS}\n")
    assert done.returncode == 1
    assert f"Dockerfile:3: RUN --network={word}: not known (default, none, host)" in done.stderr


def test_where_no_bridge_can_be_made(machine: Host, context: Path) -> None:
    """The default falls back, with one line; what was made so is not taken for another."""
    machine.shell("ip link add minirun0 type bridge; ip link set minirun0 up")
    done = build(machine, context, f"{ASKED}RUN ip -o link | wc -l > /count\n")
    asked = build(machine, context, ASKED, "--network", "bridge")
    machine.shell("ip link del minirun0")
    assert done.returncode == 0
    assert done.stderr.count("no network: the link minirun0 is another program's") == 1
    assert len(done.stderr.splitlines()) == 1
    show = ("run", "--rm", "-q", "--network", "none", "x", "cat", "/count", "/net")
    assert machine.run(*show).split() == ["1", "lo"]
    assert asked.returncode == 1
    assert "Dockerfile:2: the link minirun0 is another program's" in asked.stderr
    assert links(machine, context, ASKED) == ["eth0", "lo"]


def test_a_step_that_fails(machine: Host, context: Path) -> None:
    done = build(machine, context, "FROM base\nRUN exit 7\n")
    assert "exit code: 7" in done.stderr
    assert "no network" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_build_that_is_ended(machine: Host, context: Path, number: int) -> None:
    """The fixture compares what there is of networks with what there was."""
    (context / "Dockerfile").write_text("FROM base\nRUN echo started; sleep 7777\n")
    process = machine.start("build", "-t", "x", str(context))
    assert process.stdout
    wait_until(lambda: process.stdout.readline() == "started\n")
    assert "minirun0" in machine.shell("ip -brief link")
    family = Family(process.pid)
    process.send_signal(number)
    process.communicate(timeout=10)
    wait_until(lambda: family.alive() == [])
    if number == signal.SIGKILL:
        machine.run("gc")


def test_two_at_once(machine: Host, context: Path, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        text = f"FROM base\nRUN ping -c 2 -W 2 {OUTSIDE} > /{folder.name}\n"
        (folder / "Dockerfile").write_text(text)
    processes = [machine.start("build", "-t", each.name, str(each)) for each in folders]
    for process in processes:
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0
