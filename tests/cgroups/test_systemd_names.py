"""Slices, scopes and properties: what needs no systemd."""

import pytest

import minirun.cgroups.systemd as systemd
from minirun.cgroups.rules import DEFAULT, DeviceRule, container_rules
from minirun.cgroups.ruleset import ALL
from minirun.cgroups.systemd.properties import INFINITY, bitmap, of_devices, of_resources
from minirun.core.errors import ConfigError

FULL = {
    "memory": {"limit": 1 << 25, "swap": 1 << 26}, "pids": {"limit": 20},
    "cpu": {"shares": 512, "quota": 25_500, "period": 100_000, "cpus": "0-1"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("machine.slice", "/machine.slice"),
        ("a-b.slice", "/a.slice/a-b.slice"),
        ("test-a-b.slice", "/test.slice/test-a.slice/test-a-b.slice"),
        ("-.slice", ""),
    ],
)
def test_a_slice_lies_in_those_it_is_named_after(name: str, path: str) -> None:
    assert systemd.expand(name) == path


@pytest.mark.parametrize(
    "name", ["", "a", ".slice", "a--b.slice", "-a.slice", "a-.slice", "a/b.slice"]
)
def test_what_is_no_slice_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="invalid slice name"):
        systemd.expand(name)


def test_the_three_parts_of_the_path() -> None:
    assert systemd.parse("machine.slice:libpod:12ab") == ("machine.slice", "libpod-12ab.scope")
    assert systemd.parse(":minirun:c1") == ("", "minirun-c1.scope")
    assert systemd.parse("user.slice::c1") == ("user.slice", "c1.scope")


@pytest.mark.parametrize(
    "path", ["/minirun/c1", "a.slice:b", "a.slice:b:", "a.slice:b:../c", "::x.slice"]
)
def test_another_form_of_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"linux\.cgroupsPath"):
        systemd.parse(path)


def test_limits_of_version_1() -> None:
    assert dict(of_resources(FULL, 1)) == {
        "MemoryLimit": ("t", 1 << 25), "TasksMax": ("t", 20), "CPUShares": ("t", 512),
        "CPUQuotaPeriodUSec": ("t", 100_000), "CPUQuotaPerSecUSec": ("t", 260_000),
    }  # fmt: skip


def test_limits_of_version_2_and_its_files() -> None:
    unified = {"memory.high": "max", "io.weight": "default 7", "cpu.max": "max 50000"}
    assert dict(of_resources(FULL, 2)) == {
        "MemoryMax": ("t", 1 << 25), "MemorySwapMax": ("t", 1 << 25), "TasksMax": ("t", 20),
        "CPUWeight": ("t", 59), "AllowedCPUs": ("ay", b"\x03"),
        "CPUQuotaPeriodUSec": ("t", 100_000), "CPUQuotaPerSecUSec": ("t", 260_000),
    }  # fmt: skip
    assert dict(of_resources({"unified": unified}, 2)) == {
        "MemoryHigh": ("t", INFINITY), "CPUQuotaPeriodUSec": ("t", 50_000),
        "CPUQuotaPerSecUSec": ("t", INFINITY),
    }  # fmt: skip


def test_no_limit_is_infinity() -> None:
    found = dict(of_resources({"pids": {"limit": -1}, "memory": {"limit": -1}}, 1))
    assert found == {"TasksMax": ("t", INFINITY), "MemoryLimit": ("t", INFINITY)}


def test_a_list_of_numbers_as_bits() -> None:
    assert bitmap("0-2,9") == b"\x07\x02"
    with pytest.raises(ConfigError, match="no list of numbers"):
        bitmap("0-x")


def allowed(rules: list[DeviceRule], version: int) -> tuple[str, list[tuple[str, str]]]:
    """The policy, and the last DeviceAllow."""
    found = dict(of_devices(rules, version))
    return found["DevicePolicy"][1], found["DeviceAllow"][1]


@pytest.mark.parametrize("version", [1, 2])
def test_device_rules(version: int) -> None:
    gpu = DeviceRule(True, "c", 195, 0, "rw")
    policy, rows = allowed([DeviceRule(False, "a", None, None, "rwm"), *DEFAULT, gpu], version)
    assert policy == "strict"
    assert {
        ("char-*", "m"),
        ("block-*", "m"),
        ("char-136", "rwm"),
        ("/dev/char/1:3", "rwm"),
    } <= set(rows)
    assert ("/dev/char/195:0", "rw") in rows
    assert len(rows) == len(DEFAULT) + 1


@pytest.mark.parametrize("rules", [container_rules([{"allow": True, "access": "rwm"}]), [ALL]])
def test_everything_keeps_version_1s_directory(rules: list[DeviceRule]) -> None:
    """With the policy auto systemd removes it there; on version 2 it attaches a program else."""
    assert allowed(rules, 1) == ("strict", [("char-*", "rwm"), ("block-*", "rwm")])
    assert allowed(rules, 2) == ("auto", [])


@pytest.mark.parametrize("rule", [DeviceRule(True, "c", None, 7, "rw"), None])
def test_what_systemd_cannot_say_never_opens_version_1(rule: DeviceRule | None) -> None:
    """There a reload writes systemd's list over ours; on version 2 both programs decide."""
    null = DeviceRule(True, "c", 1, 3, "rw")
    rules = [null, rule] if rule else [ALL, DeviceRule(False, "c", 1, 5, "rw")]
    assert allowed(rules, 1) == ("strict", [("/dev/char/1:3", "rw")] if rule else [])
    assert allowed(rules, 2) == ("auto", [])
