"""Without /etc/protocols nft lists tcp as 6: a bare Debian lacks netbase, which has that file."""

from __future__ import annotations

import pytest

from net.hosts import Host

HIDDEN = (
    "unshare", "--mount", "--propagation", "private", "sh", "-euc",
    'mount --bind /dev/null /etc/protocols; exec "$@"', "sh",
)  # fmt: skip


class BareHost(Host):
    """A host whose programs find no names of protocols."""

    def inside(self, pid: int = 0) -> list[str]:
        return [*super().inside(pid), *HIDDEN]


@pytest.fixture
def bare_host(network_host: Host) -> BareHost:
    network_host.__class__ = BareHost
    assert isinstance(network_host, BareHost)
    return network_host


@pytest.mark.parametrize("at", ["", "192.0.2.2:", "127.0.0.1:"])
def test_a_published_port_goes_with_its_container(bare_host: BareHost, at: str) -> None:
    before = bare_host.state()
    publish = ("-p", f"{at}8080:80", "-p", f"{at}8080:80/udp")
    for _ in range(2):
        bare_host.run("run", "-d", "--name", "web", *publish, "busybox", "sleep", "600")
        assert "6 . 8080" in bare_host.shell("nft list table inet minirun")
        bare_host.run("rm", "--force", "web")
        assert bare_host.state()["firewall"] == before["firewall"]


def test_the_picture_knows_its_own_ports(bare_host: BareHost) -> None:
    publish = ("-p", "8080:80", "-p", "192.0.2.2:8081:80/udp")
    bare_host.run("run", "-d", "--name", "web", *publish, "busybox", "sleep", "600")
    said = bare_host.run("network", "inspect", "--picture", "bridge")
    assert "missing" not in said and "not minirun's record" not in said
    assert "tcp . 8080 → " in said and "192.0.2.2 . udp . 8081 → " in said
    bare_host.run("rm", "--force", "web")


def test_why_sees_a_rule_about_a_protocol(bare_host: BareHost) -> None:
    bare_host.run("run", "-d", "--name", "web", "-p", "8080:80", "busybox", "httpd", "-f")
    assert "nothing stops" in bare_host("network", "why", "web").stdout
    bare_host.shell(
        "nft add table ip other;"
        "nft add chain ip other f '{ type filter hook forward priority 0; }';"
        "nft add rule ip other f ip protocol tcp drop"
    )
    said = bare_host("network", "why", "web").stdout
    assert "nothing stops" not in said and "table ip other" in said
    bare_host.shell("nft delete table ip other")
    bare_host.run("rm", "--force", "web")
