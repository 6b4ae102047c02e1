"""`network why`: what breaks a network, made for real; and each remedy, typed as it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from conftest import wait_until
from net.hosts import HOST, OUTSIDE, Host
from net.test_scenarios import page
from net.test_why import pid_of, serve, why

_INSIDE = "nsenter -t {pid} -n "


class Break(NamedTuple):
    """What is done to a host whose container web publishes its port 80 as 8080."""

    commands: str
    """{pid} is web's init, {link} the host's end of its cable."""
    step: str
    text: str


def dropped(hook: str, rule: str, family: str = "inet", at: int = 0, inside: str = "") -> str:
    """Return the commands that make a chain with one rule, to be filled by format()."""
    chain = f"{{{{ type filter hook {hook} priority {at}; }}}}"
    rows = (f"table {family} t", f"chain {family} t c '{chain}'", f"rule {family} t c {rule} drop")
    return "; ".join(f"{inside}nft add {row}" for row in rows)


@pytest.fixture
def breakable(network_host: Host) -> Iterator[Host]:
    """A host whose tables of a test are gone afterwards."""
    yield network_host
    for family in ("inet", "ip", "bridge"):
        network_host.shell(f"nft delete table {family} t")


BREAKS = {
    "paused": Break("minirun pause web", "paused", "paused"),
    "prerouting before NAT": Break(
        dropped("prerouting", "tcp dport 8080", at=-300), "firewall", "chain c of table inet t"
    ),
    "prerouting after NAT": Break(
        dropped("prerouting", "tcp dport 80", "ip"), "firewall", "chain c of table ip t"
    ),
    "postrouting": Break(
        dropped("postrouting", "ip daddr 10.88.0.2"), "firewall", "drops it: ip daddr 10.88.0.2"
    ),
    "an answer in prerouting": Break(
        dropped("prerouting", "ip saddr 10.88.0.2"), "firewall", "ip saddr 10.88.0.2"
    ),
    "input inside": Break(
        dropped("input", "tcp dport 80", inside=_INSIDE), "firewall", "in the container"
    ),
    "output inside": Break(
        dropped("output", "oifname eth0", inside=_INSIDE), "firewall", "in the container"
    ),
    "bridge, to it": Break(
        dropped("postrouting", "oifname {link}", "bridge"), "firewall", "table bridge t"
    ),
    "bridge, from it": Break(
        dropped("prerouting", "iifname {link} ip saddr 10.88.0.2", "bridge"), "firewall",
        "table bridge t",
    ),
    "a wrong ARP entry": Break(
        "ip neigh replace 10.88.0.2 lladdr 02:00:00:00:00:99 dev minirun0 nud permanent",
        "neighbour entry", "the host takes 10.88.0.2 to be at 02:00:00:00:00:99",
    ),
    "a wrong ARP entry inside": Break(
        _INSIDE + "ip neigh replace 10.88.0.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
        "neighbour entry", "web takes 10.88.0.1 to be at 02:00:00:00:00:99",
    ),
    "a stopped server": Break("kill -STOP {pid}", "listens", "is stopped: it answers nothing"),
    "a rule that refuses": Break(
        "ip rule add to 10.88.0.0/16 blackhole pref 100", "route", "rule 100 of ip-rule refuses it"
    ),
    "a rule to another table": Break(
        f"ip route add default via {OUTSIDE} table 99; ip rule add to 10.88.0.2 table 99 pref 50",
        "route", "rule 50 of ip-rule takes table 99",
    ),
    "a rule inside": Break(
        _INSIDE + "ip rule add from 10.88.0.2 prohibit pref 10", "default route", "rule 10"
    ),
    "a blackhole inside": Break(
        _INSIDE + "ip route replace blackhole default", "way back", "no default route"
    ),
    "a blackhole beside the default route": Break(
        _INSIDE + "ip route add blackhole 0.0.0.0/1; " + _INSIDE
        + "ip route add blackhole 128.0.0.0/1",
        "default route", "route blackhole 128.0.0.0/1 refuses it",
    ),
    "a bridge that is down": Break("ip link set minirun0 down", "bridge", "minirun0 is down"),
    "no address inside": Break(
        _INSIDE + "ip address flush dev eth0", "eth0 in web", "it has not the address 10.88.0.2"
    ),
    "a link inside that is down": Break(
        _INSIDE + "ip link set eth0 down", "eth0 in web", "it is down"
    ),
    "a cable that is down": Break("ip link set {link} down", "cable", "is down"),
    "a cable out of the bridge": Break("ip link set {link} nomaster", "cable", "is not in"),
    "a bridge without its address": Break(
        "ip address del 10.88.0.1/16 dev minirun0", "bridge", "has not the gateway's address"
    ),
    "no forwarding": Break("sysctl -qw net.ipv4.ip_forward=0", "forwarding", "ip_forward is 0"),
}  # fmt: skip


def typed(host: Host, command: str) -> None:
    """Type a remedy as it stands: what is in parentheses behind it is not part of it."""
    command = command.partition(" (")[0].partition(", and see ")[0]
    if command.startswith("minirun "):
        host.run(*command.split()[1:])
    else:
        assert host.shell(command) in ("", command.partition("sysctl -w ")[2].replace("=", " = "))


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_is_named_and_its_remedy_helps_as_typed(breakable: Host, name: str) -> None:
    host, broken = breakable, BREAKS[name]
    serve(host, "-p", "8080:80", "--dns", OUTSIDE)
    assert page(host, f"{HOST}:8080", outside=True) == "hello"
    assert why(host, "web") == {}
    links = json.loads(host.shell("ip -json link show master minirun0"))
    filled = broken.commands.format(pid=pid_of(host, "web"), link=links[0]["ifname"])
    if filled.startswith("minirun "):
        host.run(*filled.split()[1:])
    else:
        assert host.shell(filled) == ""
    asked = page(host, f"{HOST}:8080", outside=True, seconds=0.5)
    assert asked != "hello", "it is broken"
    found = why(host, "web")
    assert (found.get("name"), found.get("verdict")) == (broken.step, "STOPS"), found
    assert broken.text in found["text"], found
    for _ in range(4):  # what was hidden by the first is named next
        typed(host, found["advice"])
        found = why(host, "web")
        if found.get("verdict") != "STOPS":
            break
    assert found.get("verdict") != "STOPS", found
    # a link that has just come up may still look for its neighbours
    wait_until(lambda: page(host, f"{HOST}:8080", outside=True) == "hello")


def test_a_rule_that_stops_questions_to_a_server_of_the_host(breakable: Host) -> None:
    host = breakable
    host.run("run", "-d", "-q", "--name", "c", "--dns", "10.88.0.1", "busybox", "sleep", "99")
    assert why(host, "c") == {}
    assert host.shell(dropped("input", "udp dport 53").format()) == ""
    found = why(host, "c")
    assert (found.get("name"), found.get("verdict")) == ("DNS servers", "STOPS"), found
    typed(host, found["advice"])
    assert why(host, "c").get("verdict") != "STOPS"


@pytest.mark.parametrize(
    ("commands", "text"),
    [
        (dropped("forward", "ip daddr 10.89.0.2", "bridge"), "table bridge t"),
        (dropped("input", "tcp dport 80", inside=_INSIDE), "in the container"),
        ("kill -STOP {pid}", "is stopped"),
        ("minirun pause web", ""),
    ],
)
def test_between_neighbours(breakable: Host, commands: str, text: str) -> None:
    host = breakable
    host.run("network", "create", "shop")
    serve(host, "--network", "shop")
    host.run("run", "-d", "-q", "--name", "guest", "--network", "shop", "busybox", "sleep", "99")
    assert why(host, "guest", "web:80") == {}
    filled = commands.format(pid=pid_of(host, "web"))
    if filled.startswith("minirun "):
        host.run(*filled.split()[1:])
    else:
        assert host.shell(filled) == ""
    found = why(host, "guest", "web:80")
    assert found.get("verdict") == "STOPS" and text in found["text"], found
    typed(host, found["advice"])
    assert why(host, "guest", "web:80").get("verdict") != "STOPS"
