"""A container's root in which nothing is written to files of the host that are mounted there.

-v /dev:/dev shows a container the host's own folder. A node that is made in it for the container is
made on the host, and stays there when the container has ended. So whatever is made, replaced or
removed for devices lies on file systems of the container's own: its root, and what was mounted anew
for it, such as the tmpfs on /dev. A mount of the host's files is one whose file system is mounted
outside of the container's root, too. Before pivot_root both trees are in /proc/self/mountinfo.

To mount on a file that is there writes nothing: only this mount namespace sees it. Unless the mount
below is shared with the host (mount_namespaces(7)), which would then get the new mount as well.

What stage 1 makes for config.json's `mounts` is not guarded: runc makes those mount points, too.
"""

from __future__ import annotations

import os
import stat

from minirun.core.errors import MinirunError
from minirun.core.kernel import mountinfo
from minirun.core.rootfs.inroot import Root


class OwnRoot(Root):
    """A container's root whose mounts of the host's files are not written to.

    What would make something there raises MinirunError. The caller is in the container's mount
    namespace, before pivot_root.
    """

    def __init__(self, fd: int, own: tuple[str, ...] = ()) -> None:
        """Guard a root. `own` are folders of the host that belong to this container alone."""
        super().__init__(fd)
        rows, base = mountinfo.read(), os.readlink(f"/proc/self/fd/{fd}").rstrip("/")
        top = mountinfo.mount_id(fd)
        outside = [row for row in rows if not f"{row.mount_point}/".startswith(f"{base}/")]
        devices = {row.device for row in outside}
        groups = {word for row in outside for word in row.propagation if word[:7] == "shared:"}
        self.host_mounts: dict[int, mountinfo.Mount] = {}
        """Mount id → the mount, its mount_point as the container sees it."""
        self._spreading: set[int] = set()
        for row in rows:
            is_below = row.mount_point.startswith(f"{base}/")
            if not is_below or row.device not in devices or row.mount_id == top:
                continue
            if own and _is_one_of(row.mount_point, own):
                continue
            inside = row.mount_point[len(base) :]
            self.host_mounts[row.mount_id] = row._replace(mount_point=inside)
            if not groups.isdisjoint(row.propagation):
                self._spreading.add(row.mount_id)

    def of_host(self, fd: int) -> mountinfo.Mount | None:
        """Return the mount of the host's files that an open file lies on; None if on none."""
        return self.host_mounts.get(mountinfo.mount_id(fd)) if self.host_mounts else None

    def is_there(self, path: str, source: int) -> bool:
        """Return True if a shared mount of the host's files shows at `path` what `source` is.

        The same device of a node, the same file of another kind: there is nothing left to mount.
        """
        if not self._spreading:
            return False
        try:
            fd = self.open(path)
        except OSError:
            return False
        try:
            found, wanted = os.fstat(fd), os.fstat(source)
            is_shared = mountinfo.mount_id(fd) in self._spreading
        finally:
            os.close(fd)
        if stat.S_ISCHR(wanted.st_mode) and stat.S_ISCHR(found.st_mode):
            return is_shared and found.st_rdev == wanted.st_rdev
        return is_shared and os.path.samestat(found, wanted)

    def make_parent(self, path: str) -> tuple[int, str]:
        """Make the directory that `path` lies in, for something new to be made there."""
        parent, name = super().make_parent(path)
        self._refuse(parent, path)
        return parent, name

    def make_dir(self, path: str, mode: int = 0o755, links: int = 0) -> int:
        """Make the directory `path` and its parents, or find it: see Root."""
        return self._mountable(super().make_dir(path, mode, links), path)

    def make_file(self, path: str, mode: int = 0o644, links: int = 0) -> int:
        """Make an empty file `path`, or find it: see Root."""
        return self._mountable(super().make_file(path, mode, links), path)

    def _step(self, parent: int, name: str, path: str, mode: int, links: int) -> int:
        """Step as Root does; in a host's folder that is an error. Raises MinirunError, OSError."""
        self._refuse(parent, path, keep=True)
        return super()._step(parent, name, path, mode, links)

    def _mountable(self, fd: int, path: str) -> int:
        """Return `fd`, a mount point. Raises MinirunError if the host would get the mount, too."""
        mount = self.of_host(fd)
        if mount and mount.mount_id in self._spreading:
            os.close(fd)
            text = f"the host would get what is mounted at {path}: its files at"
            raise MinirunError(
                f"{text} {mount.mount_point} are a shared mount", "mount them private"
            )
        return fd

    def _refuse(self, parent: int, path: str, *, keep: bool = False) -> None:
        """Raise MinirunError, and close `parent` unless told to keep it, if it is the host's."""
        mount = self.of_host(parent)
        if not mount:
            return
        if not keep:
            os.close(parent)
        raise refusal(path, mount.mount_point)


def refusal(path: str, mount_point: str) -> MinirunError:
    """Return the error for what would be made at `path` among the host's files."""
    text = f"{path} would be made on the host, whose files are mounted at {mount_point}"
    return MinirunError(text, f"mount there only the parts of {mount_point} that are needed")


def has(root: Root, path: str, flags: int = os.O_PATH) -> bool:
    """Return True if a container has `path`, and it can be opened so."""
    try:
        os.close(root.open(path, flags))
    except OSError:
        return False
    return True


def _is_one_of(path: str, folders: tuple[str, ...]) -> bool:
    """Return True if one of `folders` is mounted at `path`."""
    try:
        found = os.stat(path)
        return any(os.path.samestat(found, os.stat(folder)) for folder in folders)
    except OSError:
        return False
