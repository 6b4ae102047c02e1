"""The device cgroup of a container that another runtime made: found by pid, widened in place.

For `nvidia-container-cli configure`, which knows a container by a pid alone: /proc/PID/cgroup names
the cgroup. In version 1 each device is one write to devices.allow. In version 2 the runtime has
attached an eBPF program, which is the other runtime's own; nvidia-container-cli reads it from the
kernel, puts a test for each device in front, and puts the new program into the old one's place. So
does this:

    r1 stays what it was: the old program, which follows, begins with it
    for each rule   if kind, major, minor are the device's and no more than its access is wanted:
                    r0 = 1; exit

The real one fails if no program is attached. Nothing is denied then, so this does nothing.
cgroups(7); Documentation/admin-guide/cgroup-v2.rst, "Device controller".
"""

from __future__ import annotations

import os

from minirun.cgroups import bpf, hierarchies, ruleset
from minirun.cgroups import devicefilter as code
from minirun.core.errors import GPUError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from minirun.cgroups.rules import DeviceRule

_KIND, _WANTED, _REST = 2, 6, 7
_NAME = "minirun_devices"


class DeviceCgroup:
    """The cgroup of a process, as far as it decides over devices."""

    def __init__(self, version: int, directory: str) -> None:
        self.version = version
        self.directory = directory

    def allow_devices(self, rules: Iterable[DeviceRule]) -> None:
        """Allow more devices. Raises GPUError, OSError."""
        if self.version == 1:
            for rule in rules:
                with open(f"{self.directory}/devices.allow", "w", encoding="ascii") as file:
                    file.write(str(rule))
            return
        fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            prefix = prepended(list(rules))
            for program in bpf.attached(fd):
                _replace(fd, program, prefix)
        finally:
            os.close(fd)


def of_process(pid: str) -> DeviceCgroup:
    """Return the cgroup that decides over the devices of a process ("self" for this one).

    Version 1's devices controller if it is mounted, else version 2. If both are, a runtime
    may have taken version 2, and left the process in version 1's root, which denies nothing: it is
    version 2 then, as long as that is another cgroup than its root. (nvidia-container-cli takes
    version 1, widens the host's root, and the container gets no GPU.) Raises GPUError, OSError.
    """
    paths = {
        name: path for names, path in hierarchies.paths_of(pid).items() for name in names.split(",")
    }
    if paths.get("devices") == "/" and paths.get("", "/") != "/":
        del paths["devices"]
    for hierarchy in sorted(hierarchies.mounted(), key=lambda h: h.version):
        if hierarchy.version == 1 and "devices" in hierarchy.names and "devices" in paths:
            return DeviceCgroup(1, hierarchy.path + paths["devices"].rstrip("/"))
        if hierarchy.version == 2 and "" in paths:
            return DeviceCgroup(2, hierarchy.path + paths[""].rstrip("/"))
    raise GPUError(
        f"container error: no device cgroup of process {pid} is mounted", "or --no-cgroups"
    )


def _replace(cgroup: int, program: int, prefix: bytes) -> None:
    """Put `prefix` in front of the attached `program`."""
    old = bpf.open_program(program)
    try:
        instructions = bpf.program_instructions(old)
        if not instructions:
            hint = "sysctl net.core.bpf_jit_harden hides it"
            raise GPUError("mount error: the cgroup's device program cannot be read", hint)
        new = bpf.load(bpf.DEVICE, prefix + instructions, _NAME)
        try:
            bpf.attach(bpf.DEVICE, cgroup, new, replacing=old)
        finally:
            os.close(new)
    finally:
        os.close(old)


def prepended(rules: list[DeviceRule]) -> bytes:
    """Return the tests that stand before the other runtime's program; "" for no rules."""
    if not rules:
        return b""
    found = code.prologue(_WANTED, _KIND)
    for rule in rules:
        more = ~ruleset.bits(rule.access) & 7
        tests = [
            code.insn(code.MOV_X, _REST, _WANTED),
            code.insn(code.AND_K, _REST, imm=more),
            code.insn(code.JNE_K, _REST, 0, 5, 0),
            code.insn(code.JNE_K, _KIND, 0, 4, code.KINDS[rule.kind]),
            code.insn(code.JNE_K, code.MAJOR, 0, 3, rule.major or 0),
            code.insn(code.JNE_K, code.MINOR, 0, 2, rule.minor or 0),
        ]
        found += b"".join(tests) + code.YES
    return found
