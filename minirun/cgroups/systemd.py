"""The systemd cgroup driver: `--systemd-cgroup`, a container in a transient scope unit.

On a host with systemd the cgroup tree is systemd's: whoever makes groups beside it in secret has
them moved or reset. So the driver asks for a *scope*, a unit of processes that somebody else has
started (systemd.scope(5); org.freedesktop.systemd1(5), StartTransientUnit), with Delegate= for
what lies below it. config.json's linux.cgroupsPath then reads slice:prefix:name, and the scope is
prefix-name.scope in that slice; a-b.slice lies in a.slice/a-b.slice (systemd.slice(5)).

A scope needs a process to begin with, and in minirun the cgroup, its limits and device rules come
before init. So a holder, a copy of this process that only sleeps, goes first, and ends once init is
in the scope; runc hands over its init, still unconfined. What systemd knows as a property it is
told (minirun.cgroups.systemd_properties), lest it write its own value at the next daemon-reload:
that is how containers lose their GPUs elsewhere. Then all is written by hand as well, since systemd
knows less than config.json says, and of version 1 only some hierarchies.

Simplified: scopes only, of the system's manager only (runc also asks a user's), from systemd 244 on
(2019), and no org.systemd.property annotations.
"""

import os

from minirun.cgroups import hierarchies, open_cgroup, systemd_properties
from minirun.cgroups.base import REMOVE_SECONDS, Cgroup
from minirun.cgroups.systemd_bus import Bus
from minirun.cgroups.v1 import CgroupV1
from minirun.cgroups.v2 import CgroupV2
from minirun.errors import ConfigError, MinirunError
from minirun.kernel import namespaces, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from minirun.cgroups.rules import DeviceRule

BOOTED = "/run/systemd/system"
"""A directory where systemd is the init: sd_booted(3)."""
_SIGKILL = 9


def check() -> None:
    """Raise MinirunError where this process cannot use the driver."""
    if not os.path.isdir(BOOTED):
        raise MinirunError(
            "--systemd-cgroup: systemd is not running on this host",
            "leave the flag out, and have the engine use its cgroupfs manager",
        )
    if os.geteuid():
        text = "--systemd-cgroup: only root can ask the system's manager for a scope"
        raise MinirunError(text, "leave the flag out")


def expand(slice_name: str) -> str:
    """Return the path of a slice: /a.slice/a-b.slice for a-b.slice; "" for -.slice, the root.

    systemd.slice(5). Raises ConfigError.
    """
    stem = slice_name.removesuffix(".slice")
    if stem == "-":
        return ""
    parts = stem.split("-")
    if stem == slice_name or "/" in stem or not all(parts):
        raise ConfigError(
            f"linux.cgroupsPath: invalid slice name {slice_name!r}",
            "such as machine.slice, or user-1000.slice, which lies in user.slice",
        )
    names = ("-".join(parts[: n + 1]) for n in range(len(parts)))
    return "".join(f"/{name}.slice" for name in names)


def parse(cgroups_path: str) -> "tuple[str, str]":
    """Return (slice, scope) that slice:prefix:name names; the slice is system.slice by default.

    Raises ConfigError.
    """
    parts = cgroups_path.split(":")
    if len(parts) != 3 or not parts[2] or "/" in cgroups_path:
        raise ConfigError(
            f"linux.cgroupsPath: {cgroups_path!r}: with --systemd-cgroup it is slice:prefix:name",
            "have the engine use its systemd manager as well, or leave the flag out",
        )
    slice_name, prefix, name = parts
    if name.endswith(".slice"):
        raise ConfigError(f"linux.cgroupsPath: {cgroups_path!r}: a slice cannot hold a container")
    return slice_name or "system.slice", f"{prefix}-{name}.scope" if prefix else f"{name}.scope"


def open_scope(cgroups_path: str, version: str) -> Cgroup:
    """Return the cgroup of the scope that `cgroups_path` names, made or not; `version` as ever.

    Raises ConfigError, MinirunError.
    """
    slice_name, scope = parse(cgroups_path)
    path = f"{_top()}{expand(slice_name)}/{scope}"
    record = open_cgroup(path, version, every=True).record()
    return from_record({**record, "slice": slice_name, "scope": scope})


def from_record(record: "dict[str, Any]") -> Cgroup:
    """Return the cgroup that :meth:`_Scope.record` described, from state.json."""
    if record["version"] == 2:
        mount: str = record["dirs"][""].removesuffix(record["path"])
        found: CgroupV1 | CgroupV2 = ScopeV2(record["path"], mount)
    else:
        ones = [h for h in hierarchies.mounted() if h.version == 1]
        found = ScopeV1(record["path"], ones, record["dirs"])
    assert isinstance(found, _Scope)
    found.slice, found.scope = record["slice"], record["scope"]
    return found


def _top() -> str:
    """Return what systemd takes for the root: "", but in a container that sees its host's tree."""
    with open("/proc/1/cgroup") as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    paths = {names: path for _, names, path in rows}
    path = paths.get("name=systemd", paths.get("", "/"))
    return path.removesuffix("/init.scope").rstrip("/")


class _Scope(Cgroup):
    """What both versions have in common: the unit, and who holds it until init is there."""

    slice = ""
    scope = ""
    _holder = 0
    _holder_fd = -1

    def create(self) -> None:
        """Start the unit with the holder in it, and make the directories it leaves out.

        Raises StateError where there is such a unit, MinirunError where systemd refuses, OSError.
        """
        check()
        why = "a scope begins with a process in it: this one sleeps there until init comes"
        self._holder, self._holder_fd = namespaces.clone3(0, why=why)
        if not self._holder:
            _hold(os.getppid())
        try:
            with Bus() as bus:
                self._start(bus)
            super().create()
        except BaseException:
            self.release()
            raise

    def _start(self, bus: Bus) -> None:
        accounting = "BlockIOAccounting" if self.version == 1 else "IOAccounting"
        names = ("MemoryAccounting", "CPUAccounting", "TasksAccounting", accounting)
        properties = [
            ("Description", ("s", f"minirun container {self.scope.removesuffix('.scope')}")),
            ("Slice", ("s", self.slice)),
            ("PIDs", ("au", [self._holder])),
            ("Delegate", ("b", True)),
            ("DefaultDependencies", ("b", False)),  # or it would stop before a shutdown's services
            ("DevicePolicy", ("s", "strict")),  # or version 1's devices would be none of its own
            *((name, ("b", True)) for name in names),
        ]
        bus.start_scope(self.scope, properties)

    def refuse_occupied(self, directory: str) -> None:
        """Pass: a unit has one owner, and systemd has refused a name that is taken."""

    def entered(self) -> None:
        """End the holder: init is in the scope now."""
        self.release()

    def release(self) -> None:
        """End the holder, where this object has one."""
        if self._holder:
            process.pidfd_send_signal(self._holder_fd, _SIGKILL)
            os.close(self._holder_fd)
            os.waitpid(self._holder, 0)
            self._holder, self._holder_fd = 0, -1

    def set_resources(self, resources: "dict[str, Any]") -> None:
        """Tell systemd what it knows of, then write each limit by hand."""
        properties = systemd_properties.of_resources(resources, self.version)
        if properties:
            with Bus() as bus:
                bus.set_properties(self.scope, properties)
        super().set_resources(resources)

    def set_device_rules(self, rules: "Iterable[DeviceRule]") -> None:
        """Tell systemd, then put the rules in force by hand."""
        rules = list(rules)
        with Bus() as bus:
            bus.set_properties(self.scope, systemd_properties.of_devices(rules, self.version))
        super().set_device_rules(rules)

    def remove(self, seconds: float = REMOVE_SECONDS, *, keep_parent: bool = False) -> None:
        """Stop the unit once nobody is in it, and remove the directories systemd left.

        Raises StateError where processes are still in it, MinirunError, OSError.
        """
        self.release()
        if self.exists():
            super().remove(seconds, keep_parent=True)
        if os.path.isdir(BOOTED):
            with Bus() as bus:
                bus.stop(self.scope)

    def record(self) -> "dict[str, Any]":
        """Return what the plain cgroup keeps, and the unit: delete has no --systemd-cgroup."""
        return {**super().record(), "slice": self.slice, "scope": self.scope}
