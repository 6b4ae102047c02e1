"""Another program's rules that drop forwarded packets: one line at a start, and one of doctor's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from net.hosts import OUTSIDE, Host
from required import installed, skip

DATA = Path(__file__).parent / "data"
"""ufw.rules: iptables-save after `ufw enable`, 0.36.2. firewalld.nft: `nft list ruleset`, 1.3.3."""
PING = ("busybox", "ping", "-c", "1", "-W", "1", OUTSIDE)
POLICY = """
table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; } }
"""
FIREWALLD = """
table inet firewalld { chain filter_FORWARD {
    type filter hook forward priority 10; policy accept;
    ct state established,related accept
    iifname "lo" accept
    reject with icmpx admin-prohibited
} }
"""
MARKED = """
table ip filter { chain FORWARD {
    type filter hook forward priority 0; policy drop; meta mark 7 accept
} }
"""
OTHERS = """
table ip filter { chain INPUT { type filter hook input priority 0; policy accept; } }
table bridge filter { chain FORWARD { type filter hook forward priority 0; policy drop; } }
table ip6 filter { chain FORWARD { type filter hook forward priority 0; policy drop; } }
table ip mangle { chain FORWARD { type filter hook forward priority -150; policy accept; } }
"""


def load(host: Host, rules: str) -> None:
    text = rules.replace("}", "\n}\n")
    assert host.shell(f"echo '{text}' | nft -f -") == ""


def finding(host: Host) -> dict[str, object]:
    """Return what doctor says of forwarded packets."""
    rows = json.loads(host("doctor", "--json").stdout)["findings"]
    return next(row for row in rows if row["name"] == "forwarded packets")


@pytest.mark.parametrize(
    ("rules", "where", "rule"),
    [
        (POLICY, "chain FORWARD of table ip filter", "policy drop"),
        (FIREWALLD, "chain filter_FORWARD of table inet firewalld", "reject"),
    ],
    ids=["docker's policy", "firewalld's last rule"],
)
def test_a_rule_that_drops(network_host: Host, rules: str, where: str, rule: str) -> None:
    """Four faces name the same chain, and the packet does not arrive; then a rule lets it pass."""
    host = network_host
    load(host, rules)
    line = f"no way out of network bridge: {where} drops its packets ({rule}); minirun network why "
    done = host("run", "--rm", "-q", "--name", "web", *PING)
    assert done.returncode == 1
    assert done.stderr == f"minirun: warning: {line}web\n"
    assert [e["why"] for e in host.events() if e["name"] == "warning"] == [
        "another program's rules drop packets"
    ]
    assert f"{line}web\n" in host.run("run", "--dry-run", "--name", "web", *PING)
    found = finding(host)
    assert (found["works"], found["needed"]) == (False, False)
    assert found["found"] == line.rpartition("; ")[0]
    started = host("run", "-d", "-q", "--name", "web", "busybox", "sleep", "99")
    assert started.stderr == f"minirun: warning: {line}web\n"
    why = host("network", "why", "web", f"{OUTSIDE}:80")
    assert f"{where} drops it: {rule}" in " ".join(why.stdout.split())
    table, chain = where.split(" table ")[1], where.split()[1]
    for side in ("iifname", "oifname"):
        host.shell(f"nft insert rule {table} {chain} {side} minirun0 accept")
    done = host("run", "--rm", "-q", *PING)
    assert (done.returncode, done.stderr) == (0, "")
    assert finding(host)["works"]
    host.run("rm", "-f", "web")
    host.shell(f"nft delete table {table}")


@pytest.mark.parametrize(
    ("rules", "passes"), [(MARKED, False), (OTHERS, True)], ids=["a mark", "other hooks"]
)
def test_what_is_not_certain_to_drop(network_host: Host, rules: str, passes: bool) -> None:
    """No line: a rule hangs on what is not known, or the chain meets no such packet."""
    host = network_host
    load(host, rules)
    done = host("run", "--rm", "-q", *PING)
    assert done.stderr == ""
    assert (done.returncode == 0) == passes
    host.shell("nft flush ruleset")


@pytest.mark.parametrize("keeps_a_chain", [True, False])
def test_beside_docker(network_host: Host, *, keeps_a_chain: bool) -> None:
    """Its rules, by iptables: minirun's stand in DOCKER-USER, and no such chain is made."""
    host = network_host
    installed("iptables")
    for words in (
        "-P FORWARD DROP", "-N DOCKER-USER", "-N DOCKER", "-A FORWARD -j DOCKER-USER",
        "-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A FORWARD -o docker0 -j DOCKER", "-A FORWARD -i docker0 ! -o docker0 -j ACCEPT",
        "-A FORWARD -i docker0 -o docker0 -j ACCEPT",
    ):  # fmt: skip
        if keeps_a_chain or "DOCKER-USER" not in words:
            assert host.shell(f"iptables {words}") == ""
    if "table ip filter" not in host.shell("nft list ruleset"):
        pytest.skip("iptables here writes the legacy tables")
    before = host.shell("iptables -S; nft list tables")
    done = host("run", "--rm", "-q", *PING)
    assert host.shell("iptables -S; nft list tables") == before
    if keeps_a_chain:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 1
        assert "chain FORWARD of table ip filter drops its packets (policy drop)" in done.stderr
    host.shell("nft flush ruleset")


def test_the_rules_of_ufw(network_host: Host) -> None:
    """Its hands are unknown: what its policy drops is said, and nothing is written there."""
    host = network_host
    installed("iptables")
    host.shell(f"iptables-restore < {DATA / 'ufw.rules'}")
    if "table ip filter" not in host.shell("nft list ruleset"):
        pytest.skip("iptables here writes the legacy tables")
    before = host.shell("iptables -S")
    done = host("run", "--rm", "-q", "busybox", "true")
    assert "chain FORWARD of table ip filter drops its packets (policy drop)" in done.stderr
    assert host.shell("iptables -S") == before
    assert not finding(host)["works"]
    host.shell("nft flush ruleset")


def test_the_rules_of_firewalld_without_firewalld(network_host: Host) -> None:
    """Its table alone, as a stopped daemon may leave it: no one can be asked."""
    host = network_host
    assert host.shell(f"nft -f {DATA / 'firewalld.nft'}") == ""
    before = host.shell("nft list ruleset")
    done = host("run", "--rm", "-q", "busybox", "true")
    assert "chain filter_FWD_public of table inet firewalld drops its packets" in done.stderr
    assert host.shell("nft list ruleset") == before
    assert not finding(host)["works"]
    host.shell("nft flush ruleset")


def test_who_hears_nothing_of_it(network_host: Host) -> None:
    """A container on an internal network, whose packets no rule sees, and one without a network."""
    host = network_host
    load(host, POLICY)
    host.shell("sysctl -q -e net.bridge.bridge-nf-call-iptables=0")
    host.run("network", "create", "--internal", "vault")
    for name in ("vault", "none", "host"):
        done = host("run", "--rm", "-q", "--network", name, "busybox", "true")
        assert (done.returncode, done.stderr) == (0, ""), name
    done = host("run", "--rm", "-q", "--network", "vault", "--network", "bridge", "busybox", "true")
    assert "no way out of network bridge: " in done.stderr
    host.shell("nft flush ruleset")


def test_an_internal_network_whose_neighbours_are_cut_off(network_host: Host) -> None:
    """docker loads br_netfilter: rules then see what a bridge passes on."""
    host = network_host
    if not os.path.exists("/proc/sys/net/bridge/bridge-nf-call-iptables"):
        skip("br_netfilter is not loaded")
    load(host, POLICY)
    host.shell("sysctl -q net.bridge.bridge-nf-call-iptables=1")
    host.run("network", "create", "--internal", "vault")
    done = host("run", "--rm", "-q", "--network", "vault", "busybox", "true")
    assert "warning: no way to a neighbour on network vault: " in done.stderr
    host.run("network", "rm", "vault")
    host.shell("nft flush ruleset")


def test_doctor_leaves_the_host_alone(network_host: Host) -> None:
    host, before = network_host, network_host.state()
    rows = {row["name"]: row for row in json.loads(host("doctor", "--json").stdout)["findings"]}
    assert host.state() == before
    for name in ("bridge", "firewall", "forwarding", "forwarded packets"):
        assert rows[name]["works"], rows[name]
    assert "is 0: the first container on a network sets it" in rows["forwarding"]["found"]
    host.run("run", "-d", "-q", "--name", "web", "busybox", "sleep", "99")
    rows = {row["name"]: row for row in json.loads(host("doctor", "--json").stdout)["findings"]}
    assert "is 1, set by minirun" in rows["forwarding"]["found"]
    host.run("rm", "-f", "web")
    host.shell("sysctl -q net.ipv4.ip_forward=1")
    rows = {row["name"]: row for row in json.loads(host("doctor", "--json").stdout)["findings"]}
    assert "is 1, not set by minirun" in rows["forwarding"]["found"]
    host.shell("sysctl -q net.ipv4.ip_forward=0")


def test_doctor_where_nothing_can_be_made(network_host: Host) -> None:
    """Without CAP_NET_ADMIN: the kernel refuses, and the report says what then is."""
    host = network_host
    words = ["setpriv", "--bounding-set", "-net_admin", "--"]
    argv = host.argv("doctor", "--json")
    at = argv.index(host.path)
    done = host.shell(" ".join([*words, *argv[at:]]))
    rows = {row["name"]: row for row in json.loads(done)["findings"]}
    for name in ("bridge", "firewall"):
        assert not rows[name]["works"], rows[name]
        assert "peration not permitted" in rows[name]["found"], rows[name]
        assert "lo alone, or --network host" in rows[name]["advice"]
