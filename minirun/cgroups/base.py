"""The interface of a cgroup, the same for both versions of cgroups.

The order of a container's life: create, set_resources, set_device_rules (stage 1, by the runtime);
then init gets in, by clone_fd (CLONE_INTO_CGROUP) and by join; allow_devices
(stage 5); freeze and kill (minirun.cgroups.stopping); remove. What a record holds is enough to do
the rest from another process, also after a crash.

Why init joins by itself on version 1: writing another process's number into cgroup.procs makes the
kernel wait until no process anywhere is in the middle of a fork or exit, 5 to 20 ms on a quiet
machine. A thread that writes "0" (itself) into tasks waits for no other CPU: 0.05 ms.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod  # loaded since the interpreter's start: it costs nothing

from minirun.cgroups import tree
from minirun.core.errors import ConfigError, StateError, reason
from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from minirun.cgroups.hierarchies import Hierarchy
    from minirun.cgroups.rules import DeviceRule, Setting
    from minirun.core.keeping.container_record import CgroupRecord

_LONGEST_PATH = 1024  # bytes: with the mount in front, and files behind, PATH_MAX has to hold it
_OUT_OF_RANGE = "it is out of range, or above what the parent cgroup has"
_HINTS = {19: "no disk has this number: lsblk shows MAJ:MIN", 95: ""}  # ENODEV, EOPNOTSUPP
"""What to try where a value is refused for another reason than its size."""
REMOVE_SECONDS = 5.0
"""How long :meth:`Cgroup.remove` waits for ended processes to be gone."""


class CgroupMount(Record):
    """One mount(2) that shows a container its own cgroups; `path` is below /sys/fs/cgroup.

    `directory` is the container's own cgroup there: what a container without a cgroup namespace
    gets bound, since a new mount would show it the host's root. `hierarchy` is where all of it is
    mounted out here.
    """

    fstype: str
    path: str
    data: str
    directory: str
    hierarchy: str


class ContainerMounts(Record):
    """All that belongs at /sys/fs/cgroup in a container.

    `links` holds (target, name): version 1's cpu -> cpu,cpuacct. `tmpfs` is True if the mounts
    need a tmpfs below them; if not, there is one mount, and its path is empty.
    """

    tmpfs: bool
    mounts: tuple[CgroupMount, ...]
    links: tuple[tuple[str, str], ...]


def version_1_mounts(places: Iterable[tuple[Hierarchy, str]]) -> ContainerMounts:
    """Return a mount for each of version 1's hierarchies, and links if controllers share one.

    `places` holds each hierarchy with the container's own directory in it.
    """
    listed, links = [], []
    for hierarchy, directory in places:
        place, names = hierarchy.path.rpartition("/")[2], ",".join(hierarchy.names)
        listed.append(CgroupMount("cgroup", place, names, directory, hierarchy.path))
        links += [(place, name) for name in hierarchy.names if len(hierarchy.names) > 1]
    return ContainerMounts(True, tuple(listed), tuple(links))


class Cgroup(ABC):
    """One container's cgroup: a directory on version 2, one in each hierarchy on version 1."""

    version = 0
    takes_all_limits = False
    """True if set_resources needs all limits each time, and not only those that change."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._is_foreign = False

    @abstractmethod
    def create(self) -> None:
        """Make the cgroup, parents too; if it fails, what it made is removed.

        Raises OSError; StateError if there are processes in it already: then it is another
        container's, and this object does not touch it any more.
        """

    @abstractmethod
    def prepare_join(self) -> None:
        """Open the files that :meth:`join` writes to: in a user namespace init cannot open them."""

    @abstractmethod
    def join(self, *, cloned: bool = False, counted: bool = True) -> None:
        """Move the calling process, which must have one thread, into the cgroup. Raises OSError.

        `cloned`: it was cloned into the directory of :meth:`clone_fd`, if there is one. Without
        `counted` it stays outside of version 1's pids controller, whose limit might let it make no
        further process: its caller calls :meth:`admit` with that one.
        """

    @abstractmethod
    def admit(self, pid: int, *, whole: bool) -> None:
        """Move another process in, whatever the limit of processes is: it is for fork(2) alone.

        Not `whole`: into what :meth:`join` without `counted` has left out. Raises OSError.
        Source: the kernel's cgroup-v1/pids.rst, and cgroup-v2.rst, "PID".
        """

    def entered(self) -> None:  # noqa: B027  (few have anything to do then)
        """Called when init is ready: systemd's cgroup then ends the process that held it."""

    @abstractmethod
    def clone_fd(self) -> int:
        """Return cgroup2's directory for CLONE_INTO_CGROUP, or -1. The caller does not close it."""

    @abstractmethod
    def set_resources(self, resources: dict[str, Any]) -> None:
        """Apply config.json's linux.resources except its devices. Raises ConfigError, OSError."""

    @abstractmethod
    def set_device_rules(self, rules: Iterable[DeviceRule]) -> None:
        """Make `rules`, in their order, the only ones; what they do not allow is denied.

        On version 1 the cgroup must have no other below it. Raises ConfigError if version 1
        cannot hold the list, MinirunError, OSError.
        """

    @abstractmethod
    def allow_devices(self, rules: Iterable[DeviceRule]) -> None:
        """Add `rules` to those in force; they override them. Raises MinirunError, OSError."""

    @abstractmethod
    def effective_device_rules(self) -> list[DeviceRule]:
        """Return the rules in force, as read from the kernel now. Raises MinirunError, OSError."""

    @abstractmethod
    def _places(self) -> list[str]:
        """Return the paths of the cgroup's directories, made or not."""

    @abstractmethod
    def frozen(self) -> bool:
        """Return True if every process in the cgroup is stopped: it was frozen."""

    @abstractmethod
    def set_frozen(self, frozen: bool) -> None:
        """Ask the kernel to freeze the processes, or to let them go on. Raises OSError, StateError.

        Freezing takes a while: minirun.cgroups.stopping waits for it.
        """

    def kill_at_once(self) -> bool:
        """Kill every process in one step; False if this kernel cannot, or not in this version."""
        return False

    @abstractmethod
    def record(self) -> CgroupRecord:
        """Return what state.json keeps; minirun.cgroups.from_record makes a Cgroup of it."""

    @abstractmethod
    def mounts_for_container(self) -> ContainerMounts:
        """Return what to mount at /sys/fs/cgroup in the container, after it is in the cgroup.

        Only hierarchies in which it has a cgroup of its own: of any other one it would see the
        root, with the host's cgroups and release_agent (CVE-2022-0492).
        """

    @abstractmethod
    def close(self) -> None:
        """Close the descriptors that this object holds."""

    def directories(self) -> list[str]:
        """Return the paths of the cgroup's directories, made or not; none if it is another's."""
        return [] if self._is_foreign else self._places()

    def refuse_occupied(self, directory: str) -> None:
        """Raise StateError if a directory that was there already has processes in it."""
        pids = tree.processes(directory)
        if pids:
            self._is_foreign = True
            raise StateError(
                f"linux.cgroupsPath: {self.path}: container's cgroup is not empty:"
                f" {len(pids)} processes are in it already, such as {pids[0]}",
                "give each container a cgroup of its own",
            )

    def _freezer(self) -> str:
        """Return the directory, made or not, whose state says whether processes are frozen."""
        return ""

    def refuse_frozen(self) -> None:
        """Raise StateError if the cgroup, or one above it, is frozen: init would never begin.

        This object does not touch the cgroup then. runc refuses it too.
        """
        place, path, frozen = self._freezer(), self.path, None
        mount = place.removesuffix(path)
        while place and path and frozen is None:
            frozen = tree.is_frozen(mount + path)
            if frozen:
                self._is_foreign = True
                file = "0 to cgroup.freeze" if self.version == 2 else "THAWED to freezer.state"
                text = f"container's cgroup unexpectedly frozen: {mount}{path}"
                text = f"linux.cgroupsPath: {self.path}: {text}"
                raise StateError(text, f"write {file} there, or choose another cgroup")
            path = path.rpartition("/")[0]

    def exists(self) -> bool:
        """Return True if any directory of the cgroup is there."""
        return any(map(os.path.isdir, self.directories()))

    def processes(self) -> list[int]:
        """Return the processes in the cgroup and in those below it, by number."""
        found = (tree.processes(directory) for directory in self.directories())
        return sorted({pid for pids in found for pid in pids})

    def remove(self, seconds: float = REMOVE_SECONDS) -> None:
        """Remove the cgroup and all below it; one that is gone is fine.

        /minirun, the parent, goes with its last container. Raises StateError if processes are still
        in it after `seconds`; OSError.
        """
        self.close()  # descriptors may be few: what comes next needs some
        tree.remove(self.directories(), seconds)
        for directory in self.directories():
            tree.remove_own_parent(directory.removesuffix(self.path), self.path)


def checked_path(path: str) -> str:
    """Return config.json's linux.cgroupsPath as "/a/b", from the mount's root on.

    A relative path is taken from there as well, as crun does. Raises ConfigError.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    where, hint = f"linux.cgroupsPath: {path!r}", "use a path such as /minirun/NAME"
    if ".." in parts or "\0" in path or "\n" in path:
        raise ConfigError(f"{where} must not contain .. or control characters", hint)
    if not parts:
        raise ConfigError(f"{where} is the root of all cgroups", hint)
    checked = "/" + "/".join(parts)
    if len(checked.encode()) > _LONGEST_PATH or any(len(part.encode()) > 255 for part in parts):
        text = f"linux.cgroupsPath: {checked[:40]}… is too long"
        raise ConfigError(text, f"at most 255 bytes a name, {_LONGEST_PATH} in all")
    return checked


def _write(setting: Setting, directory: tree.Dir) -> None:
    """Write a setting, or its `otherwise` if the file is missing. Raises OSError."""
    try:
        directory.write(setting.file, setting.value, setting.origin)
    except FileNotFoundError:
        if setting.otherwise is None:
            raise
        _write(setting.otherwise, directory)


def apply(settings: Sequence[Setting], directories: dict[str, tree.Dir]) -> None:
    """Write `settings` to the directory of each one's controller. Raises ConfigError.

    Some files check each other (memory against memory and swap, quota against period), and which
    one has to go first depends on what is in them: what is refused is tried again after the rest.
    """
    refused: list[Setting] = []
    for last_try in (False, True):
        todo, refused = refused if last_try else list(settings), []
        for setting in todo:
            try:
                _write(setting, directories[setting.controller])
            except FileNotFoundError:
                if setting.optional:
                    continue
                raise ConfigError(
                    f"{setting.origin}: this kernel has no {setting.file}",
                    "take it out of config.json",
                ) from None
            except OSError as error:
                refused.append(setting)
                if last_try:
                    text = f"{setting.value!r} for {error.filename}: {reason(error)}"
                    hint = _HINTS.get(error.errno or 0, _OUT_OF_RANGE)
                    raise ConfigError(
                        f"{setting.origin}: the kernel refuses {text}", hint
                    ) from None
