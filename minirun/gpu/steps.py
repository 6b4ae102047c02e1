"""The steps of which Edits consist: each can describe() itself, and be executed in a container.

A source is a path of the host, or a descriptor; no link on the way to it leads out of the driver
root, if it lies below that (minirun.gpu.driverroot). A destination is resolved below a descriptor
of the container's root, in which nothing is made among files of the host that are mounted there
(minirun.core.rootfs.own_root).
"""

from __future__ import annotations

import errno
import os
import stat

from minirun.core.errors import GPUError
from minirun.core.keeping.record import Record
from minirun.core.kernel import files, mounts
from minirun.core.rootfs import execute, operations
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.own_root import OwnRoot, has
from minirun.gpu import driverroot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.rootfs import Plan

FILE = ("ro", "nosuid", "nodev")
"""Options of a mounted file of the driver."""
_ATTRIBUTES = {
    "ro": mounts.MOUNT_ATTR_RDONLY,
    "nosuid": mounts.MOUNT_ATTR_NOSUID,
    "nodev": mounts.MOUNT_ATTR_NODEV,
    "noexec": mounts.MOUNT_ATTR_NOEXEC,
}
_NODE = mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NOEXEC
_TMPFS = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


class Place(Record):
    """The container in which steps are executed, and the driver root of their sources."""

    root: OwnRoot
    driver_root: str = ""
    is_mapped: bool = False
    """The container has a user namespace."""


class DeviceNode(Record):
    """A device node: CDI's deviceNodes entry. `permissions` is out of "rwm".

    CDI may leave open what it is: `kind` "" and `major` 0 are looked up on the host, `mode` None is
    the runtime's default, `uid` and `gid` None are those of the container's process.
    """

    path: str
    kind: str
    major: int
    minor: int
    mode: int | None = 0o666
    uid: int | None = 0
    gid: int | None = 0
    permissions: str = "rw"
    host_path: str = ""
    """The host's node to bind. Empty: none exists there (simulated driver), so one is made.

    In CDI, where the runtime makes every node: empty if its path is the same.
    """

    def describe(self) -> str:
        """Return it as a shell would say it."""
        if self.host_path:
            return f"mount --bind {self.host_path} {self.path}"
        return f"mknod -m {self.mode or 0:o} {self.path} c {self.major} {self.minor}"

    def execute(self, at: Place) -> None:
        """Bind the host's node; if the driver is simulated, make one.

        Raises GPUError for another file under one of its names, OSError.
        """
        if self.host_path:
            self._bind(at)
        elif at.is_mapped:
            self._bind_from_outside(at.root)
        else:
            self._make_node(at.root)

    def _bind(self, at: Place) -> None:
        """Bind the host's node, after a check that it is the right device."""
        try:
            flags = os.O_PATH | os.O_NOFOLLOW
            fd = driverroot.open_source(at.driver_root, self.host_path, flags)
        except FileNotFoundError:
            text = f"mount error: stat failed: {self.path}: no such file or directory"
            maker = "nvidia-modprobe" if "/nvidia" in self.path else "udevadm trigger"
            hint = f"the driver is loaded, its node is missing: {maker}"
            raise GPUError(text, hint) from None
        try:
            self._check(os.fstat(fd))
            why = "the host's node; the cgroup decides who may open it"
            if not at.root.is_there(self.path, fd):
                operations.bind_fd(at.root, fd, self.host_path, self.path, _NODE, False, why)
        finally:
            os.close(fd)

    def _make_node(self, root: Root) -> None:
        """Make a node that no driver serves, unless the same one is there already."""
        try:
            fd = root.open(self.path, os.O_PATH | os.O_NOFOLLOW)
        except FileNotFoundError:
            pass
        else:
            try:
                return self._check(os.fstat(fd))
            finally:
                os.close(fd)
        try:
            node = operations.MakeNode(self.path, "c", self.major, self.minor, self.mode or 0)
            node.execute(root)
        except PermissionError:
            text = f"{self.path}: simulated GPUs need root: mknod makes their nodes"
            raise GPUError(text, "a real GPU's nodes are bound, which needs no root") from None

    def _bind_from_outside(self, root: Root) -> None:
        """Bind a node that lies on a tmpfs mounted from outside.

        On a file system that was mounted in a user namespace no device node can be opened:
        user_namespaces(7).
        """
        name, mode = self.path.rpartition("/")[2], self.mode or 0
        why = "mounted from outside: its device nodes can be opened"
        outside = mounts.new_filesystem("tmpfs", {"mode": "0755"}, why=why)
        try:
            device = os.makedev(self.major, self.minor)
            files.mknodat(outside, name, stat.S_IFCHR | mode, device, shown=self.path)
            os.chmod(name, mode, dir_fd=outside)
            node = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outside)
            try:
                operations.bind_fd(root, node, self.path, self.path, _NODE, False)
            finally:
                os.close(node)
        except OSError as error:
            if error.errno == errno.EINVAL and getattr(error, "call", "") == "open_tree":
                text = "simulated GPUs in a user namespace need Linux 6.15"
                raise GPUError(text, "a mount that hangs nowhere cannot be copied before") from None
            raise
        finally:
            os.close(outside)

    def _check(self, status: os.stat_result) -> None:
        device = os.makedev(self.major, self.minor)
        if not stat.S_ISCHR(status.st_mode) or status.st_rdev != device:
            hint = f"it should be the character device {self.major}:{self.minor}"
            raise GPUError(f"mount error: invalid device node: {self.path}", hint)


class BindMount(Record):
    """A file, directory or socket of the host, bound into the container."""

    host_path: str
    path: str
    options: tuple[str, ...] = FILE
    kind: str = ""
    """CDI's type, for what is no file of the host."""

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mount --rbind {self.host_path} {self.path}"

    def execute(self, at: Place) -> None:
        """Bind it to its path in the container. Raises OSError."""
        fd = driverroot.open_source(at.driver_root, self.host_path)
        try:
            attributes = sum(_ATTRIBUTES[name] for name in self.options)
            if not at.root.is_there(self.path, fd):
                operations.bind_fd(at.root, fd, self.host_path, self.path, attributes)
        finally:
            os.close(fd)


class CompatLibrary(Record):
    """A CUDA compatibility library of the image, bound beside the driver's own.

    The only thing of an image that is ever a mount's source, and never by its path: `fd` was opened
    inside the container's root (minirun.gpu.nvidia.cli.compat). `host_path` is only shown.
    """

    fd: int
    host_path: str
    path: str

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mount --bind {self.host_path} {self.path}"

    def execute(self, at: Place) -> None:
        """Do it. Raises OSError."""
        why = "the very file that was opened inside the root"
        attributes = sum(_ATTRIBUTES[name] for name in FILE)
        operations.bind_fd(at.root, self.fd, self.host_path, self.path, attributes, False, why)


class Link(Record):
    """A symbolic link made in the container; a name that is there already is left alone."""

    target: str
    path: str

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"ln -s {self.target} {self.path}"

    def execute(self, at: Place) -> None:
        """Make the link. Raises MinirunError, OSError."""
        if not has(at.root, self.path, os.O_PATH | os.O_NOFOLLOW):
            operations.Symlink(self.target, self.path).execute(at.root)


class Tmpfs(Record):
    """A fresh tmpfs that hides what the container had at `path` and holds these files."""

    path: str
    files: tuple[operations.WriteFile, ...] = ()
    mode: int = 0o555

    def _plan(self) -> Plan:
        """Return the operations: the tmpfs, then the files in it."""
        why = "hides what was there"
        view = operations.MountFs("tmpfs", "tmpfs", self.path, _TMPFS, f"mode={self.mode:o}", why)
        return (view, *self.files)

    def describe(self) -> str:
        """Return it as a shell would say it, with a line for each file."""
        return "\n".join(operation.describe() for operation in self._plan())

    def execute(self, at: Place) -> None:
        """Mount the tmpfs, and write its files. Raises OSError."""
        execute(self._plan(), at.root)


Step = DeviceNode | BindMount | Link | Tmpfs | CompatLibrary
