"""cgroup version 1: one hierarchy per controller, and the device list as files.

cgroups(7); Documentation/admin-guide/cgroup-v1/. A container has a directory in each
hierarchy that is mounted, as runc's have, so that other tools find it there, or limit it later. On
a hybrid host it has one in cgroup2 too, without controllers: init is cloned into that.

The devices controller (devices.rst): a write of "a" to devices.deny denies all, then each write to
devices.allow permits some, one rule a write; devices.list has the rules in force. A new cgroup has
its parent's rules, so /minirun, the parent, keeps everything allowed.
"""

from __future__ import annotations

import os

from minirun.cgroups import ruleset, tree
from minirun.cgroups.base import Cgroup, ContainerMounts, apply, version_1_mounts
from minirun.core.errors import ConfigError, MinirunError, StateError
from minirun.core.lazy import lazy

with lazy:
    from minirun.cgroups import resources as oci

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from minirun.cgroups.hierarchies import Hierarchy
    from minirun.cgroups.rules import DeviceRule
    from minirun.core.keeping.container_record import CgroupRecord

_UNIFIED = "/sys/fs/cgroup/unified"
"""The mount point of cgroup2 on a hybrid host, as runc and systemd have it."""
_WHY_JOIN = "if a thread moves itself, the kernel need not wait for the other CPUs"


class CgroupV1(Cgroup):
    """A container's directories in the hierarchies of version 1."""

    version = 1

    def __init__(
        self,
        path: str,
        hierarchies: Sequence[Hierarchy],
        dirs: dict[str, str] | None = None,
    ) -> None:
        super().__init__(path)
        self._mounts = {name: h for h in hierarchies for name in h.names}
        self._dirs: dict[str, tree.Dir] = {}  # by path
        self._joined: dict[str, tree.Dir] = {}  # by controller; some are mounted together
        self._join_files: list[tuple[int, str]] = []
        is_hybrid = any(hierarchy.path == _UNIFIED for hierarchy in hierarchies)
        self._unified = tree.Dir(_UNIFIED + path) if is_hybrid else None
        if dirs is None:
            dirs = {name: h.path + path for name, h in self._mounts.items()}
        for name, directory in dirs.items():
            self._joined[name] = self._dirs.setdefault(directory, tree.Dir(directory))

    def create(self) -> None:
        """Make a directory in each hierarchy that is wanted."""
        made: list[str] = []
        try:
            for directory in [*self._dirs, *self._hybrid()]:
                self._make(directory, made)
        except (OSError, StateError):
            tree.remove(made, 0)
            raise

    def _make(self, directory: str, made: list[str]) -> None:
        """Make one directory, and append it to `made` if it is new."""
        mount = directory.removesuffix(self.path)
        names = ",".join(name for name in self._joined if self._joined[name].path == directory)
        if tree.make(mount, self.path, f"the container's cgroup for {names or 'cgroup2'}"):
            made.append(directory)
        else:
            self.refuse_occupied(directory)
        if "cpuset" in names.split(","):
            self._inherit_cpuset(mount)

    def _inherit_cpuset(self, mount: str) -> None:
        """Fill empty cpuset.cpus and cpuset.mems from the parent: empty ones take no process."""
        inherited: dict[str, str] = {}
        path = mount
        for part in ["", *self.path.split("/")[1:]]:
            path = f"{path}/{part}" if part else mount
            level = tree.Dir(path)
            try:
                for file in ("cpuset.cpus", "cpuset.mems"):
                    value = level.read(file).strip()
                    if not value:
                        value = inherited[file]
                        level.write(file, value, "from the parent: an empty one takes no process")
                    inherited[file] = value
            finally:
                level.close()

    def prepare_join(self) -> None:
        """Open the file tasks in every hierarchy."""
        for directory in () if self._join_files else self._dirs.values():
            fd = directory.open("tasks", os.O_WRONLY)
            self._join_files.append((fd, f"{directory.path}/tasks"))

    def join(self, *, cloned: bool = False, counted: bool = True) -> None:
        """Write 0 into every tasks file, and into cgroup.procs of cgroup2."""
        self.prepare_join()
        apart = "" if counted else self._tasks_of_pids()
        for fd, path in self._join_files:
            if path != apart:
                tree.write(fd, "0", path, _WHY_JOIN)
        self._close_join_files()
        if self._unified and not cloned and self.clone_fd() >= 0:
            self._unified.write("cgroup.procs", "0")

    def admit(self, pid: int, *, whole: bool) -> None:
        """Write its number into every tasks file, or into that of pids."""
        self.prepare_join()
        apart = self._tasks_of_pids()
        for fd, path in self._join_files:
            if whole or path == apart:
                tree.write(fd, str(pid), path, _WHY_JOIN)
        self._close_join_files()
        if whole and self._unified and self.clone_fd() >= 0:
            self._unified.write("cgroup.procs", str(pid))

    def _tasks_of_pids(self) -> str:
        """Return the path of the tasks file of the pids controller; "" without one."""
        directory = self._joined.get("pids")
        return f"{directory.path}/tasks" if directory else ""

    def clone_fd(self) -> int:
        """Return the directory in cgroup2 of a hybrid host."""
        try:
            return self._unified.fd() if self._unified else -1
        except FileNotFoundError:  # an older minirun has made the container
            return -1

    def set_resources(self, resources: dict[str, Any]) -> None:
        """Write each limit to its file."""
        if not resources.keys() - {"devices"}:
            return
        settings = oci.for_v1(resources)
        for setting in settings:
            name = "cpuset" if setting.file.startswith("cpuset.") else setting.controller
            if name not in self._joined:
                raise ConfigError(
                    f"{setting.origin}: no hierarchy of the {name} controller is mounted",
                    f"mount -t cgroup -o {name} cgroup /sys/fs/cgroup/{name}, or leave it out",
                )
        apply(settings, self._joined)

    def _devices(self) -> tree.Dir:
        """Return the directory in the hierarchy of the devices controller. Raises MinirunError."""
        if "devices" not in self._joined:
            raise MinirunError(
                "device rules: no hierarchy of the devices controller is mounted",
                "mount -t cgroup -o devices cgroup /sys/fs/cgroup/devices",
            )
        return self._joined["devices"]

    def set_device_rules(self, rules: Iterable[DeviceRule]) -> None:
        """Write the default, then each exception from it."""
        default, exceptions = ruleset.as_exceptions(list(rules))
        directory = self._devices()
        first, others = ("allow", "deny") if default else ("deny", "allow")
        why = "every device, before the exceptions"
        directory.write(f"devices.{first}", "a", why)
        directory.write_each(f"devices.{others}", map(str, exceptions), "one rule a write")

    def allow_devices(self, rules: Iterable[DeviceRule]) -> None:
        """Write each rule to devices.allow, or a denial to devices.deny."""
        for rule in rules:
            file = "devices.allow" if rule.allow else "devices.deny"
            self._devices().write(file, str(rule), "open the container's cgroup to this device")

    def effective_device_rules(self) -> list[DeviceRule]:
        """Read devices.list. If everything is allowed, the kernel does not list exceptions."""
        return [ruleset.parse(line) for line in self._devices().read("devices.list").splitlines()]

    def _freezer(self) -> str:
        """Return the directory in the freezer's hierarchy."""
        return self._joined["freezer"].path if "freezer" in self._joined else ""

    def _places(self) -> list[str]:
        """Return a directory in every hierarchy, joined or not."""
        everywhere = [hierarchy.path + self.path for hierarchy in self._mounts.values()]
        return list(dict.fromkeys([*self._dirs, *everywhere, *self._hybrid()]))

    def _hybrid(self) -> list[str]:
        """Return the directory in cgroup2 of a hybrid host, as a list of one or none."""
        return [self._unified.path] if self._unified else []

    def frozen(self) -> bool:
        """Read freezer.state: THAWED, FREEZING or FROZEN."""
        try:
            return self._joined["freezer"].read("freezer.state").strip() == "FROZEN"
        except (KeyError, OSError):  # not joined, or gone
            return False

    def set_frozen(self, frozen: bool) -> None:
        """Write FROZEN or THAWED to freezer.state."""
        if "freezer" not in self._joined:
            raise StateError(
                "freezing: no hierarchy of the freezer controller is mounted",
                "mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer",
            )
        state = "FROZEN" if frozen else "THAWED"
        self._joined["freezer"].write("freezer.state", state)

    def record(self) -> CgroupRecord:
        """Return version, path, and the directory of each controller joined."""
        dirs = {name: directory.path for name, directory in self._joined.items()}
        return {"version": 1, "path": self.path, "dirs": dirs}

    def mounts_for_container(self) -> ContainerMounts:
        """Return one mount for each hierarchy joined."""
        joined = dict.fromkeys(self._mounts[name] for name in self._joined)
        return version_1_mounts((hierarchy, hierarchy.path + self.path) for hierarchy in joined)

    def _close_join_files(self) -> None:
        """Close the tasks files that `prepare_join` has opened."""
        for fd, _ in self._join_files:
            os.close(fd)
        self._join_files = []

    def close(self) -> None:
        """Close every directory and every tasks file."""
        self._close_join_files()
        for directory in (*self._dirs.values(), self._unified):
            if directory:
                directory.close()
