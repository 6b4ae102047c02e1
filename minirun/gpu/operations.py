"""The operations of stage 5 that core.rootfs.plan does not have: nodes, files of the driver.

Like those, each can describe() itself and be executed below a container's root.
"""

import os
import stat

from minirun.core.errors import GPUError
from minirun.core.kernel import files, mounts
from minirun.core.record import Record
from minirun.core.rootfs import plan
from minirun.core.rootfs.inroot import Root
from minirun.gpu import driverroot, escape

TYPE_CHECKING = False

_NODE_ATTRIBUTES = mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NOEXEC


class HostNode(Record):
    """Bind a device node of the host, after a look that it is the node it should be.

    No link on the way to it leads out of `below`, the driver root, and it is none itself.
    """

    source: str
    path: str
    major: int
    minor: int
    below: str = ""

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mount --bind {self.source} {self.path}"

    def execute(self, root: Root) -> None:
        """Do it. Raises GPUError where it is missing or another device, OSError."""
        try:
            fd = driverroot.open_source(self.below, self.source, os.O_PATH | os.O_NOFOLLOW)
        except FileNotFoundError:
            text = f"mount error: stat failed: {self.path}: no such file or directory"
            maker = "nvidia-modprobe" if "/nvidia" in self.path else "udevadm trigger"
            hint = f"the driver is loaded, its node is missing: {maker}"
            raise GPUError(text, hint) from None
        try:
            _check_device(os.fstat(fd), self)
            why = "the host's node; the cgroup decides who may open it"
            plan.bind_fd(root, fd, self.source, self.path, _NODE_ATTRIBUTES, False, why)
        finally:
            os.close(fd)


class BindSource(Record):
    """Bind a file or folder of the host; no link on the way leads out of `below`."""

    source: str
    path: str
    attributes: int
    below: str = ""

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mount --rbind {self.source} {self.path}"

    def execute(self, root: Root) -> None:
        """Do it. Raises OSError."""
        fd = driverroot.open_source(self.below, self.source)
        try:
            plan.bind_fd(root, fd, self.source, self.path, self.attributes)
        except FileNotFoundError:  # a link to nothing: made where it points to, inside the root
            path = escape.resolve(root, self.path)
            plan.bind_fd(root, fd, self.source, path, self.attributes)
        finally:
            os.close(fd)


class BindHeld(Record):
    """Bind the file that a descriptor holds: `source` is only how it is called."""

    fd: int
    source: str
    path: str
    attributes: int

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mount --bind {self.source} {self.path}"

    def execute(self, root: Root) -> None:
        """Do it. Raises OSError."""
        why = "the very file that was opened inside the root"
        plan.bind_fd(root, self.fd, self.source, self.path, self.attributes, False, why)


class SimulatedNode(Record):
    """Make a device node that no driver is behind, unless the very same is there already."""

    path: str
    major: int
    minor: int
    mode: int

    def describe(self) -> str:
        """Return it as a shell would say it."""
        return f"mknod -m {self.mode:o} {self.path} c {self.major} {self.minor}"

    def execute(self, root: Root) -> None:
        """Do it. Raises GPUError for another file under that name, OSError."""
        try:
            plan.MakeNode(self.path, "c", self.major, self.minor, self.mode).execute(root)
        except FileExistsError:
            fd = root.open(self.path, os.O_PATH | os.O_NOFOLLOW)
            try:
                _check_device(os.fstat(fd), self)
            finally:
                os.close(fd)
        except PermissionError:
            text = f"{self.path}: simulated GPUs need root: mknod makes their nodes"
            raise GPUError(text, "a real GPU's nodes are bound, which needs no root") from None

    def execute_for_user_namespace(self, root: Root) -> None:
        """Bind a node that lies on a tmpfs mounted from outside.

        On a file system that was mounted in a user namespace no device node can be opened:
        user_namespaces(7). Raises GPUError, OSError.
        """
        name = self.path.rpartition("/")[2]
        why = "mounted from outside: its device nodes can be opened"
        outside = mounts.new_filesystem("tmpfs", {"mode": "0755"}, why=why)
        try:
            mode, device = stat.S_IFCHR | self.mode, os.makedev(self.major, self.minor)
            files.mknodat(outside, name, mode, device, shown=self.path)
            os.chmod(name, self.mode, dir_fd=outside)
            node = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outside)
            try:
                plan.bind_fd(root, node, self.path, self.path, _NODE_ATTRIBUTES, False)
            finally:
                os.close(node)
        except OSError as error:
            if error.errno == 22 and getattr(error, "call", "") == "open_tree":
                text = "simulated GPUs in a user namespace need Linux 6.15"
                raise GPUError(text, "a mount that hangs nowhere cannot be copied before") from None
            raise
        finally:
            os.close(outside)


if TYPE_CHECKING:
    Core = plan.MountFs | plan.Symlink | plan.WriteFile
    Doing = Core | HostNode | BindSource | BindHeld | SimulatedNode


def _check_device(status: os.stat_result, node: "HostNode | SimulatedNode") -> None:
    device = os.makedev(node.major, node.minor)
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev != device:
        hint = f"it should be the character device {node.major}:{node.minor}"
        raise GPUError(f"mount error: invalid device node: {node.path}", hint)
