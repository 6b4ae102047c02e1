"""Init as the kernel sees it: namespaces and who shares them, user, capabilities, seccomp.

/proc/PID/status and /proc/PID/ns: proc_pid_status(5), proc_pid_ns(5). Two processes are in the same
namespace if the inode of the file is the same: namespaces(7).
"""

import os

from minirun.common.processes import pids
from minirun.core.keeping import state
from minirun.core.kernel import namespaces
from minirun.core.process import caps
from minirun.faces.inspect.document import NamespaceFacts, Rights

KINDS = {kind: namespaces.PROC_NAMES.get(kind, kind) for kind in namespaces.FLAGS}
"""config.json's word → the name below /proc/PID/ns."""
SETS = {
    "effective": "CapEff", "permitted": "CapPrm", "inheritable": "CapInh", "bounding": "CapBnd",
    "ambient": "CapAmb",
}  # fmt: skip
_SECCOMP = {"0": "none", "1": "strict", "2": "filter"}


def inodes(pid: int | str) -> dict[str, int]:
    """Return kind of namespace → inode, as far as this kernel has it and lets us see it."""
    found = {}
    for kind, name in KINDS.items():
        try:
            found[kind] = os.stat(f"/proc/{pid}/ns/{name}").st_ino
        except OSError:
            continue
    return found


def shared(pid: int, others: dict[str, int]) -> dict[str, NamespaceFacts]:
    """Return init's namespaces, and which other processes are in each.

    `others` are the other containers: id → pid of init. "host" are the namespaces of process 1, or
    ours if we may not read those. "processes" counts the processes that we may ask; "unseen" those
    that we may not (it needs CAP_SYS_PTRACE).
    """
    own = inodes(pid)
    host = inodes(1) or inodes("self")
    theirs = {name: inodes(other) for name, other in others.items()}
    counts, unseen = _count(own)
    return {
        kind: {
            "inode": inode,
            "host": host.get(kind) == inode,
            "containers": sorted(n for n, found in theirs.items() if found.get(kind) == inode),
            "processes": counts[kind],
            "unseen": unseen,
        }
        for kind, inode in own.items()
    }


def _count(own: dict[str, int]) -> tuple[dict[str, int], int]:
    """Return how many processes are in each of these namespaces, and how many are hidden."""
    counts = dict.fromkeys(own, 0)
    unseen = 0
    for pid in pids():
        found = inodes(pid)
        unseen += not found and os.path.exists(f"/proc/{pid}")
        for kind in own:
            counts[kind] += own[kind] == found.get(kind)
    return counts, unseen


def cgroups(pid: int) -> dict[str, str]:
    """Return hierarchy ("memory", "cpu,cpuacct"; "" for version 2) → init's cgroup: cgroups(7)."""
    lines = state.read_bytes(f"/proc/{pid}/cgroup").decode(errors="replace").split("\n")
    return {names: path for _, names, path in (line.split(":", 2) for line in lines if line)}


def status(pid: int) -> dict[str, str]:
    """Return the fields of /proc/PID/status. Raises OSError."""
    lines = state.read_bytes(f"/proc/{pid}/status").decode(errors="replace").split("\n")
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines if line)}


def rights(pid: int) -> Rights:
    """Return user, capabilities, seccomp and no_new_privs of a process. Raises OSError."""
    fields = status(pid)
    uids, gids = ([int(n) for n in fields[key].split()] for key in ("Uid", "Gid"))
    kinds = ("real", "effective", "saved", "filesystem")
    return {
        "user": {
            "uid": dict(zip(kinds, uids, strict=True)),
            "gid": dict(zip(kinds, gids, strict=True)),
            "groups": [int(n) for n in fields.get("Groups", "").split()],
            "uidMap": _id_map(pid, "uid_map"),
            "gidMap": _id_map(pid, "gid_map"),
        },
        "capabilities": {
            name: caps.names(int(fields.get(key, "0"), 16)) for name, key in SETS.items()
        },
        "seccomp": {
            "mode": _SECCOMP.get(fields.get("Seccomp", "0"), "?"),
            "filters": int(fields.get("Seccomp_filters", "0")),
        },
        "noNewPrivileges": fields.get("NoNewPrivs") == "1",
    }


def _id_map(pid: int, name: str) -> list[dict[str, int]]:
    rows = [line.split() for line in state.read_text(f"/proc/{pid}/{name}").splitlines()]
    keys = ("containerID", "hostID", "size")
    return [dict(zip(keys, map(int, row), strict=True)) for row in rows]
