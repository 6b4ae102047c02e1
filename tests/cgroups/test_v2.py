"""Version 2: handing controllers down, limits, the attached program."""

import os
from pathlib import Path

import pytest

from cgroups.conftest import add
from minirun import cgroups
from minirun.cgroups import bpf, devicefilter, hierarchies, ruleset
from minirun.cgroups.reading import listing
from minirun.core.errors import ConfigError, MinirunError


@pytest.fixture
def cgroup(open_cgroup):
    cgroup = open_cgroup("v2")
    cgroup.create()
    return cgroup


def available(cgroup):
    mount = cgroup.directories()[0].removesuffix(cgroup.path)
    return Path(mount, "cgroup.controllers").read_text().split()


@pytest.mark.parametrize(
    ("controller", "resources", "origin"),
    [
        ("memory", {"memory": {"limit": 1 << 26}}, "linux.resources.memory.limit"),
        ("pids", {"pids": {"limit": 5}}, "linux.resources.pids.limit"),
        ("cpu", {"cpu": {"shares": 5}}, "linux.resources.cpu.shares"),
        ("cpuset", {"cpu": {"cpus": "0"}}, "linux.resources.cpu.cpus"),
        ("memory", {"unified": {"memory.high": "9"}}, "linux.resources.unified.memory.high"),
    ],
)
def test_a_limit_whose_controller_is_elsewhere_says_where(cgroup, controller, resources, origin):
    if controller in available(cgroup):
        pytest.skip(f"version 2 has the {controller} controller here")
    place = next(h.path for h in hierarchies.mounted() if controller in h.names)
    with pytest.raises(ConfigError) as caught:
        cgroup.set_resources(resources)
    text = f"has no {controller} controller: the v1 hierarchy at {place} holds it"
    assert str(caught.value).startswith(f"{origin}: the cgroup2 at ")
    assert str(caught.value).endswith(text)
    assert caught.value.hint == "leave the limit out, or choose cgroup v1"


def test_a_controller_that_nobody_has_is_named_too(cgroup):
    with pytest.raises(ConfigError, match="has no nosuch controller, nor has version 1"):
        cgroup.set_resources({"unified": {"nosuch.max": "1"}})


@pytest.fixture
def hugetlb(cgroup):
    """The one controller that no v1 hierarchy holds here; what it hands down is taken back."""
    if "hugetlb" not in available(cgroup):
        pytest.skip("version 2 has no hugetlb controller here")
    mount = cgroup.directories()[0].removesuffix(cgroup.path)
    control = Path(mount, "cgroup.subtree_control")
    before = control.read_text().split()
    yield "hugetlb.2MB.max"
    if "hugetlb" not in before:
        for path in (Path(mount, "minirun", "cgroup.subtree_control"), control):
            path.write_text("-hugetlb")


def test_each_line_of_a_unified_value_is_a_write_of_its_own(cgroup):
    """As with runc: io.max takes one device a write. cgroup.max.depth takes one number."""
    cgroup.set_resources({"unified": {"cgroup.max.depth": "3\n5\n", "cgroup.max.descendants": "7"}})
    directory = Path(cgroup.directories()[0])
    assert (directory / "cgroup.max.depth").read_text() == "5\n"
    assert (directory / "cgroup.max.descendants").read_text() == "7\n"
    with pytest.raises(ConfigError, match=r"unified\.cgroup\.max\.depth: the kernel refuses 'x'"):
        cgroup.set_resources({"unified": {"cgroup.max.depth": "4\nx\n"}})


def test_limits_of_two_disks(cgroup):
    if "io" not in available(cgroup):
        pytest.skip("version 2 has no io controller here")
    cgroup.set_resources({"unified": {"io.max": "7:0 riops=333\n7:1 riops=555\n"}})
    said = Path(cgroup.directories()[0], "io.max").read_text()
    assert "7:0 " in said and "riops=333" in said
    assert "7:1 " in said and "riops=555" in said


def test_a_controller_is_handed_down_where_it_can_be(cgroup, hugetlb, open_cgroup, sleeper):
    cgroup.set_resources({"unified": {hugetlb: str(4 << 20)}})
    assert Path(cgroup.directories()[0], hugetlb).read_text() == f"{4 << 20}\n"
    with pytest.raises(ConfigError, match=r"unified\.hugetlb\.2MB\.max: the kernel refuses 'x'"):
        cgroup.set_resources({"unified": {hugetlb: "x"}})
    with pytest.raises(ConfigError, match=r"this kernel has no hugetlb\.3MB\.max"):
        cgroup.set_resources({"unified": {"hugetlb.3MB.max": "1"}})
    # a cgroup with processes of its own hands nothing down: cgroups(7), "no internal processes"
    add(cgroup, sleeper().pid)
    child = open_cgroup("v2", f"{cgroup.path}/child")
    child.create()
    with pytest.raises(ConfigError, match=r"cannot be handed down to .*: device or resource busy"):
        child.set_resources({"unified": {hugetlb: "0"}})
    child.remove()


def test_files_of_the_core_need_no_controller(cgroup):
    cgroup.set_resources({"unified": {"cgroup.max.depth": "3"}})
    assert Path(cgroup.directories()[0], "cgroup.max.depth").read_text() == "3\n"


def test_no_program_means_everything_is_allowed(cgroup):
    assert cgroup.effective_device_rules() == [ruleset.ALL]


def test_one_program_at_a_time_is_attached(cgroup):
    ids = set()
    for text in ("c 1:3 r", "c 1:5 r", "c 1:7 r"):
        cgroup.set_device_rules([ruleset.parse(text)])
        (program,) = bpf.attached(cgroup.clone_fd())
        ids.add(program)
        assert cgroup.effective_device_rules() == [ruleset.parse(text)]
    assert len(ids) == 3


def test_another_process_adds_to_what_the_kernel_has(cgroup):
    cgroup.set_device_rules([ruleset.parse("c 1:3 r")])
    other = cgroups.from_record(cgroup.record())
    other.allow_devices([ruleset.parse("c 195:0 rw")])
    told = listing(other.effective_device_rules(), {("c", 195, 0): "/dev/nvidia0"})
    other.close()
    assert told == ["c 1:3 r", "c 195:0 rw # /dev/nvidia0"]


def test_the_replacement_is_one_step(cgroup, log):
    cgroup.set_device_rules([])
    cgroup.allow_devices([ruleset.parse("c 195:0 rw")])
    calls = [event["args"] for event in log()]
    assert [call["cmd"] for call in calls[-3:]] == [
        "BPF_PROG_QUERY", "BPF_PROG_GET_FD_BY_ID", "BPF_PROG_ATTACH",
    ]  # fmt: skip
    assert calls[-1]["attach_flags"] == "BPF_F_ALLOW_MULTI|BPF_F_REPLACE"


def test_a_foreign_program_is_not_taken_for_ours(cgroup):
    program = bpf.load(bpf.DEVICE, devicefilter.YES, "foreign")
    bpf.attach(bpf.DEVICE, cgroup.clone_fd(), program)
    with pytest.raises(MinirunError, match="the program attached there cannot be read: not a dev"):
        cgroup.effective_device_rules()
    cgroup.set_device_rules([])  # which takes its place
    assert cgroup.effective_device_rules() == []
    bpf.attach(bpf.DEVICE, cgroup.clone_fd(), program)
    os.close(program)
    with pytest.raises(MinirunError, match="2 programs are attached, and minirun attaches one"):
        cgroup.effective_device_rules()


def test_rules_hold_in_cgroups_that_the_container_makes(cgroup, prober):
    cgroup.set_device_rules([ruleset.parse("c 1:3 rw")])
    inner = Path(cgroup.directories()[0], "inner")
    inner.mkdir()
    Path(inner, "cgroup.procs").write_text(str(prober.process.pid))
    assert prober.try_all([("c", 1, 3, "rw"), ("c", 1, 5, "r")]) == [0, 1]


def test_a_list_that_the_kernel_cannot_check_is_refused_in_one_line(cgroup):
    before = [ruleset.parse("c 1:3 rw")]
    cgroup.set_device_rules(before)
    given = [ruleset.parse(f"c {300 + i // 200}:{i % 200} rw") for i in range(20_000)]
    with pytest.raises(ConfigError) as caught:
        cgroup.set_device_rules(given)
    assert str(caught.value) == (
        "linux.resources.devices: 20000 rules make a program of 140008 instructions,"
        " which the kernel finds too large to check"
    )
    assert cgroup.effective_device_rules() == before, "the one before it stays"
