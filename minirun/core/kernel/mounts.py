"""Mounting: the old calls, mount(2) and umount2(2), and the new ones, which work on descriptors.

The new calls make a mount that is not attached, and then move it onto a directory descriptor: no
path is looked up twice, so an image cannot swap a directory for a link in between
(CVE-2021-30465 and its many descendants).
"""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_ulong, c_void_p

from minirun.core.kernel import libc

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_SYNCHRONOUS, MS_REMOUNT, MS_MANDLOCK, MS_DIRSYNC = 0x10, 0x20, 0x40, 0x80
MS_NOSYMFOLLOW, MS_NOATIME, MS_NODIRATIME = 0x100, 0x400, 0x800
MS_BIND, MS_MOVE, MS_REC, MS_SILENT = 0x1000, 0x2000, 0x4000, 0x8000
MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE, MS_SHARED = 1 << 17, 1 << 18, 1 << 19, 1 << 20
MS_RELATIME, MS_I_VERSION, MS_STRICTATIME, MS_LAZYTIME = 1 << 21, 1 << 23, 1 << 24, 1 << 25
MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8

MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC = 0x1, 0x2, 0x4, 0x8
MOUNT_ATTR_RELATIME, MOUNT_ATTR_NOATIME, MOUNT_ATTR_STRICTATIME = 0x0, 0x10, 0x20
MOUNT_ATTR__ATIME, MOUNT_ATTR_NODIRATIME = 0x70, 0x80
MOUNT_ATTR_IDMAP, MOUNT_ATTR_NOSYMFOLLOW = 0x100000, 0x200000

AT_EMPTY_PATH, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW = 0x1000, 0x8000, 0x100
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 0x1, 0o2000000
MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH = 0x4, 0x40
FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC = 1, 1
FSCONFIG_SET_FLAG, FSCONFIG_SET_STRING, FSCONFIG_CMD_CREATE = 0, 1, 6
AT_FDCWD = -100

_MS_NAMES, _UMOUNT_NAMES = libc.table(globals(), "MS_"), libc.table(globals(), "MNT_", "UMOUNT_")
_ATTR_NAMES = libc.table(globals(), "MOUNT_ATTR_")
_ATTR_NAMES.pop("MOUNT_ATTR__ATIME")  # a mask of the others
_TREE_NAMES = libc.table(globals(), "OPEN_TREE_", "AT_EMPTY", "AT_RECURSIVE", "AT_SYMLINK")

_mount = libc.bind("mount", c_char_p, c_char_p, c_char_p, c_ulong, c_char_p)
_umount2 = libc.bind("umount2", c_char_p, c_int)
_pivot_root = libc.bind("pivot_root", c_char_p, c_char_p)
_chroot = libc.bind("chroot", c_char_p)
_open_tree = libc.bind_syscall(c_int, c_char_p, c_uint)
_move_mount = libc.bind_syscall(c_int, c_char_p, c_int, c_char_p, c_uint)
_mount_setattr = libc.bind_syscall(c_int, c_char_p, c_uint, c_void_p, c_size_t)
_fsopen = libc.bind_syscall(c_char_p, c_uint)
_fsconfig = libc.bind_syscall(c_int, c_uint, c_char_p, c_char_p, c_int)
_fsmount = libc.bind_syscall(c_int, c_uint, c_uint)


class MountAttr(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = [(name, c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def _bytes(text: str | None) -> bytes | None:
    """Return a path or an option as C has it; None for NULL."""
    return None if text is None else text.encode(errors="surrogateescape")


def mount(
    source: str | None, target: str, fstype: str | None = None, flags: int = 0,
    data: str | None = None, *, shown: str | None = None, why: str = "",
) -> None:  # fmt: skip
    """Mount, bind, remount or change propagation: mount(2).

    `shown` is the path that an error names if `target` is a /proc/self/fd/N.
    """
    args = {
        "source": source, "target": target, "fstype": fstype,
        "flags": libc.flag_names(flags, _MS_NAMES), "data": data,
    }  # fmt: skip
    if shown:
        args["path"] = shown
    raw = (_bytes(source), _bytes(target), _bytes(fstype), flags, _bytes(data))
    libc.logged("mount", _mount, raw, args, shown or target, why)


def umount2(target: str, flags: int = 0, *, why: str = "") -> None:
    """Unmount; with MNT_DETACH as soon as no process uses it any more: umount2(2)."""
    args = {"target": target, "flags": libc.flag_names(flags, _UMOUNT_NAMES)}
    libc.logged("umount2", _umount2, (_bytes(target), flags), args, target, why)


def detach(target: str, *, why: str = "") -> bool:
    """Unmount what is mounted at a path as soon as no process uses it; links are not followed.

    Return False if nothing is mounted there any more: a container's supervisor and `delete` may
    both be at it. Raises OSError.
    """
    try:
        umount2(target, MNT_DETACH | UMOUNT_NOFOLLOW, why=why)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            raise
        return False
    return True


def pivot_root(new_root: str, put_old: str, *, why: str = "") -> None:
    """Make `new_root` the root of this mount namespace: pivot_root(2)."""
    args = {"new_root": new_root, "put_old": put_old}
    raw = (_bytes(new_root), _bytes(put_old))
    libc.logged("pivot_root", _pivot_root, raw, args, new_root, why)


def chroot(path: str, *, why: str = "") -> None:
    """Change the root directory of this process alone: chroot(2)."""
    libc.logged("chroot", _chroot, (_bytes(path),), {"path": path}, path, why)


def open_tree(dirfd: int, path: str, flags: int, *, shown: str | None = None, why: str = "") -> int:
    """Return a descriptor of the mount at `path`, with OPEN_TREE_CLONE of a detached copy of it.

    open_tree(2); Linux 5.2.
    """
    flags |= OPEN_TREE_CLOEXEC
    args = {"dirfd": dirfd, "path": path, "flags": libc.flag_names(flags, _TREE_NAMES)}
    if shown:
        args["source"] = shown
    raw = (428, dirfd, _bytes(path), flags)
    return libc.logged("open_tree", _open_tree, raw, args, shown or path, why)


def move_mount(
    mount_fd: int, target_fd: int, name: str = "", *, shown: str = "", why: str = ""
) -> None:
    """Attach the detached mount `mount_fd` to the file or directory `target_fd`: move_mount(2).

    Or onto `name` in it, which is not followed if it is a link.
    """
    flags = MOVE_MOUNT_F_EMPTY_PATH | (0 if name else MOVE_MOUNT_T_EMPTY_PATH)
    args = {"from": mount_fd, "to": target_fd, "path": shown}
    raw = (429, mount_fd, b"", target_fd, _bytes(name), flags)
    libc.logged("move_mount", _move_mount, raw, args, shown, why)


def mount_setattr(
    mount_fd: int, attr_set: int = 0, attr_clr: int = 0, *, recursive: bool = False,
    propagation: int = 0, userns: int = 0, shown: str = "", why: str = "",
) -> None:  # fmt: skip
    """Set and clear properties (MOUNT_ATTR_*) of a mount: mount_setattr(2); Linux 5.12.

    `userns` is a descriptor of the user namespace for MOUNT_ATTR_IDMAP.
    """
    attr = MountAttr(attr_set, attr_clr, propagation, userns)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    args = {
        "fd": mount_fd, "set": libc.flag_names(attr_set, _ATTR_NAMES),
        "clear": libc.flag_names(attr_clr, _ATTR_NAMES),
        "propagation": libc.flag_names(propagation, _MS_NAMES), "recursive": recursive,
    }  # fmt: skip
    raw = (442, mount_fd, b"", flags, ctypes.addressof(attr), ctypes.sizeof(attr))
    libc.logged("mount_setattr", _mount_setattr, raw, args, shown, why)


def fsopen(fstype: str, *, why: str = "") -> int:
    """Return a descriptor for what a new file system is to be: fsopen(2); Linux 5.2."""
    raw = (430, _bytes(fstype), FSOPEN_CLOEXEC)
    return libc.logged("fsopen", _fsopen, raw, {"fstype": fstype}, fstype, why)


def new_filesystem(
    fstype: str, options: dict[str, str], attributes: int = 0, *, why: str = ""
) -> int:
    """Return a descriptor of a fresh, detached mount of `fstype`.

    fsopen(2), fsconfig(2), fsmount(2); Linux 5.2. An option with an empty value is a flag.
    """
    fs = fsopen(fstype, why=why)
    try:
        for key, value in options.items():
            command = FSCONFIG_SET_STRING if value else FSCONFIG_SET_FLAG
            _configure(fs, command, key, value or None)
        _configure(fs, FSCONFIG_CMD_CREATE, None, None)
        shown = {"fs": fs, "attributes": libc.flag_names(attributes, _ATTR_NAMES)}
        raw = (432, fs, FSMOUNT_CLOEXEC, attributes)
        return libc.logged("fsmount", _fsmount, raw, shown, fstype)
    finally:
        os.close(fs)


def _configure(fs: int, command: int, key: str | None, value: str | None) -> None:
    """Set one option of a new file system, or create it: fsconfig(2)."""
    args = {"fs": fs, "command": command, "key": key, "value": value}
    raw = (431, fs, command, _bytes(key), _bytes(value), 0)
    libc.logged("fsconfig", _fsconfig, raw, args, key or "create")
