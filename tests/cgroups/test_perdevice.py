"""blockIO, hugepageLimits, network and rdma: as files and values, and in the kernel."""

import os
from pathlib import Path

import pytest

from minirun.cgroups import hierarchies, perdevice, resources, tree
from minirun.core.errors import ConfigError

WHERE = r"^linux\.resources\."


def told(given, version):
    """What is set: (controller, file, value), with what comes in its stead behind it."""
    found = (resources.for_v1 if version == 1 else resources.for_v2)(given)
    rows = [row for s in found for row in (s, s.otherwise) if row]
    return [(s.controller, s.file, s.value) for s in rows]


BLOCK = {
    "weight": 500,
    "weightDevice": [{"major": 8, "minor": 0, "weight": 10}],
    "throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 1024}],
    "throttleWriteIOPSDevice": [{"major": 8, "minor": 16, "rate": 0}],
}


def test_block_io():
    assert told({"blockIO": BLOCK}, 1) == [
        ("blkio", "blkio.weight", "500"),
        ("blkio", "blkio.bfq.weight", "500"),
        ("blkio", "blkio.weight_device", "8:0 10"),
        ("blkio", "blkio.bfq.weight_device", "8:0 10"),
        ("blkio", "blkio.throttle.read_bps_device", "8:0 1024"),
        ("blkio", "blkio.throttle.write_iops_device", "8:16 0"),
    ]
    assert told({"blockIO": BLOCK}, 2) == [
        ("io", "io.bfq.weight", "500"),
        ("io", "io.weight", "4950"),
        ("io", "io.bfq.weight", "8:0 10"),
        ("io", "io.weight", "8:0 1"),
        ("io", "io.max", "8:0 rbps=1024"),
        ("io", "io.max", "8:16 wiops=max"),
    ]
    assert [perdevice.io_weight(n) for n in (10, 1000)] == [1, 10000]


def test_leaf_weights_are_version_1s():
    row = {"major": 8, "minor": 0, "leafWeight": 30}
    given = {"blockIO": {"leafWeight": 20, "weightDevice": [row]}}
    assert told(given, 1) == [
        ("blkio", "blkio.leaf_weight", "20"),
        ("blkio", "blkio.leaf_weight_device", "8:0 30"),
    ]
    with pytest.raises(ConfigError, match=WHERE + r"blockIO\.leafWeight: cgroup2 has no such"):
        resources.for_v2(given)


def test_huge_pages_and_their_reservations():
    given = {"hugepageLimits": [{"pageSize": "2MB", "limit": 0}]}
    assert told(given, 1) == [
        ("hugetlb", "hugetlb.2MB.limit_in_bytes", "0"),
        ("hugetlb", "hugetlb.2MB.rsvd.limit_in_bytes", "0"),
    ]
    assert told(given, 2) == [
        ("hugetlb", "hugetlb.2MB.max", "0"),
        ("hugetlb", "hugetlb.2MB.rsvd.max", "0"),
    ]
    assert [s.optional for s in resources.for_v2(given)] == [False, True]


def test_network_is_version_1s():
    given = {"network": {"classID": 0x100001, "priorities": [{"name": "lo", "priority": 0}]}}
    assert told(given, 1) == [
        ("net_cls", "net_cls.classid", "1048577"),
        ("net_prio", "net_prio.ifpriomap", "lo 0"),
    ]
    with pytest.raises(ConfigError, match=WHERE + r"network\.classID: cgroup2 has no such"):
        resources.for_v2(given)


@pytest.mark.parametrize("version", [1, 2])
def test_rdma(version):
    given = {"rdma": {"mlx5_0": {"hcaHandles": 3, "hcaObjects": 0}, "mlx5_1": {}}}
    assert told(given, version) == [("rdma", "rdma.max", "mlx5_0 hca_handle=3 hca_object=0")]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"hugepageLimits": [{"pageSize": "../MB", "limit": 1}]},
            r"hugepageLimits\[0\]\.pageSize: '\.\./MB'",
        ),
        ({"hugepageLimits": [{"pageSize": "2M", "limit": 1}]}, r"hugepageLimits\[0\]\.pageSize"),
        (
            {"network": {"priorities": [{"name": "a b", "priority": 1}]}},
            r"network\.priorities\[0\]\.name: 'a b'",
        ),
        ({"rdma": {"a b": {"hcaHandles": 1}}}, r"rdma\.a b: is no name of a device"),
    ],
)
@pytest.mark.parametrize("translate", [resources.for_v1, resources.for_v2])
def test_wrong_values_are_named(given, text, translate):
    with pytest.raises(ConfigError, match=WHERE + text):
        translate(given)


def test_a_throttle_and_a_weight_reach_the_kernel(open_cgroup):
    disk = next(Path("/sys/block").glob("*/dev"), None)
    if disk is None or not any("blkio" in h.names for h in hierarchies.mounted()):
        pytest.skip("no block device here, or no blkio hierarchy of version 1")
    device = disk.read_text().strip()
    major, minor = map(int, device.split(":"))
    cgroup = open_cgroup("v1")
    cgroup.create()
    row = {"major": major, "minor": minor, "rate": 1 << 20}
    cgroup.set_resources({"blockIO": {"throttleWriteBpsDevice": [row]}})
    directory = Path(cgroup.record()["dirs"]["blkio"])
    assert f"{device} {1 << 20}" in (directory / "blkio.throttle.write_bps_device").read_text()
    weights = [n for n in ("blkio.weight", "blkio.bfq.weight") if (directory / n).exists()]
    if weights:
        cgroup.set_resources({"blockIO": {"weight": 321}})
        assert "321" in (directory / weights[0]).read_text()
    with pytest.raises(ConfigError, match=WHERE + r"blockIO\.weight: "):
        cgroup.set_resources({"blockIO": {"weight": 2000}})  # out of range, or there is no file


def test_huge_pages_reach_the_kernel(open_cgroup):
    cgroup = open_cgroup("v2")
    cgroup.create()
    given = {"hugepageLimits": [{"pageSize": "2MB", "limit": 4 << 20}]}
    mount = cgroup.directories()[0].removesuffix(cgroup.path)
    control = Path(mount, "cgroup.subtree_control")
    if "hugetlb" not in Path(mount, "cgroup.controllers").read_text().split():
        pytest.skip("version 2 has no hugetlb controller here")
    before = control.read_text().split()
    try:
        cgroup.set_resources(given)
        assert Path(cgroup.directories()[0], "hugetlb.2MB.max").read_text() == f"{4 << 20}\n"
        with pytest.raises(ConfigError, match=r"this kernel has no hugetlb\.3MB\.max"):
            cgroup.set_resources({"hugepageLimits": [{"pageSize": "3MB", "limit": 1}]})
    finally:
        if "hugetlb" not in before:
            for path in (Path(mount, "minirun", "cgroup.subtree_control"), control):
                path.write_text("-hugetlb")


def test_a_limit_below_what_is_in_use_is_refused_before_it_kills(tmp_path):
    def used(size):
        (tmp_path / "memory.current").write_text(f"{size}\n")
        return tree.Dir(str(tmp_path))

    memory = {"limit": os.sysconf("SC_PAGE_SIZE"), "checkBeforeUpdate": True}
    with pytest.raises(ConfigError, match=WHERE + r"memory\.limit: \d+ is less than the 1000000"):
        resources.check_usage({"memory": memory}, used(1000000))
    resources.check_usage({"memory": memory}, used(4096))
    resources.check_usage({"memory": {"limit": 1}}, used(4096))
    (tmp_path / "memory.current").unlink()
    resources.check_usage({"memory": memory}, tree.Dir(str(tmp_path)))
