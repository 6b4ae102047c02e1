"""A container without a mount namespace of its own: it sees the host's mounts; the host sees its.

pivot_root(2) would move the host's own root, so chroot(2) leads into the container's: a process
that may chroot can leave it. What is mounted for the container is mounted on the host, and stays
there when its processes have ended. So the root filesystem is bound upon itself first, and that one
mount, on which all others lie, is noted in the container's record: `delete` unmounts it.

What the real stack does: runc makes the mounts in the same way, sets every mount of the host to
rslave before, and leaves its own behind (its issue 2095). minirun changes no mount that it has not
made.
"""

from __future__ import annotations

import os

from minirun.core.container import Extra
from minirun.core.errors import StateError
from minirun.core.keeping import state
from minirun.core.kernel import mountinfo, mounts
from minirun.core.rootfs import build
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import HostMountRecord


class HostNamespace(Extra):
    """The mounts of one container, in the namespace that minirun was called in."""

    def clone(self, flags: int) -> None:
        """Bind the root filesystem upon itself, and note the mount. Raises ConfigError, OSError."""
        rootfs = self.config.rootfs
        build.root_mount(self.config, [], "").check()
        why = "all that is mounted for the container lies on this mount"
        flags = mounts.OPEN_TREE_CLONE | mounts.AT_RECURSIVE
        tree = mounts.open_tree(mounts.AT_FDCWD, rootfs, flags, why=why)
        place = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        noted: HostMountRecord = {
            "id": mountinfo.mount_id(tree), "directory": _directory(place),
            "boot": state.boot_id(),
        }  # fmt: skip
        self.container.save(self.container.record._replace(root_mount=noted))
        mounts.move_mount(tree, place, shown=rootfs)  # it becomes shared if what it lies on is
        why = "no mount in it may spread to other mount namespaces"
        mounts.mount_setattr(tree, propagation=mounts.MS_PRIVATE, recursive=True, why=why)
        os.close(place)
        os.close(tree)

    def isolate(self) -> bool:
        """Leave the host's mounts as they are, whatever linux.rootfsPropagation says."""
        return True

    def change_root(self, root: Root) -> bool:
        """Go into `root` with chroot. Raises OSError."""
        os.fchdir(root.fd)
        root.close()
        mounts.chroot(".", why="no mount namespace: the host's mounts stay where they are")
        os.chdir("/")
        return True

    def ended(self) -> None:
        """Unmount what clone() has mounted on the host. Raises StateError, OSError."""
        if noted := self.container.record.root_mount:
            unmount(noted)


def unmount(noted: HostMountRecord) -> None:
    """Unmount what :meth:`HostNamespace.clone` has noted, and what lies on it.

    Raises StateError if something else lies over it, OSError.
    """
    while noted["boot"] == state.boot_id():
        listed = {mount.mount_id: mount for mount in mountinfo.read()}
        if noted["id"] not in listed:
            return
        fd = _open_top(listed, noted)
        try:
            why = "the container's mounts leave the host"
            mounts.umount2(f"/proc/self/fd/{fd}", mounts.MNT_DETACH, why=why)
        finally:
            os.close(fd)


def _open_top(listed: dict[int, mountinfo.Mount], noted: HostMountRecord) -> int:
    """Open the container's mount that lies on top. Raises StateError if another's does, OSError."""
    place = listed[noted["id"]].mount_point  # where it is by now: a folder can be renamed
    try:
        fd = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        is_own = _lies_on(listed, mountinfo.mount_id(fd), noted["id"])
        if is_own and _directory(fd) == noted["directory"]:
            return fd
        os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        pass
    text = f"{place} cannot be unmounted: another mount lies over it"
    raise StateError(text, "umount that, then delete the container again")


def _directory(fd: int) -> list[int]:
    """Return what a directory is known by, under whatever name: device and inode."""
    found = os.fstat(fd)
    return [found.st_dev, found.st_ino]


def _lies_on(listed: dict[int, mountinfo.Mount], mount_id: int, below: int) -> bool:
    """Return True if a mount is `below`, or mounted somewhere on it."""
    while mount_id in listed and mount_id != below:
        parent = listed[mount_id].parent
        if parent == mount_id:
            break
        mount_id = parent
    return mount_id == below
