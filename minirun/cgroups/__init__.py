"""Control groups: what a container may use, and which devices it may open.

One interface (:class:`Cgroup`), two kernels' ideas behind it: v1.py writes files in one hierarchy
per controller, v2.py one directory and an eBPF program. config.json's linux.cgroupsPath names the
cgroup, linux.resources its limits and device rules (runtime-spec, config-linux.md).

minirun makes them itself, as runc's "cgroupfs" driver does; with --systemd-cgroup it has systemd
make them, over D-Bus: minirun.cgroups.systemd, imported only then.

    rules         records: device rules, and values for files
    ruleset       what a list of device rules means; reading: the same, as text
    resources     linux.resources as files and values of either version
    perdevice     blockIO, hugepageLimits, network, rdma: one value for each device
    base          the interface, Cgroup
    v1, v2        the two versions of cgroups
    devicefilter  the eBPF program of version 2, assembled; bpf: bpf(2) itself
    systemd       the cgroup as a scope of systemd's
    delegated     the cgroup of a user without root; moved: the way into it from another place
    tree          directories of a cgroup file system: make, write, read, remove
    hierarchies   which cgroup file systems are mounted, and where a process is in them
    entrance      the way into a process's cgroup; foreign: one that another runtime made
    below         the cgroup of a command of `exec`
    stopping      freeze, kill and clear a cgroup
    stats, oom    what a cgroup has used; out of memory
"""

from __future__ import annotations

import os

from minirun.cgroups import hierarchies, tree
from minirun.cgroups.base import Cgroup as Cgroup
from minirun.cgroups.base import ContainerMounts as ContainerMounts
from minirun.cgroups.base import checked_path
from minirun.cgroups.rules import container_rules
from minirun.common import docker_record
from minirun.core import events
from minirun.core.errors import ConfigError, MinirunError
from minirun.core.lazy import lazy

with lazy:
    from minirun.cgroups import delegated, systemd, v1, v2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.config import Config
    from minirun.core.container import Container
    from minirun.core.keeping.container_record import CgroupRecord, ProcessIdentity
    from minirun.core.keeping.settings import Settings

_PURE_V2 = "/sys/fs/cgroup/cgroup.controllers"


def cgroup_of(container: Container) -> Cgroup:
    """Return a container's cgroup, of which the core knows only what the stages call.

    Raises ConfigError, MinirunError, OSError.
    """
    cgroup: Any = container.cgroup
    whole: Cgroup = cgroup
    return whole


def open_for(container: Container) -> Cgroup:
    """Open a container's cgroup: the one in its record, else the one that is to be made.

    Raises ConfigError, MinirunError, OSError.
    """
    record, settings = container.record, container.settings
    saved, path = record.cgroup, record.cgroup_path
    version = settings.cgroup_version
    if saved:
        return from_record(saved, record.init)
    if record.systemd_cgroup:
        return open_scope(path, version, of_user=container.unprivileged)
    if container.unprivileged and version != "v1" and settings.rootless != "false":
        return delegated.open_cgroup(path, named=bool(container.config.cgroups_path))
    return open_cgroup(path, version)


def make(container: Container) -> None:
    """Create the container's cgroup, with its limits and device rules, before any process is in it.

    Raises ConfigError, MinirunError, OSError.
    """
    cgroup = cgroup_of(container)
    resources = container.config.resources
    cgroup.refuse_frozen()
    cgroup.create()
    _set_limits(container, resources)
    cgroup.set_device_rules(container_rules(resources.get("devices") or []))
    if cgroup.version == 2 and not container.unprivileged and _may_be_written(container.config):
        tree.set_owner(cgroup.directories()[0], _user_on_the_host(container.config))
    cgroup.prepare_join()
    # until it is saved, its path is in the record
    container.record = container.record._replace(cgroup=cgroup.record())


def _may_be_written(config: Config) -> bool:
    """Return True if a container sees only its own cgroups, and has them mounted to write."""
    rows = config.raw.get("mounts") or ()
    return config.new_namespace("cgroup") and any(
        row.get("type") in ("cgroup", "cgroup2") and "ro" not in (row.get("options") or ())
        for row in rows
    )


def _user_on_the_host(config: Config) -> int:
    """Return the number that process.user has outside the container's user namespace; -1 for none.

    (To chown(2), -1 means no change.)
    """
    uid = int((config.process.get("user") or {}).get("uid", 0))
    if "user" not in config.namespaces:
        return uid
    for row in config.linux.get("uidMappings") or ():
        if 0 <= uid - row["containerID"] < row["size"]:
            return int(row["hostID"] + uid - row["containerID"])
    return -1


def _set_limits(container: Container, resources: dict[str, Any]) -> None:
    """Set the limits; leave out the default limit of processes if it cannot be set.

    Raises ConfigError, OSError.
    """
    try:
        cgroup_of(container).set_resources(resources)
    except ConfigError as error:
        if not docker_record.of(container.record).default_pids_limit:
            raise
        rest = {name: value for name, value in resources.items() if name != "pids"}
        cgroup_of(container).set_resources(rest)
        docker = docker_record.of(container.record)._replace(pids_unlimited=True)
        container.record = docker_record.put(container.record, docker)
        why = f"it is a mere default: {error}"
        events.emit("note", "no limit of processes", {"limit": resources["pids"]["limit"]}, why=why)


def open_cgroup(path: str, version: str = "auto") -> Cgroup:
    """Return the cgroup `path` (linux.cgroupsPath), made or not.

    `version` is v1, v2 or auto: cgroup2 if it is mounted at /sys/fs/cgroup, else v1 if it has
    a devices hierarchy, else cgroup2 wherever it is mounted. Raises ConfigError for a bad path,
    MinirunError if no such file system is mounted.
    """
    path = checked_path(path)
    if version == "auto" and os.path.exists(_PURE_V2):
        return _v2(path, "/sys/fs/cgroup")
    mounted = hierarchies.mounted()
    ones = [h for h in mounted if h.version == 1]
    two = next((h.path for h in mounted if h.version == 2), "")
    if version == "auto":
        version = "v1" if any("devices" in h.names for h in ones) or not two else "v2"
    if version == "v1" and ones:
        return v1.CgroupV1(path, mounted)
    if version == "v2" and two:
        return _v2(path, two)
    raise MinirunError(
        f"cgroup {version}: no such file system is mounted in this mount namespace",
        "mount -t cgroup2 cgroup2 /sys/fs/cgroup, or choose the other version",
    )


def open_scope(cgroups_path: str, version: str, *, of_user: bool = False) -> Cgroup:
    """Return the cgroup of the systemd scope slice:prefix:name, made or not.

    `of_user`: a scope of the caller's own manager, on version 2. Raises ConfigError, MinirunError.
    """
    path, slice_name, scope = systemd.locate(cgroups_path, of_user=of_user)
    plain = open_cgroup(path, "v2" if of_user else version).record()
    if of_user:
        plain["rootless"] = True
    return systemd.from_record({**plain, "slice": slice_name, "scope": scope})


def users_manager_makes_it(settings: Settings, *, bundle: bool) -> bool:
    """Return True if the cgroup of a user's new container is to be a scope of the user's manager.

    From a login a user can make no cgroup without that manager, and podman asks it. A `bundle` has
    none there, as with runc; but it has one if the caller is in a unit of the manager's, since the
    slices above that are systemd's own. A cgroup that another has given to the caller is used.
    """
    if settings.cgroup_version == "v1" or settings.rootless == "false":
        return False
    top = systemd.find_users_top()
    if not (top and hierarchies.version_2()):
        return False
    return hierarchies.is_below("self", top) if delegated.may_make() else not bundle


def from_record(record: CgroupRecord, init: ProcessIdentity | None = None) -> Cgroup:
    """Return the cgroup that :meth:`Cgroup.record` described, from state.json.

    `init` is the identity of the container's init: without a cgroup, it leads to the processes.
    """
    if record.get("scope"):
        return systemd.from_record(record)
    if record.get("rootless"):
        return delegated.from_record(record, init)
    if record["version"] == 2:
        return _v2(record["path"], record["dirs"][""].removesuffix(record["path"]))
    return v1.CgroupV1(record["path"], hierarchies.mounted(), record["dirs"])


def _v2(path: str, mount: str) -> Cgroup:
    """Return version 2's cgroup `path`; `mount` is where its file system is."""
    return v2.CgroupV2(path, mount)
