"""Valid configurations that the mutations start from: `minirun spec`'s, and one with everything."""

import copy
import os
from pathlib import Path
from typing import Any

NAMESPACES = [{"type": kind} for kind in ("mount", "pid", "network", "ipc", "uts", "cgroup")]
_MAP = [{"containerID": 0, "hostID": 100000, "size": 65536}]
_HOOK = {"path": "/bin/true", "args": ["true", "x"], "env": ["A=b"], "timeout": 5}


def plain(spec: dict[str, Any], cgroup: str) -> dict[str, Any]:
    """As `minirun spec` writes it, on a tree of the test's own."""
    config = copy.deepcopy(spec)
    config["annotations"] = {"io.minirun.log": "stages", "org.opencontainers.image.title": "x"}
    config["root"] = {"path": "rootfs"}
    config["process"]["args"] = ["/bin/true"]
    config["linux"]["cgroupsPath"] = cgroup
    return config


def rich(spec: dict[str, Any], cgroup: str) -> dict[str, Any]:
    """Nearly each property of the specification."""
    config = plain(spec, cgroup)
    kinds = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
    config |= {"hostname": "rich", "domainname": "example"}
    config["hooks"] = {kind: [dict(_HOOK)] for kind in kinds}
    config["process"] |= {
        "user": {"uid": 1, "gid": 2, "umask": 18, "additionalGids": [3, 4]},
        "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 512, "hard": 1024},
                    {"type": "RLIMIT_CORE", "soft": 0, "hard": 0}],
        "oomScoreAdj": 100, "noNewPrivileges": True, "consoleSize": {"height": 24, "width": 80},
        "scheduler": {"policy": "SCHED_BATCH", "nice": 5, "priority": 0, "flags": []},
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "execCPUAffinity": {"initial": "0", "final": "0-1"},
    }  # fmt: skip
    config["mounts"] += [
        {"destination": "/srv", "type": "bind", "source": "srv",
         "options": ["rbind", "ro", "nosuid"]},
        {"destination": "/etc/hosts", "type": "bind", "source": "srv/file",
         "options": ["bind", "rprivate"]},
        {"destination": "/run", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "size=64k", "mode=755", "tmpcopyup"]},
        {"destination": "/mapped", "type": "bind", "source": "srv", "options": ["bind", "idmap"],
         "uidMappings": _MAP, "gidMappings": _MAP},
    ]  # fmt: skip
    linux = config["linux"]
    linux["namespaces"] = [*NAMESPACES, {"type": "time"}]
    linux |= {
        "sysctl": {"net.ipv4.ip_forward": "0", "kernel.msgmax": "4096"},
        "timeOffsets": {"monotonic": {"secs": 5, "nanosecs": 1}, "boottime": {"secs": 5}},
        "devices": [{"type": "c", "path": "/dev/fuse", "major": 10, "minor": 229, "fileMode": 438,
                     "uid": 0, "gid": 0}, {"type": "p", "path": "/dev/pipe"}],
        "personality": {"domain": "LINUX", "flags": []},
        "memoryPolicy": {"mode": "MPOL_DEFAULT", "nodes": "", "flags": []},
        "netDevices": {}, "rootfsPropagation": "rprivate", "seccomp": seccomp(),
    }  # fmt: skip
    del linux["memoryPolicy"]
    linux["resources"] |= {
        "memory": {"limit": 64 << 20, "reservation": 32 << 20, "swap": 64 << 20},
        "cpu": {"shares": 512, "quota": 50000, "period": 100000, "cpus": "0", "mems": "0"},
        "pids": {"limit": 64}, "hugepageLimits": [],
        "blockIO": {"weight": 100}, "unified": {},
    }  # fmt: skip
    return config


def seccomp() -> dict[str, Any]:
    """A profile with each kind of rule."""
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"], "flags": [],
        "syscalls": [
            {"names": ["kexec_load", "reboot", "no_such_call"], "action": "SCMP_ACT_ERRNO",
             "errnoRet": 38},
            {"names": ["personality"], "action": "SCMP_ACT_ERRNO", "args": [
                {"index": 0, "value": 8, "valueTwo": 0, "op": "SCMP_CMP_EQ"}]},
            {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [
                {"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]},
        ],
    }  # fmt: skip


def podman(spec: dict[str, Any], cgroup: str) -> dict[str, Any]:
    """In the manner of podman: annotations, many options, a user namespace."""
    config = plain(spec, cgroup)
    config["annotations"] |= {
        "io.container.manager": "libpod", "run.oci.keep_original_groups": "1",
        "org.opencontainers.image.stopSignal": "15", "io.kubernetes.cri.sandbox-id": "x",
    }  # fmt: skip
    config["mounts"] += [
        {"destination": "/dev/shm", "type": "bind", "source": "srv",
         "options": ["bind", "rprivate", "nosuid", "noexec", "nodev"]},
        {"destination": "/etc/resolv.conf", "type": "bind", "source": "srv/file",
         "options": ["bind", "rprivate"]},
    ]  # fmt: skip
    config["process"]["terminal"] = False
    config["process"]["rlimits"] = [{"type": "RLIMIT_NPROC", "soft": 4096, "hard": 4096}]
    linux = config["linux"]
    linux["namespaces"] = [*NAMESPACES, {"type": "user"}]
    linux |= {"uidMappings": _MAP, "gidMappings": _MAP, "seccomp": seccomp()}
    linux["sysctl"] = {"net.ipv4.ping_group_range": "0 0"}
    linux["resources"] |= {"pids": {"limit": 2048}}
    return config


def bundle(folder: Path) -> None:
    """The sources that the seeds bind."""
    (folder / "srv").mkdir(parents=True)
    (folder / "srv/file").write_text("127.0.0.1 localhost\n")


def give_away(root: Path) -> None:
    """Give a tree to the user namespace of `podman`, whose root may else make no mount point."""
    for top, folders, files in os.walk(root):
        for name in (".", *folders, *files):
            os.chown(Path(top, name), _MAP[0]["hostID"], _MAP[0]["hostID"], follow_symlinks=False)


SEEDS = (plain, rich, podman)
