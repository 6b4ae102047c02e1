"""The cgroup of a container whose runtime has no privileges: a delegated one, or none.

What the kernel's documentation says (cgroup-v2.rst, "Delegation"): an administrator gives a user
write access to a cgroup's directory, its cgroup.procs and cgroup.subtree_control; systemd does so
for its user services and scopes. A process can be moved below such a cgroup by its user only from
within it. So the container's is made beside the caller's own, or below it.

What cannot work: version 1 is not safe to delegate, says the same document, and is not tried. A
device program needs CAP_BPF, so the rules of config.json are not kept; what the container can open
is what the caller could. Without any cgroup a limit is an error, as with runc; a container that
asks for none runs, is killed as a whole by the end of its pid namespace, and cannot be paused. What
it sees at /sys/fs/cgroup are the caller's own cgroups, where it stays.
"""

from __future__ import annotations

import os

from minirun.cgroups import hierarchies, ruleset
from minirun.cgroups.base import (
    Cgroup,
    CgroupMount,
    ContainerMounts,
    checked_path,
    version_1_mounts,
)
from minirun.cgroups.moved import BOOTED, MovedByManager
from minirun.common import processes
from minirun.core import events
from minirun.core.errors import ConfigError, StateError
from minirun.core.keeping import state
from minirun.core.keeping.visible import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from minirun.cgroups.rules import DeviceRule
    from minirun.core.keeping.container_record import CgroupRecord, ProcessIdentity

_NEEDED = ("", "/cgroup.procs", "/cgroup.subtree_control")


def open_cgroup(path: str, *, named: bool) -> Cgroup:
    """Return the cgroup of a container that is to be made, by a caller without privileges.

    `named`: config.json has `path`, from the top of cgroup2; else this function chooses the parent.
    Raises ConfigError for a bad path.
    """
    path = checked_path(path)
    place, reason = _find_place(path, named=named)
    return Delegated(path, place) if place else NoCgroup(path, reason, named=named)


def advice() -> str:
    """Return what a user does who may make no cgroup."""
    if os.path.isdir(BOOTED):
        return "minirun --systemd-cgroup … asks your own systemd for one, from a login of yours"
    return "root can give you a directory of cgroup2 by chown, and move your shell into it"


def may_make() -> bool:
    """Return True if the caller may make cgroups beside its own, or below it."""
    return bool(_find_place("", named=False)[0])


def from_record(record: CgroupRecord, init: ProcessIdentity | None) -> Cgroup:
    """See :func:`minirun.cgroups.from_record`."""
    if record["version"] == 0:
        return NoCgroup(record["path"], record["reason"], init=init)
    return Delegated(record["path"], record["dirs"][""].removesuffix(record["path"]))


def _find_place(path: str, *, named: bool) -> tuple[str, str]:
    """Return the directory that `path` begins in; or "" and the reason."""
    mount = hierarchies.version_2()
    if not mount:
        return "", "no cgroup2 is mounted, and version 1 cannot be delegated"
    if named:
        above = mount + path.rpartition("/")[0]
        while not os.path.isdir(above):
            above = above.rpartition("/")[0]
        refused = _refused(above)
        return ("", refused) if refused else (mount, "")
    own = hierarchies.paths_of("self").get("", "/")
    if ".." in own.split("/"):
        return "", f"one's own cgroup, {own}, lies outside of the mount at {mount}"
    own = (mount + own).rstrip("/")
    beside = own.rpartition("/")[0]
    places = (beside, own) if beside.startswith(mount) else (own,)
    place = next((each for each in places if not _refused(each)), "")
    return (place, "") if place else ("", _refused(own))


def _refused(directory: str) -> str:
    """Return which file of a cgroup may not be written; empty if all may."""
    for name in _NEEDED:
        if not os.access(directory + name, os.W_OK):
            return f"{directory}{name} may not be written"
    return ""


class WithoutDeviceRules:
    """What takes the place of device rules, of which a caller without privileges can set none."""

    def warn_of(self, resources: dict[str, Any], reason: str) -> None:
        """Warn that the rules of config.json are not kept, if it has any."""
        if resources.get("devices"):
            text = f"config.json: linux.resources.devices: is not kept without root: {reason}"
            events.emit("note", "warning", {"text": text}, why="the container runs without it")
            warn(text)

    def set_device_rules(self, rules: Iterable[DeviceRule]) -> None:
        """Do nothing: :meth:`set_resources` has warned of it."""

    def allow_devices(self, rules: Iterable[DeviceRule]) -> None:
        """Do nothing: no device is denied."""

    def effective_device_rules(self) -> list[DeviceRule]:
        """Return a rule that allows all: only the nodes' own permissions count."""
        return [ruleset.ALL]


class Delegated(WithoutDeviceRules, MovedByManager):
    """A cgroup2 that belongs to the caller: everything but device rules."""

    def set_resources(self, resources: dict[str, Any]) -> None:
        """Write each limit that has a controller here."""
        super().set_resources(resources)
        self.warn_of(resources, "a device program needs CAP_BPF")

    def record(self) -> CgroupRecord:
        """Return the record of a plain cgroup, marked as `rootless`."""
        return {**super().record(), "rootless": True}

    def mounts_for_container(self) -> ContainerMounts:
        """Return the one mount; its hierarchy is the whole tree, not the caller's part of it."""
        row = CgroupMount("cgroup2", "", "", self._dir.path, hierarchies.version_2() or self._mount)
        return ContainerMounts(False, (row,), ())


class NoCgroup(WithoutDeviceRules, Cgroup):
    """In place of a cgroup, if the caller may make none: the processes of init's pid namespace."""

    def __init__(
        self,
        path: str,
        reason: str,
        *,
        named: bool = False,
        init: ProcessIdentity | None = None,
    ) -> None:
        super().__init__(path)
        self.reason = reason
        self._named = named
        self._init = init

    def create(self) -> None:
        """Make nothing. Raises ConfigError if config.json names the cgroup."""
        if self._named:
            where = f"config.json: linux.cgroupsPath: {self.path}"
            raise ConfigError(f"{where}: cannot be made: {self.reason}", advice())
        why = "so nothing is counted, limited or paused; the pid namespace holds them together"
        events.emit("note", "no cgroup", {"reason": self.reason}, why=why)

    def set_resources(self, resources: dict[str, Any]) -> None:
        """Raise ConfigError for a limit; warn that device rules are not kept."""
        limits = [key for key, value in resources.items() if key != "devices" and value]
        if limits:
            where = f"config.json: linux.resources.{limits[0]}"
            text = f"there is no cgroup to limit it: {self.reason}"
            raise ConfigError(f"{where}: {text}", advice())
        self.warn_of(resources, "there is no cgroup")

    def prepare_join(self) -> None:
        """Do nothing: there is no file to open."""

    def join(self, *, cloned: bool = False, counted: bool = True) -> None:
        """Do nothing: there is no cgroup to join."""

    def admit(self, pid: int, *, whole: bool) -> None:
        """Do nothing, too."""

    def clone_fd(self) -> int:
        """Return -1: there is no directory."""
        return -1

    def _places(self) -> list[str]:
        return []

    def exists(self) -> bool:
        """Return True if a process of the container lives."""
        return bool(self.processes())

    def processes(self) -> list[int]:
        """Return init, and all in its pid namespace if that is its own: init is number 1 there."""
        if not self._init or not state.is_alive(self._init):
            return []
        pid = self._init["pid"]
        theirs = _pid_namespace(pid)
        if theirs in (_pid_namespace("self"), 0) or not _is_first(pid):
            return [pid]  # others live there: the caller's processes, or those of a pod
        return sorted(each for each in processes.pids() if _pid_namespace(each) == theirs)

    def remove(self, seconds: float = 0) -> None:
        """Remove nothing: all goes with init, which minirun.core.endings.destroy kills."""

    def frozen(self) -> bool:
        """Return False: without a cgroup nothing can be frozen."""
        return False

    def set_frozen(self, frozen: bool) -> None:
        """Raise StateError."""
        text = f"a container without a cgroup cannot be paused: {self.reason}"
        raise StateError(text, advice())

    def record(self) -> CgroupRecord:
        """Return the record of no cgroup, with the reason."""
        return {
            "version": 0, "path": self.path, "dirs": {}, "reason": self.reason, "rootless": True,
        }  # fmt: skip

    def mounts_for_container(self) -> ContainerMounts:
        """Return the caller's own cgroups, in which the container is: as runc shows them."""
        paths = hierarchies.paths_of("self").items()
        own = {name: path for names, path in paths for name in names.split(",")}
        ones: list[tuple[hierarchies.Hierarchy, str]] = []
        two: list[CgroupMount] = []
        for hierarchy in hierarchies.mounted():
            name = hierarchy.names[0] if hierarchy.names else ""
            directory = hierarchy.path + own.get(name, "/").rstrip("/")
            if ".." in directory.split("/") or not os.path.isdir(directory):
                directory = hierarchy.path  # in a container its mount shows no more than its own
            if hierarchy.version == 1:
                ones.append((hierarchy, directory))
            else:
                two.append(CgroupMount("cgroup2", "", "", directory, hierarchy.path))
        return version_1_mounts(ones) if ones else ContainerMounts(False, tuple(two), ())

    def close(self) -> None:
        """Do nothing: no descriptor is open."""


def _is_first(pid: int) -> bool:
    """Return True if a process is number 1 in its pid namespace: proc_pid_status(5), NSpid."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            numbers = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
    except OSError:
        return False
    return numbers[-1:] == ["1"]


def _pid_namespace(pid: str | int) -> int:
    """Return the number of a process's pid namespace; 0 if the caller may not read it."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0
