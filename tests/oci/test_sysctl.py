"""Parameters of the kernel that a container's network has: which of them must be set."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import Program
from minirun.common.network_request import NetworkRequest
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import ConfigError
from minirun.core.keeping.settings import Settings
from minirun.oci import run_config
from minirun.oci.run_config import RunOptions
from minirun.oci.tuning import sysctl
from records import whole

LOW = "net.ipv4.ip_unprivileged_port_start"


def extra(**docker: Any) -> sysctl.Sysctl:
    document = run_config.config("c1", RunOptions(("true",), network=NetworkRequest("none")))
    return sysctl.Sysctl(Container(Settings(), Config(document, "/b"), whole("/b/c1", **docker)))


def test_a_default_may_fail_and_what_is_asked_for_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """In LXC a profile of AppArmor may refuse them: docker's containers do not start there."""
    tried = []

    def write(_root: object, key: str, *_rest: object) -> None:
        tried.append(key)
        raise ConfigError(f"config.json: linux.sysctl.{key}: cannot be set: permission denied")

    monkeypatch.setattr(sysctl, "_write", write)
    extra(managed=True).after_pivot()
    assert len(tried) == 2 and LOW in tried, "each for itself"
    for docker in ({"managed": True, "asked": {"sysctl": [f"{LOW}=0"]}}, {}):
        with pytest.raises(ConfigError, match="permission denied"):
            extra(**docker).after_pivot()


def test_they_are_set(minirun: Program) -> None:
    """Also for a user of its own: a server of any user has port 80."""
    files = ("/proc/sys/net/ipv4/ip_unprivileged_port_start", "/proc/sys/net/ipv4/ping_group_range")
    done = minirun("run", "--rm", "--network", "none", "-u", "1000", "busybox", "cat", *files)
    assert done.stdout.split() == ["0", "0", "2147483647"]
    mapped = ("--uidmap", "0:100000:65536")
    done = minirun("run", "--rm", "--network", "none", *mapped, "busybox", "cat", files[0])
    assert done.stdout == "0\n"
