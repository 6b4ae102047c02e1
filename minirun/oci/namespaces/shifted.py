"""Copies of an image's layers with other owners, where no id-mapped mount can be made.

What the man page says: mount_setattr(2), "ID-mapped mounts": the file system has to know them;
overlayfs, NFS and FUSE (before Linux 6.12) do not. What the real stack does: containers/storage
copies each layer for such a container, and changes its owners; docker keeps a second store.

A copy belongs to one container and goes with it. Its source is a layer of the store, which only
root writes and which does not change, so plain paths are safe here.
"""

from __future__ import annotations

import os
import stat
import struct

from minirun.core import events
from minirun.core.errors import MinirunError, reason
from minirun.core.keeping.record import Record
from minirun.core.kernel import files
from minirun.oci.mounts.copyup import copy_data
from minirun.oci.namespaces import idmap

_CAPABILITY = "security.capability"
_ACLS = ("system.posix_acl_access", "system.posix_acl_default")
_CAPABILITY_V2, _CAPABILITY_V3 = 0x02000000, 0x03000000
_REVISION = 0xFF000000
_V2_BYTES = 20
_ACL_USER, _ACL_GROUP = 0x02, 0x08
_ACL_ENTRY = struct.Struct("<HHI")
_NO_ID = 65534
"""overflowuid, of proc_sys_fs(5): the owner that an id-mapped mount shows for an id without one."""


class Owners(Record):
    """The id maps of a user namespace, as rows of config.json."""

    uids: idmap.IdMapRows
    gids: idmap.IdMapRows

    def user(self, number: int) -> int:
        """Return the host's user for one of the container."""
        found = idmap.host_id(self.uids, number)
        return _NO_ID if found is None else found

    def group(self, number: int) -> int:
        """Return the host's group for one of the container."""
        found = idmap.host_id(self.gids, number)
        return _NO_ID if found is None else found


def copy_layer(layer: str, target: str, owners: Owners) -> None:
    """Copy what lies in `layer` into the directory `target`, for the container's root.

    Files keep their mode, times, links, holes and attributes. Raises MinirunError, with a path.
    """
    try:
        count = _copy(layer, target, owners)
    except OSError as error:
        raise MinirunError(f"{error.filename or target}: {reason(error)}", "free some space, or "
                           "another --root: the layer is copied there") from None  # fmt: skip
    why = "no id-mapped mount can be made of this layer: a copy has the container's ids"
    events.emit("note", "shifted_copy", {"layer": layer, "to": target, "files": count}, why=why)


def _copy(layer: str, target: str, owners: Owners) -> int:
    first_names: dict[int, str] = {}
    """Where a file of several names was copied to, by inode."""
    directories = []
    count = 0
    for place, below, others in os.walk(layer, onerror=_fail):
        new_place = target + place[len(layer) :]
        directories.append((place, new_place))
        for name in (*below, *others):
            old, new = f"{place}/{name}", f"{new_place}/{name}"
            info = os.lstat(old)
            count += 1
            if stat.S_ISDIR(info.st_mode):
                os.mkdir(new, 0o700)
            elif first := first_names.get(info.st_ino):
                os.link(first, new, follow_symlinks=False)
            else:
                if info.st_nlink > 1:
                    first_names[info.st_ino] = new
                _copy_one(old, new, info)
                _make_like(old, new, owners)
    for old, new in reversed(directories):  # a directory's time is that of its last change
        _make_like(old, new, owners)
    return count


def _fail(error: OSError) -> None:
    raise error


def _copy_one(old: str, new: str, info: os.stat_result) -> None:
    """Copy a file that is no directory: its content, or what it names."""
    if stat.S_ISLNK(info.st_mode):
        return os.symlink(os.readlink(old), new)
    if not stat.S_ISREG(info.st_mode):
        return os.mknod(new, stat.S_IFMT(info.st_mode) | 0o600, info.st_rdev)
    source = os.open(old, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            copy_data(source, made, info.st_size)
        finally:
            os.close(made)
    finally:
        os.close(source)
    return None


def _make_like(old: str, new: str, owners: Owners) -> None:
    """Give `new` the owner, mode, attributes and times of `old`; neither is followed."""
    info = os.lstat(old)
    owner = owners.user(info.st_uid), owners.group(info.st_gid)
    os.chown(new, *owner, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        os.chmod(new, stat.S_IMODE(info.st_mode))  # after the owner: chown clears setuid bits
    for name in files.attributes(old, follow_symlinks=False):
        value = os.getxattr(old, name, follow_symlinks=False)
        os.setxattr(new, name, _attribute(name, value, owners), follow_symlinks=False)
    os.utime(new, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)


def _attribute(name: str, value: bytes, owners: Owners) -> bytes:
    """Return an attribute's value, with the container's ids where it has ids."""
    if name == _CAPABILITY:
        return _capability(value, owners)
    return _acl(value, owners) if name in _ACLS else value


def _capability(value: bytes, owners: Owners) -> bytes:
    """Return a file's capabilities, for the container's root: capabilities(7), "versioning"."""
    magic = int.from_bytes(value[:4], "little")
    if magic & _REVISION != _CAPABILITY_V2:
        return value
    magic = magic & ~_REVISION | _CAPABILITY_V3
    return struct.pack("<I", magic) + value[4:_V2_BYTES] + struct.pack("<I", owners.user(0))


def _acl(value: bytes, owners: Owners) -> bytes:
    """Return an access control list: a version, then entries of tag, rights and id. acl(5)."""
    shifted = value[:4]
    for tag, rights, number in _ACL_ENTRY.iter_unpack(value[4:]):
        if tag == _ACL_USER:
            number = owners.user(number)
        elif tag == _ACL_GROUP:
            number = owners.group(number)
        shifted += _ACL_ENTRY.pack(tag, rights, number)
    return shifted
