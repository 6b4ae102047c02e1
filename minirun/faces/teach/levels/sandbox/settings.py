"""The sandbox's config.json: a container that may mount and make cgroups, and little else.

The learner's program is a container runtime, so it has the capabilities of one. What it could do
with them to the host is taken away by kind:

    device rules       it may make each node, but open only harmless ones and the simulated GPUs'
    capabilities       no clock, module, raw memory, reboot, kernel log
    seccomp            no swap, quota, keyring, programs of the kernel's tracing; mount_guard
    mounts             its own of each kind; the host's files are copies (hostfiles)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from minirun.core.kernel import architecture
from minirun.core.process import caps
from minirun.faces.teach.levels.sandbox import mount_guard
from minirun.faces.teach.levels.sandbox.hostfiles import SOURCE, HostFiles

_PROGRAM = "minirun.faces.teach.levels.sandbox.inside"
_LACKS = (
    "DAC_READ_SEARCH", "LINUX_IMMUTABLE", "SYS_MODULE", "SYS_RAWIO", "SYS_PACCT", "SYS_BOOT",
    "SYS_NICE", "SYS_TIME", "SYS_TTY_CONFIG", "LEASE", "AUDIT_CONTROL", "MAC_OVERRIDE", "MAC_ADMIN",
    "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON",
)  # fmt: skip
_DENIED = (
    "swapon", "swapoff", "quotactl", "quotactl_fd", "acct", "syslog", "open_by_handle_at",
    "add_key", "request_key", "perf_event_open", "kexec_load", "kexec_file_load", "init_module",
    "finit_module", "delete_module", "reboot", "lookup_dcookie", "nfsservctl", "vhangup",
)  # fmt: skip
"""Calls for which CAP_SYS_ADMIN is enough in some kernels, or none, and whose effect is global."""
_NOT_THERE = ("fspick", "keyctl")
"""ENOSYS, as on an old kernel: callers then use mount(2). No namespace divides keyrings: at ENOSYS
runc goes on without one.
"""
_BPF = {5: "PROG_LOAD", 8: "PROG_ATTACH", 9: "PROG_DETACH", 16: "PROG_QUERY"}
"""The commands of bpf(2) that device rules need. Others reach programs and maps of the host."""
_NODES = (("c", 1, 3), ("c", 1, 5), ("c", 1, 7), ("c", 1, 8), ("c", 1, 9), ("c", 5, 0), ("c", 5, 1),
          ("c", 5, 2), ("c", 136, None), ("b", 1, None))  # fmt: skip
"""The nodes that may be opened: null, zero, full, random, urandom, terminals, the empty RAM disks.

A check opens a RAM disk to see whether the learner's own rules deny disks.
"""


class Inside(NamedTuple):
    """How process 1 of the sandbox is started."""

    python: str
    """The interpreter."""
    paths: list[str]
    """Its sys.path."""
    search: str
    """The folders in which programs are looked for: the caller's PATH."""
    cgroup: str
    """The path of its cgroup, in each tree."""


def config(copy: HostFiles, inside: Inside, majors: list[int], listener: Path) -> dict[str, Any]:
    """Return config.json.

    `majors` are the numbers of the simulated GPUs' nodes, `listener` is the mount guard's socket.
    """
    held = caps.names(caps.held() & ~caps.mask(f"CAP_{name}" for name in _LACKS))
    nodes = [*_NODES, *(("c", major, None) for major in majors)]
    kinds = ("bounding", "effective", "permitted")
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(copy.root)},
        "hostname": "sandbox",
        "process": {
            "cwd": "/",
            "args": [inside.python, "-m", _PROGRAM],
            "env": [f"PATH={inside.search}",
                    "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1",
                    f"PYTHONPATH={':'.join(inside.paths)}"],
            "user": {"uid": 0, "gid": 0},
            "capabilities": dict.fromkeys(kinds, held),
            "rlimits": [{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}],
        },
        "mounts": _mounts(copy),
        "linux": {
            "cgroupsPath": inside.cgroup,
            "namespaces": [{"type": kind}
                           for kind in ("mount", "pid", "network", "ipc", "uts", "cgroup")],
            "resources": {"devices": [
                {"allow": False, "access": "rwm"},
                *({"allow": True, "type": kind, "access": "m"} for kind in "bc"),
                *({"allow": True, "type": kind, "major": major, "access": "rwm"}
                  | ({} if minor is None else {"minor": minor}) for kind, major, minor in nodes),
            ]},
            "seccomp": _seccomp(listener),
            "maskedPaths": ["/proc/kcore", "/proc/sysrq-trigger", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq"],
        },
    }  # fmt: skip


def _mounts(copy: HostFiles) -> list[dict[str, Any]]:
    """Return the mounts; /run/covered shows what is written to /tmp."""
    plain, source = ["nosuid", "nodev", "noexec"], SOURCE
    rows = [
        ("/proc", "proc", "proc", plain),
        ("/dev", "tmpfs", source, ["nosuid", "mode=755", "size=1m"]),
        ("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666"]),
        ("/dev/shm", "tmpfs", source, ["nosuid", "nodev", "mode=1777", "size=64m"]),
        ("/dev/mqueue", "mqueue", "mqueue", plain),
        ("/sys", "sysfs", "sysfs", [*plain, "ro"]),
        ("/sys/fs/cgroup", "cgroup", "cgroup", plain),
        ("/run", "tmpfs", source, ["nosuid", "nodev", "mode=755", "size=256m"]),
        ("/run/covered", "none", str(copy.written_to_tmp), ["bind", "ro"]),
    ]
    return [
        {"destination": where, "type": kind, "source": name, "options": options}
        for where, kind, name, options in rows
    ]


def _seccomp(listener: Path) -> dict[str, Any]:
    """Return the filter."""
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [*(row.scmp for row in architecture.ROWS), "SCMP_ARCH_X32"],
        "listenerPath": str(listener),
        "syscalls": [
            *mount_guard.rules(),
            {"names": list(_DENIED), "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
            {"names": list(_NOT_THERE), "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
            *_all_but("bpf", list(_BPF)),
        ],
    }  # fmt: skip


def _all_but(call: str, allowed: list[int]) -> list[dict[str, Any]]:
    """Return rules that refuse a call unless its first argument is one of these numbers.

    Conditions on one argument are alternatives, so each number has a rule of its own.
    """
    last = max(allowed)
    conditions = [(number, "SCMP_CMP_EQ") for number in range(last) if number not in allowed]
    return [
        {"names": [call], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
         "args": [{"index": 0, "value": value, "op": op}]}
        for value, op in [*conditions, (last, "SCMP_CMP_GT")]
    ]  # fmt: skip
