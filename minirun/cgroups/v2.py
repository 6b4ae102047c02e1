"""cgroup version 2: one hierarchy, and an eBPF program instead of a device list.

Documentation/admin-guide/cgroup-v2.rst. A controller is available in a cgroup when every ancestor
hands it down (cgroup.subtree_control), so the way to the container's directory is opened from the
root on. On a hybrid machine version 2 is mounted without controllers, each of them being bound to a
hierarchy of version 1: then limits are an error here that says where the controller is, while
processes, freezing and device rules work all the same.

Device rules are a program (minirun.cgroups.devicefilter), attached with BPF_F_ALLOW_MULTI as runc
attaches it; stage 5 replaces it by one with the GPUs' rules added, in one step (BPF_F_REPLACE).
"""

from __future__ import annotations

import errno
import os

from minirun.cgroups import bpf, devicefilter, hierarchies, ruleset, tree
from minirun.cgroups.base import Cgroup, CgroupMount, ContainerMounts, apply
from minirun.core.errors import ConfigError, MinirunError, reason
from minirun.core.lazy import lazy

with lazy:
    from minirun.cgroups import resources as oci

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from minirun.cgroups.rules import DeviceRule
    from minirun.core.keeping.container_record import CgroupRecord

ALWAYS = ("cpu", "memory", "pids")
"""The controllers that every container gets, as far as version 2 has them."""

PROGRAM_NAME = "minirun_devices"
"""What the kernel calls the device program: bpftool cgroup show."""


class CgroupV2(Cgroup):
    """A container's directory in the one hierarchy of version 2."""

    version = 2

    def __init__(self, path: str, mount: str) -> None:
        super().__init__(path)
        self._mount = mount
        self._dir = tree.Dir(mount + path)
        self._join_fd = -1
        self._base: list[DeviceRule] | None = None  # what this process has set

    def create(self) -> None:
        """Make the directory, and hand down the usual controllers as far as they exist."""
        if not tree.make(self._mount, self.path, "the container's cgroup"):
            self.refuse_occupied(self._dir.path)
        try:
            self._hand_down(ALWAYS)
        except OSError:
            pass  # a limit that needs the controller is an error later

    def _hand_down(self, controllers: Iterable[str]) -> None:
        """Enable those of `controllers` that exist in every ancestor. Raises OSError."""
        path = self._mount
        for part in self.path.split("/")[1:]:
            level = tree.Dir(path)
            try:
                available = level.read("cgroup.controllers").split()
                enabled = level.read("cgroup.subtree_control").split()
                new = [c for c in controllers if c in available and c not in enabled]
                if new:
                    text = " ".join(f"+{name}" for name in new)
                    level.write("cgroup.subtree_control", text, "hand the controllers down")
            finally:
                level.close()
            path = f"{path}/{part}"

    def prepare_join(self) -> None:
        """Open cgroup.procs."""
        if self._join_fd < 0:
            self._join_fd = self._dir.open("cgroup.procs", os.O_WRONLY)

    def join(self, *, cloned: bool = False, counted: bool = True) -> None:
        """Write 0 into cgroup.procs; clone_fd is the quicker way in."""
        if not cloned:
            self.prepare_join()
            tree.write(self._join_fd, "0", f"{self._dir.path}/cgroup.procs")
        self._close_join_fd()

    def admit(self, pid: int, *, whole: bool) -> None:
        """Write its number into cgroup.procs."""
        if whole:
            self.prepare_join()
            tree.write(self._join_fd, str(pid), f"{self._dir.path}/cgroup.procs")
        self._close_join_fd()

    def clone_fd(self) -> int:
        """Return the directory's descriptor."""
        return self._dir.fd()

    def set_resources(self, resources: dict[str, Any]) -> None:
        """Write each limit to its file, after handing down the controller it needs."""
        if not resources.keys() - {"devices"}:
            return
        settings = oci.for_v2(resources)
        oci.check_usage(resources, self._dir)
        for setting in settings:
            self._require(setting.controller, setting.origin)
        apply(settings, {setting.controller: self._dir for setting in settings})

    def _require(self, controller: str, origin: str) -> None:
        """Make `controller` available in the cgroup. Raises ConfigError."""
        if controller in ("cgroup", *self._dir.read("cgroup.controllers").split()):
            return
        try:
            self._hand_down((controller,))
        except OSError as error:
            advice = "a cgroup on the way has processes of its own: move them into a child"
            if isinstance(error, PermissionError):
                advice = f"root may: systemctl edit user@.service, Delegate={controller}"
            raise ConfigError(
                f"{origin}: the {controller} controller cannot be handed down to {self.path}:"
                f" {reason(error)}: {error.filename}",
                advice,
            ) from None
        if controller in self._dir.read("cgroup.controllers").split():
            return
        old_name = {"io": "blkio"}.get(controller, controller)
        place = next((h.path for h in hierarchies.mounted() if old_name in h.names), "")
        owner = f": the v1 hierarchy at {place} holds it" if place else ", nor has version 1"
        raise ConfigError(
            f"{origin}: the cgroup2 at {self._mount} has no {controller} controller{owner}",
            "leave the limit out, or choose cgroup v1" if place else "leave the limit out",
        )

    def set_device_rules(self, rules: Iterable[DeviceRule]) -> None:
        """Assemble a program, load it, and attach it in the place of the one before."""
        self._base = list(rules)
        code = devicefilter.assemble(self._base)
        try:
            program = bpf.load(bpf.DEVICE, code, PROGRAM_NAME)
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise ConfigError(
                    f"linux.resources.devices: {len(self._base)} rules make a program of"
                    f" {len(code) // 8} instructions, which the kernel finds too large to check",
                    "name fewer devices, allow all of a major number, or use cgroup v1",
                ) from None
            raise MinirunError(
                f"device rules: bpf: BPF_PROG_LOAD: {error.strerror}",
                "needs CAP_SYS_ADMIN, or CAP_BPF and CAP_NET_ADMIN, and CONFIG_CGROUP_BPF",
            ) from None
        old = self._open_attached()
        try:
            bpf.attach(bpf.DEVICE, self._dir.fd(), program, replacing=old)
        finally:
            os.close(program)
            if old >= 0:
                os.close(old)

    def allow_devices(self, rules: Iterable[DeviceRule]) -> None:
        """Replace the program by one with `rules` added at the end, where they override."""
        base = self.effective_device_rules() if self._base is None else self._base
        self.set_device_rules([*base, *rules])

    def effective_device_rules(self) -> list[DeviceRule]:
        """Ask the kernel for the attached program, and read the rules out of its instructions."""
        program = self._open_attached()
        if program < 0:
            return [ruleset.ALL]
        try:
            return devicefilter.decode(bpf.program_instructions(program))
        except ValueError as error:
            raise MinirunError(
                f"device rules of {self.path}: the program attached there cannot be read: {error}",
                "another runtime made it, or sysctl net.core.bpf_jit_harden hides it",
            ) from None
        finally:
            os.close(program)

    def _open_attached(self) -> int:
        """Return a descriptor of the one program attached to the cgroup; -1 for none."""
        ids = bpf.attached(self._dir.fd())
        if len(ids) > 1:
            raise MinirunError(
                f"device rules of {self.path}: {len(ids)} programs are attached,"
                " and minirun attaches one",
                "another tool has attached its own: see bpftool cgroup show",
            )
        return bpf.open_program(ids[0]) if ids else -1

    def _freezer(self) -> str:
        """Return the one directory."""
        return self._dir.path

    def _places(self) -> list[str]:
        """Return the one directory."""
        return [self._dir.path]

    def frozen(self) -> bool:
        """Read "frozen" in cgroup.events."""
        try:
            return "frozen 1" in self._dir.read("cgroup.events")
        except OSError:  # gone
            return False

    def set_frozen(self, frozen: bool) -> None:
        """Write 1 or 0 to cgroup.freeze."""
        self._dir.write("cgroup.freeze", "1" if frozen else "0")

    def kill_at_once(self) -> bool:
        """Write 1 to cgroup.kill."""
        try:
            self._dir.write("cgroup.kill", "1", "every process at once")
        except OSError:  # Linux before 5.14, or removed in between
            return False
        return True

    def record(self) -> CgroupRecord:
        """Return version, path, and the directory."""
        return {"version": 2, "path": self.path, "dirs": {"": self._dir.path}}

    def mounts_for_container(self) -> ContainerMounts:
        """Return the one mount."""
        mount = CgroupMount("cgroup2", "", "", self._dir.path, self._mount)
        return ContainerMounts(False, (mount,), ())

    def _close_join_fd(self) -> None:
        """Close cgroup.procs."""
        if self._join_fd >= 0:
            os.close(self._join_fd)
            self._join_fd = -1

    def close(self) -> None:
        """Close the directory and cgroup.procs."""
        self._close_join_fd()
        self._dir.close()
