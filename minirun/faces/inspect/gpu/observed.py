"""Which nodes, rules and mounts of its GPUs a running container has now: asked of the kernel.

Nodes are looked at below a descriptor of the container's root, as the container sees them; mounts
in its mount namespace; rules are the cgroup's. A file that the host has
deleted under a mount is marked //deleted there.
"""

import os
import stat
from collections.abc import Collection
from contextlib import closing

from minirun.cgroups import reading
from minirun.cgroups.rules import DeviceRule
from minirun.core.keeping.record import Record
from minirun.core.kernel import mountinfo
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import has
from minirun.faces.inspect.gpu import loading
from minirun.faces.inspect.gpu.loading import ObservedLoading
from minirun.gpu.driverroot import PROC
from minirun.gpu.edits import Edits
from minirun.gpu.nvidia.cli import musl, planner
from minirun.gpu.steps import DeviceNode

_CAP_DAC_OVERRIDE = 1


class ContainerUser(Record):
    """The user as which the container's command opens files, in ids of the host."""

    uid: int
    groups: frozenset[int]
    overrides_modes: bool
    """It has CAP_DAC_OVERRIDE in the host's user namespace."""


class ObservedNode(Record):
    """A device node that was given: which, with what access; and what has become of it."""

    path: str
    kind: str
    major: int
    minor: int
    given: str
    found: str
    """What is there in the container, as in "c 195:0"; empty for nothing."""
    host: str
    """What the host has at the path that it came from; empty if it came from none."""
    access: str | None
    """What the cgroup allows of it now, out of "rwm"; None if the kernel cannot say."""
    closed: str = ""
    """The owner and mode that keep the command's user out, and who that is; empty for none."""


class ObservedGpus(Record):
    """The nodes, rules and mounts of its GPUs that a running container has now."""

    nodes: tuple[ObservedNode, ...]
    rules: list[DeviceRule] | None
    expected: tuple[str, ...]
    """Mount points that were given."""
    mounted: frozenset[str]
    deleted: frozenset[str]
    """Mount points whose file the host has no more."""
    hiding: tuple[str, ...] = ()
    """The image's own files that hide the driver's libraries."""
    shows_driver: bool = True
    """The container sees /proc/driver/nvidia/version."""
    misfit: str = ""
    """Why the image's programs cannot load the driver's libraries: musl."""
    loading: ObservedLoading = ObservedLoading()
    closed_mounts: tuple[str, ...] = ()
    """The mount points that the nodes lie on, and on which none can be opened: nodev."""

    @property
    def mounts(self) -> int:
        """How many of the given mounts are still there."""
        return sum(path in self.mounted for path in self.expected)


def observe(
    pid: int, edits: Edits, rules: list[DeviceRule] | None, library_path: str = ""
) -> ObservedGpus:
    """Return what the container of `pid` has of `edits`. Raises OSError if it has ended.

    `library_path` is the LD_LIBRARY_PATH of its command.
    """
    points = {mount.mount_point: mount for mount in mountinfo.read(pid)}
    user = _user_of(pid)
    with closing(Root.at(f"/proc/{pid}/root")) as root:
        nodes = tuple(_node(root, node, rules, user) for node in edits.device_nodes)
        shows_driver = has(root, f"{PROC}/version")
        expected = tuple(_real(root, mount.path) for mount in edits.mounts)
        hiding = tuple(planner.own_libraries(root, edits))
        misfit = musl.misfit(root, edits)
        found = loading.observe(root, pid, edits, library_path)
    gone = frozenset(path for path, at in points.items() if at.root.endswith("//deleted"))
    below = {_mount_point(node.path, points) for node in edits.device_nodes if node.path}
    closed = [path for path in sorted(below) if "nodev" in points[path].options.split(",")]
    return ObservedGpus(
        nodes, rules, expected, frozenset(points), gone, hiding, shows_driver, misfit, found,
        tuple(closed),
    )  # fmt: skip


def _mount_point(path: str, points: Collection[str]) -> str:
    """Return the mount point that a path lies on."""
    while path not in points and path != "/":
        path = os.path.dirname(path)
    return path


def _user_of(pid: int) -> ContainerUser:
    """Return the user as which a process opens files: proc_pid_status(5). Raises OSError."""
    with open(f"/proc/{pid}/status", errors="replace") as file:
        rows = dict(line.split(":", 1) for line in file)
    groups = frozenset(map(int, (*rows["Groups"].split(), rows["Gid"].split()[3])))
    own = os.stat(f"/proc/{pid}/ns/user").st_ino == os.stat("/proc/self/ns/user").st_ino
    override = own and int(rows["CapEff"], 16) >> _CAP_DAC_OVERRIDE & 1
    return ContainerUser(int(rows["Uid"].split()[3]), groups, bool(override))


def _closed(status: os.stat_result, user: ContainerUser) -> str:
    """Return what keeps `user` from reading and writing a node; empty for nothing."""
    mode = stat.S_IMODE(status.st_mode)
    shift = 6 if user.uid == status.st_uid else 3 if status.st_gid in user.groups else 0
    if user.overrides_modes or mode >> shift & 0o6 == 0o6:
        return ""
    owner = f"mode {mode:o}, user {status.st_uid}, group {status.st_gid}"
    return f"{owner}; the command is user {user.uid} of {', '.join(map(str, sorted(user.groups)))}"


def _node(
    root: Root, given: DeviceNode, rules: list[DeviceRule] | None, user: ContainerUser
) -> ObservedNode:
    path, kind, major, minor = given[:4]
    found = closed = ""
    try:
        fd = root.open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        pass
    else:
        status = os.fstat(fd)
        os.close(fd)
        found, closed = _numbers_of(status), _closed(status, user)
    host = ""
    if given.host_path:
        try:
            host = _numbers_of(os.stat(given.host_path))
        except OSError:
            host = "nothing"
    access = None if rules is None else reading.access(rules, kind, major, minor)
    permissions = given.permissions or "rwm"
    return ObservedNode(path, kind, major, minor, permissions, found, host, access, closed)


def _numbers_of(status: os.stat_result) -> str:
    kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(status.st_mode))
    return f"{kind} {os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if kind else "no device"


def _real(root: Root, path: str) -> str:
    """Return `path` without the links of the image's folders, as mountinfo has it."""
    folder, _, name = path.rpartition("/")
    try:
        fd = root.open(folder or "/", os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return path
    try:
        top = os.readlink(f"/proc/self/fd/{root.fd}")
        real = os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
    inside = real.removeprefix(top.rstrip("/"))
    return f"{inside.rstrip('/')}/{name}"
