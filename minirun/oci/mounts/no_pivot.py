"""--no-pivot, as in runc: the container's root is moved over the host's, for a root on a ramdisk.

pivot_root(2) refuses such a root. The host's tree stays below the container's: a process that may
chroot can leave. Its /proc and /sys at least are unmounted, because masks would not hold.
"""

import os

from minirun.core.container import Extra
from minirun.core.kernel import mountinfo, mounts
from minirun.core.rootfs.inroot import Root


class NoPivot(Extra):
    """The way into the root filesystem without pivot_root."""

    def change_root(self, root: Root) -> bool:
        """Lay `root` over the host's root, and go there with chroot. Raises OSError."""
        os.fchdir(root.fd)
        root.close()
        own = os.getcwd()
        for mount in reversed(mountinfo.read()):
            place = mount.mount_point
            if mount.fs_type in ("proc", "sysfs") and not place.startswith(f"{own}/"):
                try:
                    mounts.umount2(place, mounts.MNT_DETACH, why="nothing of the host to look into")
                except OSError:
                    pass  # below one that has just gone
        if not self.config.linux.get("rootfsPropagation"):
            mounts.mount(None, ".", None, mounts.MS_PRIVATE, why="as after pivot_root")
        why = "--no-pivot: the host's tree stays below it"
        mounts.mount(".", "/", None, mounts.MS_MOVE, why=why)
        mounts.chroot(".")
        os.chdir("/")
        return True
