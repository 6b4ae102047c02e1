"""Stage 1, init's half: the container's root filesystem, in init's own mount namespace.

Nothing is mounted in the host's namespace, so whatever happens to init, its mounts die with it.
The order is runc's (libcontainer/rootfs_linux.go): make its mounts slaves, the overlay, the mounts
of config.json in order, device nodes, links.
"""

from __future__ import annotations

import errno
import os

from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError, reason
from minirun.core.keeping import places
from minirun.core.keeping.record import Record
from minirun.core.kernel import mounts
from minirun.core.rootfs.inroot import Root

_LONGEST = 4095  # bytes that mount(2) reads of a file system's options


class RootMount(Record):
    """Make root.path a mount of its own: an overlay of `layers`, lowest first; a bind mount if
    there are none. `writable` is the directory of the overlay's upper and work.
    """

    path: str
    layers: tuple[str, ...]
    writable: str
    options: str = ""

    def describe(self) -> str:
        if not self.layers:
            return f"mount --rbind {self.path} {self.path}"
        return f"mount -t overlay overlay {self.path} -o {self._options(self.layers)}"

    def execute(self) -> Root:
        """Mount the root filesystem, and open it. Raises ConfigError, OSError."""
        self.check()
        if self.layers:
            layers = self.layers
            if len(self._options(layers)) > _LONGEST:  # their descriptors' numbers are shorter
                layers = tuple(str(os.open(layer, os.O_PATH)) for layer in layers)
                os.chdir("/proc/self/fd")
            self._mount_overlay(layers)
            for layer in layers if layers is not self.layers else ():
                os.close(int(layer))
        else:
            flags = mounts.MS_BIND | mounts.MS_REC
            mounts.mount(self.path, self.path, None, flags, why="pivot_root wants a mount point")
        return Root.at(self.path)

    def _mount_overlay(self, layers: tuple[str, ...]) -> None:
        """Mount the overlay. Raises MinirunError if the file system of its upper layer holds none.

        "Upper directory": the kernel's Documentation/filesystems/overlayfs.rst. In a container of
        docker, whose own root is an overlay, that is so until a volume is mounted there.
        """
        why = "the image stays untouched: what is written goes to upper"
        try:
            mounts.mount("overlay", self.path, "overlay", 0, self._options(layers), why=why)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            text = f"mount: overlay with its upper layer in {self.writable}: {reason(error)}"
            hint = "no overlay, NFS or FUSE can hold it: --root on ext4, xfs, btrfs or tmpfs"
            raise MinirunError(text, hint) from None

    def check(self) -> None:
        """Raise ConfigError if root.path is no directory, or the host's own root."""
        try:  # a link in place of the root filesystem is refused here (CVE-2021-29136)
            fd = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            is_own_root = os.path.samestat(os.fstat(fd), os.stat("/"))
            os.close(fd)
        except OSError as error:
            text = reason(error)
            hint = "a directory, not a link; with layers it is only their mount point"
            raise ConfigError(f"config.json: root.path: {self.path}: {text}", hint) from None
        if is_own_root:  # its mount points would be made there
            raise ConfigError(f"config.json: root.path: {self.path} is the host's own root")

    def _options(self, layers: tuple[str, ...]) -> str:
        """Return overlayfs' options: the layers are read-only, and the first named lies on top."""
        joined, base = ":".join(map(_escape, reversed(layers))), _escape(self.writable)
        data = f"lowerdir={joined},upperdir={base}/{places.UPPER},workdir={base}/{places.WORK}"
        return data + self.options


def root_mount(config: Config, layers: list[str], writable: str) -> RootMount:
    """Return how the root filesystem is mounted."""
    options = ",userxattr" if "user" in config.namespaces else ""
    # volatile: else the kernel syncs the whole disk below when it unmounts
    options += ",volatile" if config.choices.volatile else ""
    return RootMount(config.rootfs, tuple(layers), writable, options)


def _escape(path: str) -> str:
    """Escape what mount(2) and overlayfs give a meaning: backslash, comma, colon."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
