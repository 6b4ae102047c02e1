"""tmpcopyup: what the image has in a directory, copied into what is mounted over it.

What the spec says: runtime-spec, config.md, "Linux mount options": it MAY be. What the real stack
does: runc copies into a tmpfs elsewhere and moves that; crun and podman use it for /etc, /run and
the like with a read-only root. Here the old directory is held by a descriptor and copied from.

A volume is filled in the same way, if nothing is in it yet. The tree is the image's: links are
copied, never followed. Names of one file stay that, as far as they lie in the tree: hard links.
Devices and FIFOs are made anew, if the kernel lets this user; a socket is left out, as with docker.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from minirun.core.errors import os_error
from minirun.core.keeping import places
from minirun.core.kernel import files
from minirun.core.rootfs import mount_entry, mount_options, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.config import Config

_NOT_TAKEN = (errno.EPERM, errno.EOPNOTSUPP)
_STAY = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS | files.RESOLVE_NO_MAGICLINKS
_DEEPEST = 200
"""Levels; each holds two descriptors open."""


_FILLING = ".minirun-filling"
"""What is copied into a volume lies here until it is whole."""


def is_filled(config: Config, row: dict[str, Any]) -> bool:
    """Return True if this mount is a volume that is filled from the image when it is empty."""
    words = row.get("options") or ()
    return bool(config.layers) and mount_entry.is_bind(row) and mount_options.COPY_UP in words


def volumes(config: Config) -> list[str]:
    """Return the directories of an image's volumes, relative to the container's own."""
    rows = [row for row in config.raw.get("mounts") or () if is_filled(config, row)]
    return [row["source"] for row in rows if row["source"].startswith(f"{places.VOLUMES}/")]


def fill(source: int, target: int) -> None:
    """Copy the directory `source`, with its mode and owner, into the volume `target`, if that is
    empty.

    Of containers that begin with one volume at a time the first copies, and the others wait. If it
    is killed, the next one goes on: each name in the volume's root appears when all below it is
    there. Raises OSError.
    """
    fcntl.flock(target, fcntl.LOCK_EX)  # until `target` is closed
    there = os.listdir(target)
    if there and _FILLING not in there:
        return
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=source)
    try:
        if os.listdir(readable):
            _fill(readable, target)
        make_like(target, source)
    finally:
        os.close(readable)


def _fill(source: int, target: int) -> None:
    tree.remove_at(target, _FILLING)
    os.mkdir(_FILLING, 0o700, dir_fd=target)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    draft = os.open(_FILLING, flags, dir_fd=target)
    try:
        copy_tree(source, draft)
        make_like(target, source)
        there = os.listdir(target)
        for name in os.listdir(draft):
            if name not in there:
                os.rename(name, name, src_dir_fd=draft, dst_dir_fd=target)
    finally:
        os.close(draft)
    tree.remove_at(target, _FILLING)


def copy_tree(source: int, target: int) -> None:
    """Copy what lies in the directory `source` into `target`, by descriptors. Raises OSError."""
    _Copy(target).directory(source, target, "")


class _Copy:
    """One tree that is being copied."""

    def __init__(self, top: int) -> None:
        self._top = top
        """Descriptor of the directory that it is copied into."""
        self._made: dict[tuple[int, int], tuple[str, tuple[int, int]]] = {}
        """Files of several names: device and inode → the copy's path below the top, and its own."""

    def directory(self, source: int, target: int, path: str, depth: int = 0) -> None:
        """Copy a directory, with mode and owner if it is not the top; `path`: below the top."""
        if depth > _DEEPEST:
            raise os_error(errno.ENAMETOOLONG, "tmpcopyup")
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=source)
        try:
            for name in os.listdir(readable):
                self._entry(readable, target, name, f"{path}{name}", depth)
            if depth:
                make_like(target, readable)
        finally:
            os.close(readable)

    def _entry(self, source: int, target: int, name: str, path: str, depth: int) -> None:
        info = os.stat(name, dir_fd=source, follow_symlinks=False)
        kind = stat.S_IFMT(info.st_mode)
        if kind == stat.S_IFDIR:
            self._enter(source, target, name, f"{path}/", depth)
        elif kind == stat.S_IFSOCK or (info.st_nlink > 1 and self._link(target, name, info)):
            return
        elif kind == stat.S_IFLNK:
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            os.chown(name, info.st_uid, info.st_gid, dir_fd=target, follow_symlinks=False)
        elif kind == stat.S_IFREG:
            _copy_file(source, target, name, info)
        elif not _make_node(target, name, path, info):
            return
        if info.st_nlink > 1 and kind != stat.S_IFDIR:
            made = os.stat(name, dir_fd=target, follow_symlinks=False)
            self._made[_inode(info)] = (path, _inode(made))

    def _enter(self, source: int, target: int, name: str, path: str, depth: int) -> None:
        os.mkdir(name, 0o700, dir_fd=target)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        below = os.open(name, flags, dir_fd=source)
        try:
            new = os.open(name, flags, dir_fd=target)
            try:
                self.directory(below, new, path, depth + 1)
            finally:
                os.close(new)
        finally:
            os.close(below)

    def _link(self, target: int, name: str, info: os.stat_result) -> bool:
        """Give a file that is copied already one more name; False if it is not.

        A container that has the volume may have put another file there meanwhile: then, too.
        """
        if _inode(info) not in self._made:
            return False
        path, own = self._made[_inode(info)]
        try:
            fd = files.openat2(self._top, path, os.O_PATH | os.O_NOFOLLOW, _STAY)
        except OSError:
            return False
        try:
            if _inode(os.fstat(fd)) != own:
                return False
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=target, follow_symlinks=True)
        finally:
            os.close(fd)
        return True


def _inode(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _make_node(target: int, name: str, path: str, info: os.stat_result) -> bool:
    """Make a device or a FIFO as it is in the image; False if this user may not."""
    why = "the image has it there"
    try:
        files.mknodat(target, name, info.st_mode, info.st_rdev, shown=path, why=why)
    except OSError as error:
        if error.errno not in _NOT_TAKEN:
            raise
        return False
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target)
    try:
        os.chown(f"/proc/self/fd/{fd}", info.st_uid, info.st_gid)
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(info.st_mode))
        os.utime(f"/proc/self/fd/{fd}", ns=(info.st_atime_ns, info.st_mtime_ns))
    finally:
        os.close(fd)
    return True


def _copy_file(source: int, target: int, name: str, info: os.stat_result) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    old = os.open(name, flags, dir_fd=source)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        new = os.open(name, flags, 0o600, dir_fd=target)
        try:
            copy_data(old, new, info.st_size)
            make_like(new, old)
        finally:
            os.close(new)
    finally:
        os.close(old)


def copy_data(old: int, new: int, size: int) -> None:
    """Copy a file without its holes: 10 GiB of nothing would be 10 GiB of the host's memory.

    lseek(2), SEEK_DATA.
    """
    os.truncate(new, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # a hole up to the end
        end = os.lseek(old, at, os.SEEK_HOLE)
        while at < end and (chunk := os.pread(old, min(end - at, 1 << 20), at)):
            at += os.pwrite(new, chunk, at)
        at = max(at, end)  # the file became shorter while it was copied


def make_like(fd: int, old: int) -> None:
    """Give `fd` the owner, mode, times and attributes of `old`, an O_PATH descriptor or another.

    An attribute that the file system does not take (user.* on tmpfs before Linux 6.6) is left
    out.
    """
    info = os.fstat(old)
    os.fchown(fd, info.st_uid, info.st_gid)
    os.fchmod(fd, stat.S_IMODE(info.st_mode))  # after the owner: chown clears setuid bits
    path = f"/proc/self/fd/{old}"
    for name in files.attributes(path):
        try:
            os.setxattr(fd, name, os.getxattr(path, name))
        except OSError as error:
            if error.errno not in _NOT_TAKEN:
                raise
    os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))
