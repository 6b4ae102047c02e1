"""A hundred and more malformed configurations: each names its culprit by the exact path."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from conftest import Program
from minirun.core.errors import ConfigError
from minirun.oci import validate

VALID: dict[str, Any] = {
    "ociVersion": "1.2.0",
    "root": {"path": "rootfs"},
    "hostname": "c1",
    "process": {
        "cwd": "/",
        "args": ["true"],
        "env": ["PATH=/bin"],
        "user": {"uid": 0, "gid": 0},
        "capabilities": {"bounding": ["CAP_CHOWN"]},
        "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 2}],
    },
    "mounts": [{"destination": "/proc", "type": "proc", "options": ["nosuid"]}],
    "hooks": {"prestart": [{"path": "/bin/true"}]},
    "annotations": {"key": "value"},
    "linux": {
        "namespaces": [{"type": "mount"}, {"type": "pid"}, {"type": "uts"}],
        "devices": [{"type": "c", "path": "/dev/x", "major": 1, "minor": 3}],
        "resources": {
            "devices": [{"allow": False}],
            "memory": {"limit": 1 << 20},
            "pids": {"limit": 1},
        },
        "sysctl": {"net.ipv4.ip_forward": "1"},
        "maskedPaths": ["/proc/kcore"],
        "readonlyPaths": ["/proc/sys"],
        "seccomp": {"defaultAction": "SCMP_ACT_ALLOW"},
    },
}
GONE = object()
"""In place of a value: the property is taken away."""

USERNS = [{"type": "mount"}, {"type": "uts"}, {"type": "user"}]
MAP = {"containerID": 0, "hostID": 100000, "size": 65536}
DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]


def changed(changes: dict[str, Any]) -> Any:
    """VALID with some properties set, by paths such as mounts[0].type."""
    result = copy.deepcopy(VALID)
    for path, value in changes.items():
        *way, last = [
            int(part) if part.isdigit() else part
            for part in path.replace("]", "").replace("[", ".").split(".")
        ]
        place: Any = result
        for part in way:
            if isinstance(part, str) and part not in place:
                place[part] = {}
            place = place[part]
        if value is GONE:
            place.pop(last, None)
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return result


def one(path: str, value: Any, culprit: str = "") -> tuple[dict[str, Any], str]:
    return {path: value}, culprit or path


MALFORMED = [
    # what must be there
    one("ociVersion", GONE), one("ociVersion", None), one("root", GONE), one("root", None),
    one("root.path", GONE), one("root.path", ""), one("process.cwd", GONE),
    one("process.args", GONE), one("process.args", []), one("process.args", None),
    one("process", {}, "process.cwd"), one("mounts[0].destination", GONE),
    one("hooks.prestart[0].path", GONE), one("linux.namespaces[0].type", GONE),
    one("linux.devices[0].type", GONE), one("linux.devices[0].path", GONE),
    one("linux.resources.devices[0].allow", GONE), one("process.rlimits[0].type", GONE),
    one("process.rlimits[0].soft", GONE), one("process.rlimits[0].hard", GONE),
    one("linux.seccomp.defaultAction", GONE), one("process.consoleSize", {"height": 1},
    "process.consoleSize.width"),
    # versions
    one("ociVersion", ""), one("ociVersion", "1"), one("ociVersion", "1.0"),
    one("ociVersion", "v1.0.0"), one("ociVersion", "2.0.0"), one("ociVersion", "0.9.0"),
    one("ociVersion", "1.x.0"), one("ociVersion", "1.0.0.0"), one("ociVersion", 1),
    one("ociVersion", "١.0.0"), one("ociVersion", "9" * 5000 + ".0.0"),
    # types
    one("root", []), one("root", "rootfs"), one("root.path", 1), one("root.path", ["rootfs"]),
    one("root.readonly", "true"), one("root.readonly", 1), one("hostname", 1),
    one("domainname", []), one("process", []), one("process", "sh"),
    one("process.terminal", "yes"),
    one("process.terminal", 0), one("process.cwd", 1), one("process.args", "true"),
    one("process.args[0]", 1), one("process.args[0]", None), one("process.env", {"A": "1"}),
    one("process.env[0]", 1), one("process.env[0]", "=x"), one("process.env[0]", ""),
    one("process.noNewPrivileges", "true"), one("process.oomScoreAdj", "0"),
    one("process.oomScoreAdj", 1.5), one("process.user", "root"), one("process.user", 0),
    one("process.user.uid", "0"), one("process.user.uid", -1), one("process.user.uid", 1.0),
    one("process.user.uid", True), one("process.user.gid", -1),
    one("process.user.additionalGids", 5),
    one("process.user.additionalGids", [5, "6"], "process.user.additionalGids[1]"),
    one("process.capabilities", ["CAP_CHOWN"]), one("process.capabilities.bounding", "CAP_CHOWN"),
    one("process.capabilities.ambient", [1], "process.capabilities.ambient[0]"),
    one("process.rlimits", {}), one("process.rlimits[0]", "RLIMIT_CPU"),
    one("process.rlimits[0].soft", "1"), one("process.rlimits[0].hard", -1),
    one("process.apparmorProfile", 1), one("process.selinuxLabel", False),
    one("process.consoleSize", {"height": -1, "width": 1}, "process.consoleSize.height"),
    one("mounts", {}), one("mounts[0]", "/proc"), one("mounts[0].type", 1),
    one("mounts[0].source", []), one("mounts[0].options", "ro"), one("mounts[0].options[0]", 1),
    one("mounts[0].uidMappings", [{"containerID": 0}], "mounts[0].uidMappings[0].hostID"),
    one("hooks", []), one("hooks.prestart", {}), one("hooks.prestart[0]", "/bin/true"),
    one("hooks.prestart[0].path", 1), one("hooks.prestart[0].args", "x"),
    one("hooks.prestart[0].args", [1], "hooks.prestart[0].args[0]"),
    one("hooks.prestart[0].env", {"A": "1"}), one("hooks.prestart[0].timeout", "1"),
    one("hooks.createRuntime", "x"), one("hooks.poststop", [{}], "hooks.poststop[0].path"),
    one("annotations", []), one("annotations.key", 1), one("annotations.key", {}),
    one("linux", []), one("linux.namespaces", {}), one("linux.namespaces[0]", "mount"),
    one("linux.namespaces[0].type", 1), one("linux.namespaces[1].path", 1),
    one("linux.devices", {}), one("linux.devices[0].major", "1"),
    one("linux.devices[0].fileMode", "666"),
    one("linux.devices[0].fileMode", -1), one("linux.devices[0].uid", "0"),
    one("linux.sysctl", []), one("linux.sysctl.kernel", 1), one("linux.cgroupsPath", 1),
    one("linux.rootfsPropagation", 1), one("linux.maskedPaths", "/proc"),
    one("linux.maskedPaths[0]", 1), one("linux.readonlyPaths", {}), one("linux.seccomp", []),
    one("linux.seccomp.syscalls", {}),
    one("linux.seccomp.syscalls", [1], "linux.seccomp.syscalls[0]"),
    one("linux.seccomp.architectures", "x86"), one("linux.timeOffsets", []),
    one("linux.timeOffsets.boottime", 1), one("linux.timeOffsets.boottime", {"secs": "1"},
    "linux.timeOffsets.boottime.secs"),
    one("linux.resources", []), one("linux.resources.devices", {}),
    one("linux.resources.devices[0].allow", "false"), one("linux.resources.devices[0].major", "1"),
    one("linux.resources.memory", 1), one("linux.resources.memory.limit", "1m"),
    one("linux.resources.memory.swappiness", -1), one("linux.resources.memory.disableOOMKiller", 1),
    one("linux.resources.cpu", []), one("linux.resources.cpu.shares", -1),
    one("linux.resources.cpu.quota", 1.5), one("linux.resources.cpu.cpus", 0),
    one("linux.resources.pids.limit", "1"), one("linux.resources.blockIO", []),
    one("linux.resources.blockIO.weight", "5"), one("linux.resources.blockIO.weightDevice", {}),
    one("linux.resources.blockIO.weightDevice", [8], "linux.resources.blockIO.weightDevice[0]"),
    one(
        "linux.resources.blockIO.throttleReadBpsDevice", [{"major": -1}],
        "linux.resources.blockIO.throttleReadBpsDevice[0].major",
    ),
    one("linux.resources.rdma", {"mlx5": 1}, "linux.resources.rdma.mlx5"),
    one("linux.resources.hugepageLimits", {}), one("linux.resources.unified", []),
    one("linux.resources.unified", {"memory.high": 1}, "linux.resources.unified.memory.high"),
    # ranges
    one("process.oomScoreAdj", 1001), one("process.oomScoreAdj", -1001),
    one("process.user.uid", 2**32 - 1), one("process.user.uid", 2**32),
    one("process.user.gid", 2**64),
    one("process.user.additionalGids", [0, 2**32 - 1], "process.user.additionalGids[1]"),
    one("process.user.umask", 0o1000), one("process.user.umask", 2**40),
    one("process.consoleSize", {"height": 1, "width": 65536}, "process.consoleSize.width"),
    one("process.rlimits[0].soft", 2**64), one("process.rlimits[0].soft", 3),
    one("process.rlimits[0].type", "NOFILE"), one("process.rlimits[0].type", "RLIMIT_X"),
    one("process.rlimits[1]", VALID["process"]["rlimits"][0], "process.rlimits[1].type"),
    one("linux.resources.memory.limit", 2**63), one("linux.resources.memory.limit", -(2**70)),
    one("linux.devices[0].major", -1), one("linux.devices[0].major", 4096),
    one("linux.devices[0].minor", 2**20), one("linux.devices[0].minor", 2**40),
    one("linux.devices[0].fileMode", 2**33), one("linux.devices[0].uid", 2**32),
    one("linux.devices[0].type", "x"), one("linux.devices[0].type", ""),
    one("linux.resources.devices[0].type", "u"), one("linux.resources.devices[0].access", "rx"),
    one("linux.resources.devices[0].major", -2), one("linux.resources.devices[0].minor", 2**32),
    one("hooks.prestart[0].timeout", 0), one("hooks.prestart[0].timeout", -1),
    one("hooks.prestart[0].timeout", 2**63), one("hostname", "h" * 65), one("hostname", "é" * 33),
    one("domainname", "d" * 65),
    # paths
    one("process.cwd", ""), one("process.cwd", "tmp"), one("process.cwd", "./"),
    one("hooks.prestart[0].path", "true"), one("hooks.prestart[0].path", ""),
    one("hooks.startContainer", [{"path": "/x"}, {"path": "y"}], "hooks.startContainer[1].path"),
    one("linux.devices[0].path", "dev/x"), one("linux.devices[0].path", "/"),
    one("linux.devices[0].path", "//"), one("linux.devices[0].path", "/dev/.."),
    one("linux.namespaces[1].path", "proc/1/ns/pid"), one("linux.maskedPaths[0]", "kcore"),
    one("linux.readonlyPaths[0]", ""),
    # namespaces and what needs them
    one("linux", GONE, "hostname"), one("linux.namespaces", [], "linux.maskedPaths"),
    one("linux.namespaces", [{"type": "pid"}], "linux.maskedPaths"),
    one("linux.namespaces[1].type", "net"), one("linux.namespaces[1].type", "PID"),
    one("linux.namespaces[3]", {"type": "pid"}, "linux.namespaces[3].type"),
    one("linux.namespaces[3]", {"type": "pid", "path": "/x"}, "linux.namespaces[3].type"),
    one("linux.namespaces[2]", {"type": "ipc"}, "hostname"),
    ({"hostname": GONE, "domainname": "d", "linux.namespaces[2]": {"type": "ipc"}}, "domainname"),
    one("linux.namespaces", USERNS, "linux.uidMappings"),
    ({"linux.namespaces": USERNS, "linux.uidMappings": [MAP]}, "linux.gidMappings"),
    ({"linux.namespaces": USERNS, "linux.uidMappings": [{**MAP, "size": 0}]},
     "linux.uidMappings[0].size"),
    ({"linux.namespaces": USERNS, "linux.uidMappings": [{**MAP, "hostID": -1}]},
     "linux.uidMappings[0].hostID"),
    ({"linux.namespaces": USERNS, "linux.uidMappings": [MAP, {**MAP, "hostID": 2**32 - 5}]},
     "linux.uidMappings[1].hostID"),
    one("linux.uidMappings", [MAP]), one("linux.gidMappings", [MAP]),
    one("linux.timeOffsets", {"boottime": {"secs": 1}}, "linux.timeOffsets"),
    ({"linux.namespaces[3]": {"type": "time"}, "linux.timeOffsets": {"realtime": {}}},
     "linux.timeOffsets.realtime"),
    one("mounts[0].uidMappings", [MAP], "mounts[0]"),
    ({"mounts[0].uidMappings": [MAP], "mounts[0].gidMappings": [{**MAP, "size": 0}]},
     "mounts[0].gidMappings[0].size"),
    # devices and network devices
    one("linux.devices[0].major", GONE), one("linux.devices[0].minor", None),
    one("linux.netDevices", {"eth0": {}}, "linux.netDevices"),
    ({"linux.namespaces[3]": {"type": "network"}, "linux.netDevices": {"a" * 16: {}}},
     "linux.netDevices." + "a" * 16),
    ({"linux.namespaces[3]": {"type": "network"}, "linux.netDevices": {"eth0": {"name": "a/b"}}},
     "linux.netDevices.eth0"),
    # what has a shape
    one("process.scheduler", {}, "process.scheduler.policy"),
    one("process.scheduler", {"policy": "SCHED_RR", "runtime": -1}, "process.scheduler.runtime"),
    one("process.ioPriority", {"priority": 1}, "process.ioPriority.class"),
    one("process.execCPUAffinity", {"initial": 1}, "process.execCPUAffinity.initial"),
    one("linux.personality", {"flags": []}, "linux.personality.domain"),
    one("linux.memoryPolicy", {"mode": 1}, "linux.memoryPolicy.mode"),
    one("linux.intelRdt", []), one("linux.mountLabel", 1), one("annotations", {"": "x"}),
    one("linux.seccomp.listenerPath", 1),
    # what the kernel would cut short, what no file can hold, what has no end
    one("process.args[0]", "a\0b"), one("process.cwd", "/a\0"), one("root.path", "a\0/../../.."),
    one("mounts[0].destination", "/a\0b"), one("annotations.key", "\0"), one("hostname", "\0"),
    one("annotations", {"a\0b": "x"}, "annotations.'a\\x00b'"), one("process.env[0]", "A=\ud800"),
    one("unknown", {"inner": [["\0"]]}, "unknown.inner[0][0]"),
    one("unknown", float("inf")), one("unknown", DEEP, "unknown" + "[0]" * 11),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "culprit"), MALFORMED, ids=[f"{n}-{row[1]}" for n, row in enumerate(MALFORMED)]
)
def test_malformed(changes: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate.check(changed(changes))
    line = caught.value.line()
    assert line.startswith(f"config.json: {culprit}: "), line
    assert "\n" not in line
    assert len(line) < 300
    assert not line.endswith(".")
    assert caught.value.status == 1


def test_there_are_more_than_a_hundred() -> None:
    assert len(MALFORMED) > 200


@pytest.mark.parametrize("value", [[], "text", 1, None, True, 1.5])
def test_a_document_that_is_no_object(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"config\.json: config\.json: expected an object"):
        validate.check(value)


WELL_FORMED: list[dict[str, Any]] = [
    {},
    {"process": GONE},
    {"ociVersion": "1.0.0"},
    {"ociVersion": "1.3.0-rc.1+build.5"},
    {"hostname": GONE, "mounts": GONE, "hooks": GONE, "annotations": GONE},
    {"hostname": "h" * 64},
    {"process.user": GONE},
    {"process.user": {"uid": 2**32 - 2, "gid": 2**32 - 2, "umask": 0o777, "username": "x"}},
    {"process.env": ["A=1", "A=2", "EMPTY=", "novalue"]},
    {"process.capabilities.bounding": ["CAP_FROM_THE_FUTURE"]},
    {"process.rlimits[0].soft": 2**64 - 1, "process.rlimits[0].hard": 2**64 - 1},
    {"process.oomScoreAdj": -1000},
    {"linux.namespaces[1].path": "/proc/1/ns/pid"},
    {"linux.namespaces[2].path": "/proc/1/ns/uts"},
    {"linux.namespaces": USERNS, "linux.uidMappings": [MAP], "linux.gidMappings": [MAP]},
    {"linux.devices[0]": {"type": "p", "path": "/run/fifo"}},
    {"linux.devices[0].fileMode": 0o20666},
    {"linux.resources.devices[0]": {"allow": True, "type": "c", "major": -1, "minor": -1}},
    {"linux.resources.memory": {"limit": -1, "swap": -1}},
    {"linux.resources.pids.limit": -1},
    {"linux.timeOffsets": {}},
    {"hooks": {"poststop": [{"path": "/x", "args": [], "env": [], "timeout": 1}]}},
    {"process.consoleSize": {"height": 24, "width": 80}},
]


@pytest.mark.parametrize("changes", WELL_FORMED)
def test_well_formed(changes: dict[str, Any]) -> None:
    document = changed(changes)
    assert validate.check(document) == document


UNKNOWN: list[dict[str, Any]] = [
    {"unknown": {"any": [1, "x", {}]}},
    {"process.scheduler": {"policy": "SCHED_OTHER"}},
    {"process.user.unknown": "x"},
    {"hooks": {"someday": "anything", "prestart": []}},
    {"linux.intelRdt": {"closID": "x", "unknown": 1}},
    {"mounts[0].unknown": 1},
    {"windows": {}, "solaris": {"milestone": 1}, "vm": {"kernel": {"path": "x"}}},
]


@pytest.mark.parametrize("changes", UNKNOWN)
def test_properties_it_does_not_know_are_kept(changes: dict[str, Any]) -> None:
    """runtime-spec, config.md, "Extensibility"."""
    document = changed(changes)
    assert validate.check(document) == document


def test_a_relative_destination_is_relative_to_the_root() -> None:
    """runtime-spec, config.md, "Mounts": deprecated, and still to be taken."""
    document = validate.check(changed({"mounts[0].destination": "proc"}))
    assert document["mounts"][0]["destination"] == "/proc"


NULLS = [
    "process.env", "process.user", "process.user.uid", "process.user.umask", "process.terminal",
    "process.capabilities", "process.capabilities.ambient", "process.rlimits", "mounts",
    "mounts[0].options", "mounts[0].source", "mounts[0].type", "hooks", "hooks.prestart",
    "hooks.prestart[0].args", "hooks.prestart[0].env", "hooks.prestart[0].timeout", "annotations",
    "linux.devices", "linux.devices[0].fileMode", "linux.devices[0].uid",
    "linux.namespaces[1].path", "linux.resources", "linux.resources.devices",
    "linux.resources.devices[0].type", "linux.resources.devices[0].access",
    "linux.resources.devices[0].major", "linux.resources.memory", "linux.resources.memory.limit",
    "linux.sysctl", "linux.seccomp", "linux.seccomp.syscalls", "linux.maskedPaths",
    "linux.uidMappings",
    "linux.timeOffsets", "linux.cgroupsPath", "linux.rootfsPropagation", "domainname", "unknown",
]  # fmt: skip


@pytest.mark.parametrize("path", NULLS)
def test_null_is_as_good_as_nothing(path: str) -> None:
    """Engines are written in Go, whose JSON has null for an empty list and for no pointer."""
    without = changed({path: GONE})
    assert validate.check(changed({path: None})) == without


def test_a_null_namespace_path_means_a_new_namespace(tmp_path: Path) -> None:
    document = changed({"linux.namespaces[1].path": None})
    (tmp_path / "config.json").write_text(json.dumps(document))
    assert validate.load(str(tmp_path)).new_namespace("pid")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a JSON value"),
        ("{", "config.json: "),
        ("[1, 2]", "expected an object"),
        ("{} x", "unexpected text"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("\ufeff{}", "config.json: "),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=expected) as caught:
        validate.load(str(tmp_path))
    assert "\n" not in caught.value.line()


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    os.truncate(tmp_path / "config.json", 10 << 30)
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        validate.load(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "item"),
    [
        ("mounts", {"destination": "/x"}),
        ("linux.maskedPaths", "/x"),
        ("linux.readonlyPaths", "/x"),
        ("linux.devices", {"type": "p", "path": "/x"}),
        ("hooks.poststop", {"path": "/bin/true"}),
    ],
)
def test_lists_whose_items_are_system_calls_have_an_end(path: str, item: object) -> None:
    with pytest.raises(ConfigError, match=f"{path}: has 5000 entries, more than"):
        validate.check(changed({path: [item] * 5000}))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ConfigError, match="byte 7 is not UTF-8"):
        validate.load(str(tmp_path))


@pytest.mark.parametrize("what", ["nothing", "a directory", "a FIFO", "a device"])
def test_no_config_at_all(tmp_path: Path, what: str) -> None:
    if what == "a directory":
        (tmp_path / "config.json").mkdir()
    elif what == "a FIFO":  # without a writer
        os.mkfifo(tmp_path / "config.json")
    elif what == "a device":  # which has no end
        (tmp_path / "config.json").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match=f"{tmp_path}/config.json: "):
        validate.load(str(tmp_path))


@pytest.mark.parametrize(
    "changes",
    [
        {"process.args": []},
        {"linux.namespaces": [{"type": "pid"}]},
        {"annotations": {"a": "\ud800"}},
        {"linux.cgroupsPath": "/../x"},
        {"linux.rootfsPropagation": "x"},
        {"root.path": "nosuch"},
        {"linux.sysctl": {"kernel.core_pattern": "x"}},
        {"linux.seccomp": {"defaultAction": "X"}},
        {"linux.resources.memory": {"limit": 1 << 20, "swap": 1}},
        {"mounts[0].type": "nosuchfs"},
        {"hooks.prestart[0].path": "/nosuch"},
        {"process": GONE},
    ],
)
def test_create_says_one_line_and_leaves_nothing(
    minirun: Program, tmp_path: Path, changes: dict[str, Any]
) -> None:
    name = f"bad-{os.getpid()}"
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(changed(changes)))
    done = minirun("create", "--bundle", str(tmp_path), name)
    assert done.returncode in (1, 125)
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("minirun: ")
    assert minirun.left() == []
    assert minirun("state", name).returncode == 1


@pytest.mark.parametrize(
    ("version", "kept"),
    [("1.0.2-dev", {}), ("1.2.1", {}), ("1.3.0", {"limit": 0}), ("1.4.0", {"limit": 0})],
)
def test_a_limit_of_no_processes_is_none_before_the_spec_said_otherwise(
    version: str, kept: dict[str, int]
) -> None:
    resources = {"pids": {"limit": 0}, "memory": {"limit": 1 << 24}}
    config = {"ociVersion": version, "root": {"path": "x"}, "linux": {"resources": resources}}
    found = validate.check(config)["linux"]["resources"]
    assert found == {"pids": kept, "memory": {"limit": 1 << 24}}
