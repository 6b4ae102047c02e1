"""The mounted cgroup file systems, the cgroups of a process in them, and moving to these.

cgroups(7): version 1 mounts one hierarchy per controller (or for a few together, "cpu,cpuacct"),
version 2 one for all; a controller belongs to either side, and a hybrid machine has both, version 2
then often without a single controller. runc and crun read it out of /proc/self/mountinfo too.

A program that works on a container's files is the container's work: its memory limit holds for the
program, and what kills the container's cgroup kills the program. So the program joins the
cgroups of the container's process, whichever runtime made them.
"""

from minirun.cgroups import tree
from minirun.common import mountinfo
from minirun.core import events
from minirun.core.record import Record

_CONTROLLERS = (
    "blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "misc",
    "net_cls", "net_prio", "perf_event", "pids", "rdma",
)  # fmt: skip
_USUAL_PLACE = "/sys/fs/cgroup/"
_WHY = "what works on the container's files is in the container's cgroup"
_REFUSED = "this user may not move a process there"


class Hierarchy(Record):
    """One mounted hierarchy.

    `version` is 1 or 2; `names` holds version 1's controllers and name=…, empty for version 2.
    """

    path: str
    version: int
    names: "tuple[str, ...]"


def mounted() -> "list[Hierarchy]":
    """Return the hierarchies mounted in this mount namespace, each controller once."""
    return hierarchies_of(mountinfo.read(fs_type="cgroup"))


def hierarchies_of(mounts: "list[mountinfo.Mount]") -> "list[Hierarchy]":
    """Return the hierarchies among the mounts of cgroup file systems.

    If a hierarchy is mounted twice, the mount below /sys/fs/cgroup is taken, or else the first.
    """
    found: "dict[tuple[str, ...], Hierarchy]" = {}
    for mount in mounts:
        options, path = mount.super_options.split(","), mount.mount_point
        is_v1 = mount.fs_type != "cgroup2"
        names = tuple(o for o in options if is_v1 and (o in _CONTROLLERS or o.startswith("name=")))
        known = found.get(names)
        if not known or (path.startswith(_USUAL_PLACE) > known.path.startswith(_USUAL_PLACE)):
            found[names] = Hierarchy(path, 1 if names else 2, names)
    return list(found.values())


def paths_of(pid: "int | str") -> "dict[str, str]":
    """Return a process's cgroup in each hierarchy: controllers ("" for version 2) → path.

    cgroups(7), "/proc files". Raises OSError.
    """
    with open(f"/proc/{pid}/cgroup", "rb") as file:
        lines = file.read().decode(errors="surrogateescape").split("\n")
    rows = [line.split(":", 2) for line in lines if line]
    return {names: path for _, names, path in rows}


class Entrance:
    """The way into the cgroups of a process, for one that works on the files of its container.

    All is opened outside: its user may be in the container's mount namespace by then, where paths
    are the container's. On version 2 a process is cloned into the cgroup (clone3(2),
    CLONE_INTO_CGROUP): a write to cgroup.procs makes the kernel wait until no process anywhere is
    in the middle of a fork or exit, 10 to 20 ms. On version 1 a thread that moves itself makes it
    wait for no other process.
    """

    def __init__(self, pid: int) -> None:
        """Open those cgroups of `pid` in which this process is not. Raises OSError."""
        from minirun.core.kernel import namespaces  # not above: start, kill and delete need none

        self._clone3 = namespaces.clone3
        self._into = -1
        self._tasks: "list[tree.Dir]" = []
        own, other = paths_of("self"), paths_of(pid)
        places = {name: h for h in mounted() for name in h.names or ("",)} if own != other else {}
        for names, path in other.items():
            hierarchy = places.get(names.split(",")[0])
            if hierarchy is None or own.get(names) == path:
                continue
            directory = tree.Dir(hierarchy.path + path.rstrip("/"))
            if hierarchy.version == 2:
                self._into = directory.fd()
            else:
                directory.fd()
                self._tasks.append(directory)

    def clone3(self, flags: int, *, why: str) -> "tuple[int, int]":
        """Clone this process into version 2's cgroup: minirun.core.kernel.namespaces.clone3.

        If a user without privileges may not do it, the child stays outside, and the log says so.
        Raises OSError.
        """
        try:
            return self._clone3(flags, cgroup_fd=self._into, why=why)
        except PermissionError:
            if self._into < 0:
                raise
            _emit_not_joined("cgroup2")
            return self._clone3(flags, why=why)

    def join(self) -> None:
        """In the child, of one thread: move into version 1's cgroups. Raises OSError."""
        for directory in self._tasks:
            try:
                directory.write("tasks", "0", _WHY)
            except PermissionError as error:
                _emit_not_joined(error.filename)
            directory.close()


def _emit_not_joined(path: str) -> None:
    events.emit("note", "cgroup not joined", {"path": path}, why=_REFUSED)
