"""tmpcopyup: what the image has in a directory, copied into what is mounted over it.

What the spec says: runtime-spec, config.md, "Linux mount options": it MAY be. What the real stack
does: runc copies into a tmpfs elsewhere and moves that; crun and podman use it for /etc, /run and
the like with a read-only root. Here the old directory is held by a descriptor and copied from.

A volume is filled in the same way, if nothing is in it yet. The tree is the image's: links are
copied, never followed; what is neither file, directory nor link (a device, a FIFO, a socket) is
left out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from minirun.core.errors import os_error
from minirun.core.keeping import places
from minirun.core.rootfs import mount_entry, mount_options, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.config import Config

_NOT_TAKEN = (errno.EPERM, errno.EOPNOTSUPP)
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
        copy_directory(source, draft)
        make_like(target, source)
        there = os.listdir(target)
        for name in os.listdir(draft):
            if name not in there:
                os.rename(name, name, src_dir_fd=draft, dst_dir_fd=target)
    finally:
        os.close(draft)
    tree.remove_at(target, _FILLING)


def copy_directory(source: int, target: int, depth: int = 0) -> None:
    """Copy what lies in the directory `source`, and its mode and owner, into `target`.

    Both are descriptors. Raises OSError.
    """
    if depth > _DEEPEST:
        raise os_error(errno.ENAMETOOLONG, "tmpcopyup")
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=source)
    try:
        for name in os.listdir(readable):
            info = os.stat(name, dir_fd=readable, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                _enter(readable, target, name, depth)
            elif stat.S_ISLNK(info.st_mode):
                os.symlink(os.readlink(name, dir_fd=readable), name, dir_fd=target)
                os.chown(name, info.st_uid, info.st_gid, dir_fd=target, follow_symlinks=False)
            elif stat.S_ISREG(info.st_mode):
                _copy_file(readable, target, name, info)
        if depth:
            make_like(target, readable)
    finally:
        os.close(readable)


def _enter(source: int, target: int, name: str, depth: int) -> None:
    os.mkdir(name, 0o700, dir_fd=target)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    below = os.open(name, flags, dir_fd=source)
    try:
        new = os.open(name, flags, dir_fd=target)
        try:
            copy_directory(below, new, depth + 1)
        finally:
            os.close(new)
    finally:
        os.close(below)


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
    for name in os.listxattr(path):
        try:
            os.setxattr(fd, name, os.getxattr(path, name))
        except OSError as error:
            if error.errno not in _NOT_TAKEN:
                raise
    os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))
