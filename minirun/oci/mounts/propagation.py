"""The propagation of mounts: between host and container, and below the container's root.

What the spec says: runtime-spec, config-linux.md, "Rootfs Mount Propagation"; the kernel:
mount_namespaces(7), "Shared subtrees". What the real stack does: runc, as here, gives the whole
mount namespace a kind of propagation before anything is mounted, and the new root the same kind
once it is the root.
"""

import errno

from minirun.core.container import Container, Extra
from minirun.core.errors import ConfigError
from minirun.core.kernel import mounts
from minirun.core.rootfs.mount_options import PROPAGATION


class Propagation(Extra):
    """linux.rootfsPropagation of one container: `kind` is MS_SHARED and so on, with MS_REC."""

    def __init__(self, container: Container) -> None:
        """Check the word. Raises ConfigError."""
        super().__init__(container)
        word = self.config.linux["rootfsPropagation"]
        if word not in PROPAGATION:
            raise ConfigError(f"config.json: linux.rootfsPropagation: unknown value {word!r}")
        self.kind = PROPAGATION[word]

    def isolate(self) -> bool:
        """Set the propagation of this new mount namespace, which is still a copy of the host's.

        Raises OSError.
        """
        kind = self.kind & ~mounts.MS_REC
        if kind == mounts.MS_UNBINDABLE:  # the root is to be: but first it has to be bound
            kind = mounts.MS_PRIVATE
        why = "no mount of the container may spread back to the host"
        if kind == mounts.MS_SHARED:
            why = "mounts with a shared source spread to the host: rootfsPropagation asks for it"
        mounts.mount(None, "/", None, kind | mounts.MS_REC, why=why)
        if kind == mounts.MS_SHARED:
            _part(self.config.rootfs)
        return True

    def after_hiding(self) -> None:
        """Set the propagation of the container's root, once it is the root. Raises OSError."""
        mounts.mount(None, "/", None, self.kind, why="linux.rootfsPropagation")


def _part(path: str) -> None:
    """Make the mount that `path` lies on private: pivot_root(2) wants it, and so does the host."""
    while True:
        try:
            return mounts.mount(None, path or "/", None, mounts.MS_PRIVATE)
        except OSError as error:
            if error.errno != errno.EINVAL or not path:  # not a mount point
                raise
            path = path.rstrip("/").rpartition("/")[0]
