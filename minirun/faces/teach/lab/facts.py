"""What the kernel says of a lab's processes and containers: proc(5), stat(2), setns(2), cgroups(7).

Nothing here reads what a program has printed.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from minirun import cgroups
from minirun.cgroups import stats
from minirun.cgroups.base import Cgroup
from minirun.cgroups.rules import DeviceRule
from minirun.common import naming
from minirun.common.child import answer_of
from minirun.common.processes import pids
from minirun.core.errors import StateError
from minirun.core.keeping import state
from minirun.core.kernel import mountinfo, namespaces
from minirun.core.lazy import lazy
from minirun.core.rootfs.inroot import Root
from minirun.faces.teach.lab.folder import LabFolder

with lazy:
    from minirun.net import interfaces  # pyroute2: the labs of the network need it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import CgroupRecord

CONTAINER = "lab"
"""The name of every lab's container; a lab may have more besides."""
_SIOCGIFMTU = 0x8921


def init_of(folder: LabFolder, name: str = CONTAINER) -> int:
    """Return the pid of a container's process 1 on the host; 0 if it does not run."""
    with suppress(StateError, OSError):
        record = naming.record_of(str(folder.state), name)
        if record.status == state.RUNNING:
            return record.first_process()["pid"]
    return 0


def cgroup_of(folder: LabFolder) -> Cgroup:
    """Return the container's cgroup. Raises StateError, MinirunError, OSError."""
    record = naming.record_of(str(folder.state), CONTAINER)
    return cgroups.from_record(_cgroup_record(folder), record.init)


def _cgroup_record(folder: LabFolder) -> CgroupRecord:
    record = naming.record_of(str(folder.state), CONTAINER).cgroup
    if record is None:
        raise StateError("container not running")
    return record


def memory_limit(folder: LabFolder) -> int:
    """Return the bytes that the container may use; stats.UNLIMITED if there is no limit.

    Raises StateError.
    """
    limit: int = stats.stats(_cgroup_record(folder))["memory"]["usage"]["limit"]
    return limit


def oom_kills(folder: LabFolder) -> int:
    """Return how many processes of the container the kernel has killed for want of memory.

    memory.oom_control of version 1 (memory.rst, "OOM Control") and memory.events of version 2 have
    the same line. Raises StateError, OSError.
    """
    record = _cgroup_record(folder)
    controller, name = ("memory", "oom_control") if record["version"] == 1 else ("", "events")
    lines = Path(record["dirs"][controller], f"memory.{name}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def allows(rules: list[DeviceRule], major: int, minor: int) -> bool:
    """Return True if the cgroup lets a process read the character device."""
    answer = False
    for rule in rules:
        numbers = rule.major in (None, major) and rule.minor in (None, minor)
        if rule.kind in "ac" and numbers and "r" in rule.access:
            answer = rule.allow
    return answer


def stat_in_root(pid: int, path: str) -> os.stat_result | None:
    """Return what `path` is in a process's root, links followed there; None if it is not there."""
    with suppress(OSError), closing(Root.at(f"/proc/{pid}/root")) as root:
        fd = root.open(path)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)
    return None


def device(pid: int, path: str) -> tuple[int, int] | None:
    """Return the numbers of a character device in a process's root."""
    found = stat_in_root(pid, path)
    if found is None or not stat.S_ISCHR(found.st_mode):
        return None
    return os.major(found.st_rdev), os.minor(found.st_rdev)


def field(pid: int | str, name: str) -> str:
    """Return a field of /proc/PID/status; "" if the process is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    return ""


def uid_map(pid: int) -> list[tuple[int, int, int]]:
    """Return the lines of a process's map: first id inside, outside, how many; none if it is gone.

    "Outside" is as this process sees it: user_namespaces(7).
    """
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/uid_map").read_text().splitlines()
        return [(int(inside), int(outside), int(size))
                for inside, outside, size in map(str.split, lines)]  # fmt: skip
    return []


def namespace(pid: int | str, kind: str) -> int:
    """Return the inode of a process's namespace; 0 if the process is gone."""
    with suppress(OSError):
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    return 0


def elsewhere(folder: LabFolder, kind: str) -> Iterator[int]:
    """Yield the lab's processes that have a namespace of this kind of their own."""
    own = namespace("self", kind)
    return (pid for pid in folder.processes() if namespace(pid, kind) not in (0, own))


def zombies(pid: int) -> int:
    """Return how many zombies there are in a process's pid namespace."""
    inode = namespace(pid, "pid")
    return sum(namespace(each, "pid") == inode and field(each, "State")[0:1] == "Z"
               for each in pids())  # fmt: skip


def program(pid: int) -> str:
    """Return the name of the program that a process executes; "" if it is gone."""
    with suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return ""


def variable(pid: int, name: str) -> str:
    """Return a variable of the environment that a process was started with; "" if it has none."""
    with suppress(OSError):
        for row in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            key, _, value = row.decode(errors="surrogateescape").partition("=")
            if key == name:
                return value
    return ""


def descriptors(pid: int) -> dict[int, os.stat_result]:
    """Return what a process's open descriptors are."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            found[int(name)] = os.stat(f"/proc/{pid}/fd/{name}")
    return found


def mtu(pid: int, link: str) -> int:
    """Return a link's MTU in the network namespace of `pid`; 0 if there is no such link.

    netdevice(7), SIOCGIFMTU.
    """
    with suppress(OSError), interfaces.network_of(pid), socket.socket() as asking:
        row = fcntl.ioctl(asking, _SIOCGIFMTU, struct.pack("16si12x", link.encode(), 0))
        return int(struct.unpack("16si12x", row)[1])
    return 0


def fetched(pid: int, address: str, path: str, seconds: float) -> int:
    """Return how many bytes HTTP brings into the network namespace of `pid`, head and body.

    It waits at most `seconds` for each next packet, and takes what came until then.
    """
    found = 0
    with interfaces.network_of(pid):
        asking = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with asking, suppress(OSError):
        asking.settimeout(seconds)
        asking.connect((address, 80))
        asking.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        while chunk := asking.recv(1 << 16):
            found += len(chunk)
    return found


def mounts(pid: int | str = "self") -> list[mountinfo.Mount]:
    """Return the mounts that a process sees; none if it is gone."""
    with suppress(OSError):
        return mountinfo.read(pid)
    return []


def root_of_namespace(pid: int) -> tuple[int, int]:
    """Return device and inode of the root of a process's mount namespace, whatever its chroot.

    setns(2): the process that enters a mount namespace gets its root. (0, 0) if it is gone.
    """

    def inside() -> list[int]:
        namespaces.enter(f"/proc/{pid}/ns/mnt", namespaces.CLONE_NEWNS)
        root = os.stat("/")
        return [root.st_dev, root.st_ino]

    device, inode = answer_of(inside) or (0, 0)
    return device, inode


def same(found: os.stat_result | None, other: os.stat_result | os.PathLike[str]) -> bool:
    """Return True if both are the same file."""
    if found is None:
        return False
    there = os.stat(other) if isinstance(other, os.PathLike) else other
    return (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)
