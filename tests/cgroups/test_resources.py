"""linux.resources as files and values."""

import inspect
import json
import re
from pathlib import Path

import pytest

from minirun.cgroups import resources
from minirun.cgroups.resources import LIMITS
from minirun.cli.run import run_flags
from minirun.cli.runc import update
from minirun.core.errors import ConfigError
from minirun.docker import docker_host
from minirun.oci import validate


def v1(given):
    return {setting.file: setting.value for setting in resources.for_v1(given)}


def v2(given):
    return {setting.file: setting.value for setting in resources.for_v2(given)}


DOCKERS_NOTHING = {
    "devices": [{"allow": False, "access": "rwm"}],
    "memory": {"disableOOMKiller": False, "swappiness": None},
    "cpu": {"shares": 0},
    "pids": {},
    "blockIO": {"weight": 0, "weightDevice": []},
    "hugepageLimits": [],
    "network": None,
    "somethingNew": {"x": 1},
}


def test_what_engines_send_for_nothing_sets_nothing():
    nothing = validate.resources(DOCKERS_NOTHING)  # it takes the nulls out
    assert v1(nothing) == {}
    assert v2(nothing) == {}


FULL = {
    "memory": {"limit": 100 << 20, "swap": 150 << 20, "reservation": 50 << 20},
    "cpu": {"shares": 1024, "quota": 20000, "period": 100000, "cpus": "0-1", "mems": "0"},
    "pids": {"limit": 10},
}


def test_version_1():
    assert v1(FULL) == {
        "memory.limit_in_bytes": str(100 << 20),
        "memory.memsw.limit_in_bytes": str(150 << 20),
        "memory.soft_limit_in_bytes": str(50 << 20),
        "cpu.shares": "1024",
        "cpu.cfs_quota_us": "20000",
        "cpu.cfs_period_us": "100000",
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
        "pids.max": "10",
    }


def test_version_2():
    assert v2(FULL) == {
        "memory.max": str(100 << 20),
        "memory.swap.max": str(50 << 20),
        "memory.low": str(50 << 20),
        "cpu.weight": "100",
        "cpu.max": "20000 100000",
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
        "pids.max": "10",
    }


@pytest.mark.parametrize(
    ("given", "one", "two"),
    [
        ({"pids": {"limit": 0}}, {"pids.max": "1"}, {"pids.max": "1"}),  # as runc 1.4
        ({"pids": {"limit": -1}}, {"pids.max": "max"}, {"pids.max": "max"}),
        ({"cpu": {"quota": -1}}, {"cpu.cfs_quota_us": "-1"}, {"cpu.max": "max"}),
        ({"cpu": {"period": 5000}}, {"cpu.cfs_period_us": "5000"}, {"cpu.max": "max 5000"}),
        (
            {"memory": {"limit": -1}},
            {"memory.limit_in_bytes": "-1", "memory.memsw.limit_in_bytes": "-1"},
            {"memory.max": "max"},
        ),
        (
            {"memory": {"limit": 5, "swap": -1}},
            {"memory.limit_in_bytes": "5", "memory.memsw.limit_in_bytes": "-1"},
            {"memory.max": "5", "memory.swap.max": "max"},
        ),
        ({"cpu": {"idle": 1}}, {"cpu.idle": "1"}, {"cpu.idle": "1"}),
        ({"cpu": {"burst": 9}}, {"cpu.cfs_burst_us": "9"}, {"cpu.max.burst": "9"}),
    ],
)
def test_none_zero_and_unlimited(given, one, two):
    assert v1(given) == one
    assert v2(given) == two


def test_the_curve_of_shares():
    shares = [1, 2, 512, 1024, 2048, 262144, 999999]
    assert [resources.weight(n) for n in shares] == [1, 1, 59, 100, 174, 10000, 10000]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"memory": {"limit": "1g"}}, "memory.limit: expected a whole number, not '1g'"),
        ({"memory": {"limit": True}}, "memory.limit: expected a whole number, not True"),
        ({"memory": {"disableOOMKiller": 1}}, "memory.disableOOMKiller: expected true or false"),
        ({"cpu": {"cpus": 1}}, "cpu.cpus: expected a string, not 1"),
        ({"cpu": [1]}, r"cpu: expected an object, not \[1\]"),
        ({"memory": {"limit": 9, "swap": 8}}, "memory.swap: 8 is less than memory.limit 9"),
    ],
)
def test_wrong_values_are_named(given, text):
    for translate in (v1, v2):
        with pytest.raises(ConfigError, match=rf"^linux\.resources\.{text}"):
            translate(given)


@pytest.mark.parametrize("name", ["swappiness", "disableOOMKiller", "kernelTCP"])
def test_what_only_version_1_has(name):
    given = {"memory": {name: True if name[0] == "d" else 60}}
    assert list(v1(given).values()) in (["1"], ["60"])
    with pytest.raises(ConfigError, match=rf"memory\.{name}: cgroup2 has no such setting"):
        v2(given)


def test_swap_alone_cannot_be_converted():
    with pytest.raises(ConfigError, match=r"memory\.swap: cgroup2 needs memory\.limit"):
        v2({"memory": {"swap": 1 << 20}})


@pytest.mark.parametrize("file", ["../x.y", "a/b.c", "memory", "memory.max\0/../x"])
def test_unified_takes_names_of_files_only(file):
    with pytest.raises(ConfigError, match=r"^linux\.resources\.unified: "):
        v2({"unified": {file: "1"}})


def test_unified_comes_last_and_as_it_is():
    lines = "8:0 rbps=1\n8:16 wiops=2\n"
    given = {"pids": {"limit": 4}, "unified": {"pids.max": "5", "io.max": lines}}
    told = [(s.controller, s.file, s.value, s.origin) for s in resources.for_v2(given)]
    assert told == [
        ("pids", "pids.max", "4", "linux.resources.pids.limit"),
        ("pids", "pids.max", "5", "linux.resources.unified.pids.max"),
        ("io", "io.max", "8:0 rbps=1", "linux.resources.unified.io.max"),
        ("io", "io.max", "8:16 wiops=2", "linux.resources.unified.io.max"),
    ]


def test_whoever_names_a_limit_names_one_of_the_table() -> None:
    """The shape of config.json, the flags of `run` and `update`, and docker's document."""
    text = Path(validate.__file__).with_name("shape.json").read_text()
    shape = json.loads(text)["config.json"]["linux"]["resources"]
    kinds = {"integer": int, "uint64": int, "string": str, "boolean": bool}
    for path, one in LIMITS.items():
        section, _, member = path.partition(".")
        assert kinds[shape[section][member]] is one.kind, path
    begin = "linux.resources."
    flags = {
        one.path.removeprefix(begin)
        for one in run_flags.PROPERTIES.values()
        if one.path.startswith(begin)
    }
    document = set(re.findall(r'limit\("([^"]+)"', inspect.getsource(docker_host)))
    assert len(document) > 10
    for path in flags | document | set(update._paths().values()):
        assert path in LIMITS or path in ("cpu", "pids", "devices") or path[:8] == "blockIO.", path
    known = flags | set(update._paths().values()) | {"memory.kernelTCP"}  # no kernel limits it now
    assert set(LIMITS) <= known
