"""Names, kernel parameters and paths of a container, seen from inside."""

from typing import Any

import pytest

from spec.conftest import Bundle


def test_host_name_and_domain_name(bundle: Bundle) -> None:
    said = bundle.says(
        "hostname; cat /proc/sys/kernel/domainname", hostname="a-host", domainname="a.domain"
    )
    assert said.split() == ["a-host", "a.domain"]


def test_sysctls(bundle: Bundle) -> None:
    wanted = {"net.ipv4.ip_forward": "1", "net/core/somaxconn": "77", "kernel.shmmni": "99"}
    said = bundle.says(
        "cd /proc/sys; cat net/ipv4/ip_forward net/core/somaxconn kernel/shmmni",
        linux__sysctl=wanted,
    )
    assert said.split() == ["1", "77", "99"]


@pytest.mark.parametrize(
    ("key", "text"),
    [("vm.swappiness", "is not separate per container"), ("net.nosuch", "cannot be set to '1'")],
)
def test_a_sysctl_that_is_refused(bundle: Bundle, key: str, text: str) -> None:
    said = bundle.refuses(linux__sysctl={key: "1"})
    assert f"config.json: linux.sysctl.{key}: {text}" in said


def test_masked_and_read_only_paths(bundle: Bundle) -> None:
    said = bundle.says(
        "wc -c </proc/version; ls /proc/bus | wc -l; echo 2>/dev/null >/proc/sys/kernel/x; echo $?",
        linux__maskedPaths=["/proc/version", "/proc/bus"], linux__readonlyPaths=["/proc/sys"],
    )  # fmt: skip
    assert said.split() == ["0", "0", "1"]


@pytest.mark.parametrize(
    "changes",
    [{"someday": {"a": [1]}}, {"process__someday": 1}, {"linux__someday": {}}, {"windows": {}}],
)
def test_what_it_does_not_know_it_passes_over(bundle: Bundle, changes: dict[str, Any]) -> None:
    assert bundle.says("echo ran", **changes) == "ran"
