"""Version 1: hierarchies joined as needed, limits in files, the device list."""

import os
import signal
import sys
from pathlib import Path

import pytest

from cgroups.conftest import add, require_mounted
from minirun.cgroups import hierarchies, ruleset, stats, stopping
from minirun.cgroups.reading import listing
from minirun.cgroups.rules import DeviceRule
from minirun.cgroups.v1 import CgroupV1
from minirun.core.errors import ConfigError, MinirunError, StateError


@pytest.fixture
def cgroup(open_cgroup):
    cgroup = open_cgroup("v1")
    cgroup.create()
    return cgroup


def content(cgroup, controller, file):
    return Path(cgroup.record()["dirs"][controller], file).read_text().strip()


def test_limits_land_in_their_files(cgroup):
    cgroup.set_resources(
        {
            "memory": {
                "limit": 64 << 20,
                "swap": 96 << 20,
                "reservation": 32 << 20,
                "kernelTCP": 8 << 20,
            },
            "cpu": {"shares": 512, "quota": 50000, "period": 200000},
            "pids": {"limit": 7},
            "devices": [{"allow": False, "access": "rwm"}],
        }
    )
    assert content(cgroup, "memory", "memory.limit_in_bytes") == str(64 << 20)
    assert content(cgroup, "memory", "memory.memsw.limit_in_bytes") == str(96 << 20)
    assert content(cgroup, "memory", "memory.soft_limit_in_bytes") == str(32 << 20)
    assert content(cgroup, "memory", "memory.kmem.tcp.limit_in_bytes") == str(8 << 20)
    assert content(cgroup, "cpu", "cpu.shares") == "512"
    assert content(cgroup, "cpu", "cpu.cfs_quota_us") == "50000"
    assert content(cgroup, "cpu", "cpu.cfs_period_us") == "200000"
    assert content(cgroup, "pids", "pids.max") == "7"


def test_limits_go_up_and_down_again_in_whatever_order_the_kernel_wants(cgroup):
    for limit in (64 << 20, 256 << 20, 32 << 20, -1):
        cgroup.set_resources({"memory": {"limit": limit, "swap": limit}})
        shown = content(cgroup, "memory", "memory.memsw.limit_in_bytes")
        assert int(shown) == limit if limit > 0 else int(shown) > 1 << 60
    cgroup.set_resources({"memory": {"limit": 64 << 20, "swap": 64 << 20}})
    cgroup.set_resources({"memory": {"limit": -1}})  # takes the limit of both along
    assert int(content(cgroup, "memory", "memory.limit_in_bytes")) > 1 << 60


def test_a_cpuset_inherits_what_is_not_set(cgroup, sleeper):
    cgroup.set_resources({"cpu": {"cpus": "0"}})
    assert content(cgroup, "cpuset", "cpuset.mems") != ""
    add(cgroup, sleeper().pid)


def test_the_pids_limit_stops_a_fork(cgroup, sleeper):
    cgroup.set_resources({"pids": {"limit": 1}})
    script = (
        "import os, time\ntime.sleep(.3)\n"
        "try: os.fork()\nexcept OSError as error: os._exit(error.errno)"
    )
    process = sleeper(sys.executable, "-I", "-S", "-c", script)
    add(cgroup, process.pid)
    assert process.wait() == 11  # EAGAIN


def test_the_memory_limit_kills(cgroup, sleeper):
    cgroup.set_resources({"memory": {"limit": 16 << 20, "swap": 16 << 20}})
    script = "import time; time.sleep(.3); x = bytearray(64 << 20)"
    process = sleeper(sys.executable, "-I", "-S", "-c", script)
    add(cgroup, process.pid)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("resources", "path"),
    [
        ({"cpu": {"cpus": "4096"}}, "linux.resources.cpu.cpus: the kernel refuses '4096'"),
        ({"cpu": {"period": 7}}, "linux.resources.cpu.period: the kernel refuses '7'"),
        ({"cpu": {"realtimeRuntime": 950}}, "linux.resources.cpu.realtimeRuntime: "),
        ({"unified": {"memory.max": "1"}}, "linux.resources.unified: invalid configuration: "),
    ],
)
def test_what_cannot_be_set_is_named(cgroup, resources, path):
    with pytest.raises(ConfigError) as caught:
        cgroup.set_resources(resources)
    assert str(caught.value).startswith(path)
    assert "\n" not in caught.value.line()


def test_a_limit_of_what_is_no_disk_is_not_out_of_range(cgroup):
    """/dev/zero, as podman's --device-read-bps gives it."""
    row = {"major": 1, "minor": 5, "rate": 1024}
    with pytest.raises(ConfigError, match="no such device") as caught:
        cgroup.set_resources({"blockIO": {"throttleReadBpsDevice": [row]}})
    assert caught.value.hint == "no disk has this number: lsblk shows MAJ:MIN"


def test_each_cpu_has_a_part_for_the_kernel(cgroup):
    sums = stats.stats(cgroup.record())["cpu"]["usage"]
    cpus = len(sums["percpu"])
    assert cpus == len(sums["percpu_kernel"]) == len(sums["percpu_user"]) > 0


def test_a_limit_without_its_hierarchy_says_what_to_mount():
    rest = [h for h in hierarchies.mounted() if h.version == 1 and "cpu" not in h.names]
    cgroup = CgroupV1("/minirun/none", rest)
    with pytest.raises(ConfigError, match="no hierarchy of the cpu controller") as caught:
        cgroup.set_resources({"cpu": {"shares": 5}})
    assert "mount -t cgroup -o cpu" in caught.value.hint


def test_a_machine_without_devices_and_freezer_says_so():
    cgroup = CgroupV1("/minirun/none", [])
    with pytest.raises(MinirunError, match="no hierarchy of the devices controller is mounted"):
        cgroup.set_device_rules([])
    with pytest.raises(StateError, match="no hierarchy of the freezer controller is mounted"):
        stopping.freeze(cgroup)


def test_a_mount_that_is_gone_leaves_nothing_half_made(open_cgroup, tmp_path):
    require_mounted("v1")
    real = next(h for h in hierarchies.mounted() if "pids" in h.names)
    gone = hierarchies.Hierarchy(str(tmp_path / "gone"), 1, ("devices",))
    path = open_cgroup("v1").path
    cgroup = CgroupV1(path, [real, gone], {"pids": real.path + path, "devices": gone.path + path})
    with pytest.raises(FileNotFoundError):
        cgroup.create()
    assert not os.path.exists(real.path + path)


def test_everything_stays_allowed_in_the_parent(cgroup):
    cgroup.set_device_rules([])
    parent = cgroup.record()["dirs"]["devices"].removesuffix(cgroup.path) + "/minirun"
    assert Path(parent, "devices.list").read_text() == "a *:* rwm\n"


def test_one_write_a_rule(cgroup, log):
    cgroup.set_device_rules(
        [ruleset.ALL._replace(allow=False), ruleset.parse("c 1:3 rwm"), ruleset.parse("b *:* m")]
    )
    cgroup.allow_devices([ruleset.parse("c 195:0 rw"), DeviceRule(False, "c", 1, 3, "m")])
    writes = [(event["args"]["path"].rpartition("/")[2], event["args"]["data"]) for event in log()]
    assert writes == [
        ("devices.deny", "a"),
        ("devices.allow", "c 1:3 rwm"),
        ("devices.allow", "b *:* m"),
        ("devices.allow", "c 195:0 rw"),
        ("devices.deny", "c 1:3 m"),
    ]
    told = listing(cgroup.effective_device_rules(), {("c", 195, 0): "/dev/nvidia0"})
    assert set(told) == {"c 1:3 rw", "b *:* m", "c 195:0 rw # /dev/nvidia0"}


def test_a_failed_write_is_in_the_log_with_its_errno(cgroup, log):
    with pytest.raises(OSError, match="Invalid argument") as caught:
        cgroup.allow_devices([DeviceRule(True, "x", 1, 3, "r")])
    assert caught.value.filename.endswith("/devices.allow")
    assert (log()[-1]["name"], log()[-1]["ret"], log()[-1]["errno"]) == ("write", -1, "EINVAL")


def test_the_descriptor_still_leads_there_when_the_path_does_not(cgroup, monkeypatch):
    """As in stage 5, when another mount namespace is around us."""
    cgroup.set_device_rules([])
    opened = cgroup._joined["devices"]
    monkeypatch.setattr(opened, "path", "/nonexistent")
    cgroup.allow_devices([ruleset.parse("c 195:0 rw")])
    assert cgroup.effective_device_rules() == [ruleset.parse("c 195:0 rw")]
