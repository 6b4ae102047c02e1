"""Whether mounts spread: between the host and the container, and below the container's root.

What the spec says: runtime-spec, config-linux.md, "Rootfs Mount Propagation"; the kernel:
mount_namespaces(7), "Shared subtrees". What the real stack does: runc, as here, gives the whole
mount namespace a kind of propagation before anything is mounted, and the new root the same kind
once it is the root.
"""

from minirun.core.config import Config
from minirun.core.errors import ConfigError, MinirunError
from minirun.core.kernel import mounts
from minirun.oci.mounts.options import PROPAGATION

_EINVAL = 22


def _wanted(config: Config) -> int:
    """Return MS_SHARED and so on, with MS_REC, as config.json has it; 0 where it has nothing."""
    word = config.linux.get("rootfsPropagation")
    if word and word not in PROPAGATION:
        raise ConfigError(f"config.json: linux.rootfsPropagation: unknown value {word!r}")
    return PROPAGATION[word] if word else 0


def is_shared(config: Config) -> bool:
    """Whether mounts of the container are to spread to the host, where the host's are shared."""
    return bool(_wanted(config) & mounts.MS_SHARED)


def before(config: Config) -> None:
    """Set the propagation of this new mount namespace, which is still a copy of the host's.

    Raises OSError, ConfigError; MinirunError in a chroot(2), where pivot_root(2) would fail too.
    """
    wanted = _wanted(config)
    kind = wanted & ~mounts.MS_REC or mounts.MS_SLAVE
    if kind == mounts.MS_UNBINDABLE:  # the root is to be: but first it has to be bound
        kind = mounts.MS_PRIVATE
    why = "no mount of the container may spread back to the host"
    if kind == mounts.MS_SHARED:
        why = "mounts with a shared source spread to the host: rootfsPropagation asks for it"
    try:
        mounts.mount(None, "/", None, kind | mounts.MS_REC, why=why)
    except OSError as error:
        if error.errno != _EINVAL:
            raise
        what = "/ is no mount point, as in a chroot: no container can be made here"
        raise MinirunError(what, "mount --bind DIR DIR before chroot DIR") from None
    if kind == mounts.MS_SHARED:
        _part(config.rootfs)


def _part(path: str) -> None:
    """Make the mount that `path` lies on private: pivot_root(2) wants it, and so does the host."""
    while True:
        try:
            return mounts.mount(None, path or "/", None, mounts.MS_PRIVATE)
        except OSError as error:
            if error.errno != _EINVAL or not path:  # EINVAL: not a mount point
                raise
            path = path.rstrip("/").rpartition("/")[0]


def after(config: Config) -> None:
    """Set the propagation of the container's root, once it is the root. Raises OSError."""
    wanted = _wanted(config)
    if wanted:
        mounts.mount(None, "/", None, wanted, why="linux.rootfsPropagation")
