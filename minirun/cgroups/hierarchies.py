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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CONTROLLERS = (
    "blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "misc",
    "net_cls", "net_prio", "perf_event", "pids", "rdma",
)  # fmt: skip
_USUAL_PLACE = "/sys/fs/cgroup/"
_WHY = "what works on the container's files is in the container's cgroup"


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


def entrance(pid: int) -> "Callable[[], None]":
    """Return a function that moves its caller, a process of one thread, into the cgroups of `pid`.

    All that it needs is imported by now: its caller may be in the container then. If a user without
    privileges may not do it, the process stays, and the log says so. The function raises OSError.
    """
    return lambda: _join(pid)


def _join(pid: int) -> None:
    own, other = paths_of("self"), paths_of(pid)
    if own == other:
        return
    places = {name: h for h in mounted() for name in h.names or ("",)}
    for names, path in other.items():
        hierarchy = places.get(names.split(",")[0])
        if hierarchy is None or own.get(names) == path:
            continue
        # version 1: a thread that moves itself makes the kernel wait for no other process
        file = "tasks" if hierarchy.version == 1 else "cgroup.procs"
        directory = tree.Dir(hierarchy.path + path.rstrip("/"))
        try:
            directory.write(file, "0", _WHY)
        except PermissionError as error:
            why = "this user may not move a process there"
            events.emit("note", "cgroup not joined", {"path": error.filename}, why=why)
        finally:
            directory.close()
