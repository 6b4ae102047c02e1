"""Stage 5: Edits → operations → the container, whichever vendor planned them.

The half-started container is a mount namespace in which everything is mounted, and in which the
host's tree can still be seen: sources are paths of the host, destinations are resolved below a
descriptor of the container's root, and no path of the image is ever a source (CVE-2024-0132,
CVE-2025-23359). nvidia-container-cli does the same work in the same order; it allows each device
in the cgroup as it goes, minirun all of them in one call, which on cgroup2 is one eBPF program.
"""

import os
import stat

from minirun.errors import GPUError
from minirun.gpu import cli_args, ldconfig, nvidia
from minirun.gpu.edits import DeviceNode, Edits, Link, Mount, Tmpfs
from minirun.gpu.inventory import inventory
from minirun.kernel import mounts, namespaces
from minirun.record import Record
from minirun.rootfs import plan as rootfs_plan
from minirun.rootfs.inroot import Root
from minirun.rootfs.plan import Bind, MakeNode, MountFs, Symlink, WriteFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from minirun.cgroups.rules import DeviceRule
    from minirun.gpu.edits import Step
    from minirun.rootfs.plan import Operation

    class Cgroup(Protocol):
        """The one thing that stage 5 asks of a cgroup."""

        def allow_devices(self, rules: "list[DeviceRule]") -> None:
            """Let the container's processes open these devices too."""


_ATTRIBUTES = {
    "ro": mounts.MOUNT_ATTR_RDONLY,
    "nosuid": mounts.MOUNT_ATTR_NOSUID,
    "nodev": mounts.MOUNT_ATTR_NODEV,
    "noexec": mounts.MOUNT_ATTR_NOEXEC,
}
_NODE_ATTRIBUTES = mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NOEXEC
_TMPFS_FLAGS = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


class HostNode(Record):
    """Bind a device node of the host, after a look that it is the node it should be."""

    source: str
    path: str
    major: int
    minor: int

    def describe(self) -> str:
        """Say it as a shell would."""
        return f"mount --bind {self.source} {self.path}"

    def execute(self, root: Root) -> None:
        """Do it. Raises GPUError for another device under that name, OSError."""
        fd = os.open(self.source, os.O_PATH | os.O_CLOEXEC)
        try:
            _check_device(os.fstat(fd), self)
            why = "the host's node; the cgroup decides who may open it"
            rootfs_plan.bind_fd(root, fd, self.source, self.path, _NODE_ATTRIBUTES, False, why)
        finally:
            os.close(fd)


class SimulatedNode(Record):
    """Make a device node that no driver is behind, unless the very same is there already."""

    path: str
    major: int
    minor: int
    mode: int

    def describe(self) -> str:
        """Say it as a shell would."""
        return MakeNode(self.path, "c", self.major, self.minor, self.mode).describe()

    def execute(self, root: Root) -> None:
        """Do it. Raises GPUError for another file under that name, OSError."""
        try:
            MakeNode(self.path, "c", self.major, self.minor, self.mode).execute(root)
        except FileExistsError:
            fd = root.open(self.path, os.O_PATH | os.O_NOFOLLOW)
            try:
                _check_device(os.fstat(fd), self)
            finally:
                os.close(fd)


def _check_device(status: os.stat_result, node: "HostNode | SimulatedNode") -> None:
    device = os.makedev(node.major, node.minor)
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev != device:
        hint = f"it should be the character device {node.major}:{node.minor}"
        raise GPUError(f"mount error: invalid device node: {node.path}", hint)


def operations(edits: Edits) -> "tuple[Operation | HostNode | SimulatedNode, ...]":
    """Return what will be done, in order; each can describe() itself and execute(root)."""
    return tuple(operation for step in edits.steps for operation in _operations(step))


def _operations(step: "Step") -> "tuple[Operation | HostNode | SimulatedNode, ...]":
    if isinstance(step, Mount):
        attributes = sum(_ATTRIBUTES[name] for name in step.options)
        return (Bind(step.host_path, step.path, attributes),)
    if isinstance(step, DeviceNode):
        if step.host_path:
            return (HostNode(step.host_path, step.path, step.major, step.minor),)
        return (SimulatedNode(step.path, step.major, step.minor, step.mode),)
    if isinstance(step, Link):
        return (Symlink(step.target, step.path),)
    return _tmpfs(step)


def _tmpfs(step: Tmpfs) -> "tuple[Operation, ...]":
    why = "hides what was there"
    view = MountFs("tmpfs", "tmpfs", step.path, _TMPFS_FLAGS, f"mode={step.mode:o}", why)
    return (view, *(WriteFile(file.path, file.data, file.mode) for file in step.files))


def apply(edits: Edits, root: Root, cgroup: "Cgroup | None", ldconfig_fd: int = -1) -> None:
    """Put `edits` into the container whose root is `root`; `cgroup` None leaves its rules alone.

    The caller is in the container's mount namespace. `ldconfig_fd` is the host's program, opened
    outside; -1 for none. Raises GPUError, OSError.
    """
    mask = os.umask(0)
    try:
        for operation in operations(edits):
            operation.execute(root)
    finally:
        os.umask(mask)
    if cgroup is not None:
        cgroup.allow_devices(edits.device_rules())
    if ldconfig_fd >= 0:
        ldconfig.run(ldconfig_fd, root, edits.library_folders)


def configure(
    argv: "list[str]", *, driver: str, store: str, pid: int, cgroup: "Cgroup | None"
) -> Edits:
    """Do all of stage 5: what `nvidia-container-cli ARGV` would do to the container of `pid`.

    Everything of the host is looked up before entering. Afterwards this process is in the
    container's mount namespace for good. Returns what was done. Raises UsageError, GPUError,
    OSError.
    """
    request = cli_args.parse(argv)
    found = inventory(driver, store)
    ldconfig_fd = ldconfig.open_host(request.ldconfig)
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        why = "the container's mounts, before pivot_root: both trees can be seen"
        namespaces.setns(namespace, namespaces.CLONE_NEWNS, shown=f"/proc/{pid}/ns/mnt", why=why)
    finally:
        os.close(namespace)
    root = Root.at(request.rootfs)
    edits = nvidia.plan(found, request, nvidia.facts(root))
    apply(edits, root, None if request.no_cgroups else cgroup, ldconfig_fd)
    return edits


def record(edits: Edits) -> "dict[str, Any]":
    """Return `edits` as they are kept in the container's edits.json."""
    return edits.as_json()
