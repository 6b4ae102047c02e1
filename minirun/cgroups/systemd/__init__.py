"""The systemd cgroup driver: `--systemd-cgroup`, a container in a transient scope unit.

On a host with systemd the cgroup tree is systemd's: it moves or resets groups that others make
without it. So the driver asks for a *scope*, a unit of processes that systemd has not started
itself (systemd.scope(5); org.freedesktop.systemd1(5), StartTransientUnit), with Delegate= for what
lies below it. config.json's linux.cgroupsPath then reads slice:prefix:name, and the scope is
prefix-name.scope in that slice; a-b.slice lies in a.slice/a-b.slice (systemd.slice(5)).

A scope needs a process to begin with, and in minirun the cgroup, its limits and device rules come
before init. So a holder, a copy of this process that only sleeps, goes first, and ends once init is
in the scope; runc hands over its init, still unconfined. Each value that systemd has a property
for is set as one (minirun.cgroups.systemd.properties), or systemd would write its own value at the
next daemon-reload: that is how containers lose their GPUs elsewhere. Whenever a property is set,
systemd writes all files that it knows. So minirun writes its values after that, by hand: systemd
knows less than config.json, of version 1 only some hierarchies, and of CPU quotas whole percents.

Without root it is the user's own manager that is asked: systemd runs one for each user who has
logged in, or lingers, and has given it a part of the tree (user@.service(5)). podman without root
wants that wherever version 2 is all there is. runc asks `busctl --user status` for the user's
number, which a user namespace hides; here the kernel tells it to the server (bus._connect).

Simplified: scopes only, from systemd 244 on (2019), and no org.systemd.property annotations.

    bus          D-Bus: what is asked of systemd
    properties   linux.resources as properties of a unit
"""

from __future__ import annotations

import os
import select

from minirun.cgroups import bpf, hierarchies
from minirun.cgroups.base import REMOVE_SECONDS, Cgroup
from minirun.cgroups.delegated import WithoutDeviceRules
from minirun.cgroups.moved import BOOTED as BOOTED
from minirun.cgroups.moved import MovedByManager, load_bus
from minirun.cgroups.stopping import freeze
from minirun.cgroups.systemd import properties as systemd_properties
from minirun.cgroups.v1 import CgroupV1
from minirun.cgroups.v2 import PROGRAM_NAME, CgroupV2
from minirun.core import events
from minirun.core.errors import ConfigError, MinirunError, StateError
from minirun.core.kernel import files, namespaces, process, signals
from minirun.core.lazy import lazy

with lazy:
    from minirun.cgroups.systemd import bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    from minirun.cgroups.rules import DeviceRule
    from minirun.cgroups.systemd.bus import Bus, Properties
    from minirun.core.keeping.container_record import CgroupRecord


def check() -> None:
    """Raise MinirunError if the driver cannot be used on this host."""
    if not os.path.isdir(BOOTED):
        raise MinirunError(
            "--systemd-cgroup: systemd is not running on this host",
            "leave the flag out, and have the engine use its cgroupfs manager",
        )
    load_bus("--systemd-cgroup")


def find_users_top() -> str:
    """Return the cgroup of the caller's own manager; "" if none answers."""
    try:
        check()
        return users_top()
    except MinirunError:
        return ""


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


def parse(cgroups_path: str) -> tuple[str, str]:
    """Return (slice, scope) that slice:prefix:name names; "" for no slice. Raises ConfigError."""
    parts = cgroups_path.split(":")
    if len(parts) != 3 or not parts[2] or "/" in cgroups_path:
        raise ConfigError(
            f"linux.cgroupsPath: {cgroups_path!r}: with --systemd-cgroup it is slice:prefix:name",
            "have the engine use its systemd manager as well, or leave the flag out",
        )
    slice_name, prefix, name = parts
    if name.endswith(".slice"):
        raise ConfigError(f"linux.cgroupsPath: {cgroups_path!r}: a slice cannot hold a container")
    return slice_name, f"{prefix}-{name}.scope" if prefix else f"{name}.scope"


def locate(cgroups_path: str, *, of_user: bool = False) -> tuple[str, str, str]:
    """Return (path of the cgroup, slice, scope) of the scope that `cgroups_path` names.

    `of_user`: the caller's own manager has it. Raises ConfigError, MinirunError.
    """
    check()
    slice_name, scope = parse(cgroups_path)
    slice_name = slice_name or ("user.slice" if of_user else "system.slice")
    top = users_top() if of_user else _top()
    return f"{top}{expand(slice_name)}/{scope}", slice_name, scope


def from_record(record: CgroupRecord) -> Cgroup:
    """Return the cgroup that :meth:`_Scope.record` described, from state.json."""
    found: _Scope
    if record["version"] == 1:
        found = ScopeV1(record["path"], hierarchies.mounted(), record["dirs"])
    else:
        mount: str = record["dirs"][""].removesuffix(record["path"])
        found = (UserScope if record.get("rootless") else ScopeV2)(record["path"], mount)
    found.slice, found.scope = record["slice"], record["scope"]
    return found


def _top() -> str:
    """Return what systemd takes for the root: "", but in a container that sees its host's tree."""
    paths = hierarchies.paths_of(1)
    path = paths.get("name=systemd", paths.get("", "/"))
    return path.removesuffix("/init.scope").rstrip("/")


def users_top() -> str:
    """Return the cgroup below which the user's manager has its units. Raises MinirunError."""
    connection = bus.of_user()
    try:
        return connection.top()
    finally:
        connection.close()


class _Scope(Cgroup):
    """What both versions have in common: the unit, and the process in it until init joins."""

    slice = ""
    scope = ""
    _holder = 0
    _holder_fd = -1
    _open_bus: Bus | None = None
    _limits: dict[str, Any] | None = None
    takes_all_limits = True

    def _bus(self) -> Bus:
        """Return the connection; it is kept, since stage 5 runs in another mount namespace."""
        if not self._open_bus:
            self._open_bus = self._connected()
        return self._open_bus

    def _connected(self) -> Bus:
        """Return a new connection to the manager that has the scope. Raises MinirunError."""
        return bus.Bus()

    def create(self) -> None:
        """Start the unit with the holder in it, and make the directories it leaves out.

        Raises StateError if there is such a unit, MinirunError if systemd refuses, OSError.
        """
        runtime = os.getpid()
        why = "a scope begins with a process in it: this one sleeps there until init comes"
        self._holder, self._holder_fd = namespaces.clone3(0, why=why)
        if not self._holder:
            _hold(runtime)
        try:
            self._start()
            super().create()  # type: ignore[safe-super]  # a version's, which comes next in line
        except BaseException:
            self.entered()
            raise

    def _start(self) -> None:
        accounting = "BlockIOAccounting" if self.version == 1 else "IOAccounting"
        names = ("MemoryAccounting", "CPUAccounting", "TasksAccounting", accounting)
        # version 1: else its devices would be the slice's; on version 2 systemd would attach a
        # program, and leave it there when the policy changes
        policy = [("DevicePolicy", ("s", "strict"))] if self.version == 1 else []
        self._bus().start_scope(
            self.scope,
            [
                ("Description", ("s", f"minirun container {self.scope.removesuffix('.scope')}")),
                ("Slice", ("s", self.slice)),
                ("PIDs", ("au", [self._holder])),
                ("Delegate", ("b", True)),
                ("DefaultDependencies", ("b", False)),  # else a shutdown would stop it early
                *policy,
                *((name, ("b", True)) for name in names),
            ],
        )

    def refuse_occupied(self, directory: str) -> None:
        """Pass: a unit has one owner, and systemd has refused a name that is taken."""

    def entered(self) -> None:
        """End the holder, if this object has one."""
        if self._holder:
            signals.pidfd_send_signal(self._holder_fd, signals.SIGKILL)
            os.close(self._holder_fd)
            os.waitpid(self._holder, 0)
            self._holder, self._holder_fd = 0, -1

    def set_resources(self, resources: dict[str, Any]) -> None:
        """Set the limits as properties, as far as systemd has one; then write each to its file."""
        self._limits = resources
        self._set_properties(systemd_properties.of_resources(resources, self.version))

    def _set_properties(self, properties: Properties) -> None:
        """Set properties of the unit, and write the limits after it."""
        if properties:
            self._bus().set_properties(self.scope, properties)
        if self._limits:
            super().set_resources(self._limits)  # type: ignore[safe-super]

    def set_device_rules(self, rules: Iterable[DeviceRule]) -> None:
        """Set the rules as properties, then set them as a plain cgroup does."""
        rules = list(rules)
        self._set_properties(systemd_properties.of_devices(rules, self.version))
        super().set_device_rules(rules)  # type: ignore[safe-super]

    def remove(self, seconds: float = REMOVE_SECONDS) -> None:
        """Remove the directories once no process is in them, and have systemd forget the unit.

        Raises StateError if processes are still in it after `seconds`, MinirunError, OSError.
        """
        self.entered()
        super().remove(seconds)
        self._hang_up()  # it may be older than systemd, which can execute itself anew
        if os.path.isdir(BOOTED):
            self._bus().stop(self.scope)
            self._hang_up()

    def record(self) -> CgroupRecord:
        """Return what the plain cgroup keeps, and the unit: delete has no --systemd-cgroup."""
        plain = super().record()  # type: ignore[safe-super]
        return {**plain, "slice": self.slice, "scope": self.scope}

    def close(self) -> None:
        """Close every directory and file, and the connection."""
        self._hang_up()
        super().close()  # type: ignore[safe-super]

    def _hang_up(self) -> None:
        if self._open_bus:
            self._open_bus.close()
            self._open_bus = None


def _hold(runtime: int) -> NoReturn:
    """Sleep in the scope until the runtime ends this process, or itself."""
    try:
        events.become("runtime", os.getpid())
        why = "the holder dies with the runtime"
        process.prctl(process.PR_SET_PDEATHSIG, signals.SIGKILL, why=why)
        process.become_named("minirun:holder")
        events.close_log()
        files.close_range(0)
        if os.getppid() == runtime:
            select.poll().poll()
    finally:
        os._exit(0)


class ScopeV1(_Scope, CgroupV1):
    """A scope on version 1, in every hierarchy."""

    def _set_properties(self, properties: Properties) -> None:
        """Set them while no process runs: systemd denies all devices before it allows some."""
        stop = not (self._holder or self.frozen())
        try:
            if stop:
                freeze(self)
        except StateError:
            stop = False  # no freezer, or it takes too long
        try:
            super()._set_properties(properties)
        finally:
            if stop:
                self.set_frozen(False)

    def allow_devices(self, rules: Iterable[DeviceRule]) -> None:
        """Set the rules as properties, then write each to its file."""
        rules = list(rules)
        all_rules = [*self.effective_device_rules(), *rules]
        self._set_properties(systemd_properties.of_devices(all_rules, 1))
        super().allow_devices(rules)


class ScopeV2(_Scope, CgroupV2):
    """A scope on version 2. allow_devices calls set_device_rules, which sets the properties."""

    def _open_attached(self) -> int:
        """Return a descriptor of our program; systemd's own may be attached beside it."""
        for number in bpf.attached(self._dir.fd()):
            program = bpf.open_program(number)
            if bpf.program_name(program) == PROGRAM_NAME:
                return program
            os.close(program)
        return -1


class UserScope(WithoutDeviceRules, _Scope, MovedByManager):
    """A scope of a user's manager. It belongs to the user, as any delegated cgroup does."""

    def _connected(self) -> Bus:
        """Return a new connection to the user's manager. Raises MinirunError."""
        return bus.of_user()

    def set_resources(self, resources: dict[str, Any]) -> None:
        """Set the limits, as far as the user's manager has the controllers."""
        super().set_resources(resources)
        self.warn_of(resources, "a device program needs CAP_BPF")

    def record(self) -> CgroupRecord:
        """Return the record of a scope, marked as `rootless`."""
        return {**super().record(), "rootless": True}
