"""Files and nodes below a directory descriptor that may belong to a hostile image."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

from minirun.core.errors import os_error
from minirun.core.kernel import libc, logged_python

RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS = 0x1, 0x2, 0x4
RESOLVE_BENEATH, RESOLVE_IN_ROOT = 0x8, 0x10

PROC_SUPER_MAGIC = 0x9FA0

CLOSE_RANGE_CLOEXEC = 4

_openat2 = libc.bind_syscall(c_int, c_char_p, c_void_p, c_size_t)
_close_range = libc.bind_syscall(c_uint, c_uint, c_uint)
_fstatfs = libc.bind("fstatfs", c_int, c_void_p)
_faccessat = libc.bind("faccessat", c_int, c_char_p, c_int, c_int)

_AT_FDCWD, _AT_EACCESS, _EPERM = -100, 0x200, 1


class OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = [("flags", c_uint64), ("mode", c_uint64), ("resolve", c_uint64)]


def openat2(dirfd: int, path: str, flags: int, resolve: int, mode: int = 0) -> int:
    """Open `path` relative to `dirfd` under the RESOLVE_* rules: openat2(2); Linux 5.6."""
    how = OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    raw = path.encode(errors="surrogateescape")
    size = ctypes.sizeof(how)
    for _ in range(128):  # EAGAIN: another process renamed a directory on the way
        ret: int = _openat2(437, dirfd, raw, ctypes.addressof(how), size)
        if ret != -1:
            return ret
        if ctypes.get_errno() != errno.EAGAIN:
            break
    raise libc.failure("openat2", path)


def reopen(fd: int, flags: int) -> int:
    """Open what the O_PATH descriptor `fd` refers to, with other flags: proc_pid_fd(5).

    This opens the file that `fd` was checked to be; a path may lead to another one by now. Raises
    OSError; ENOSYS if /proc is no procfs.
    """
    folder = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if filesystem_magic(folder) != PROC_SUPER_MAGIC:
            raise os_error(errno.ENOSYS, "/proc")
        return os.open(str(fd), flags | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)


def close_range_cloexec(first: int) -> None:
    """Mark every descriptor from `first` on to be closed at execve: close_range(2); Linux 5.11."""
    libc.check("close_range", _close_range(436, first, 0xFFFFFFFF, CLOSE_RANGE_CLOEXEC))


def close_range(first: int, last: int = 0xFFFFFFFF) -> None:
    """Close every descriptor from `first` to `last`: close_range(2); Linux 5.9."""
    if first <= last:
        libc.check("close_range", _close_range(436, first, last, 0))


def may_execute(path: str) -> bool:
    """Return True if this process, as what it is now, may execute `path`: faccessat(2), AT_EACCESS.

    EPERM comes not from the file, but from a seccomp filter that does not know faccessat2(2), of
    Linux 5.8. Return True then: execve(2) checks again.
    """
    raw = path.encode(errors="surrogateescape")
    ret = _faccessat(_AT_FDCWD, raw, os.X_OK, _AT_EACCESS)
    return ret == 0 or ctypes.get_errno() == _EPERM


def filesystem_magic(fd: int) -> int:
    """Return f_type of the file system that `fd` lies on: fstatfs(2), linux/magic.h."""
    buffer = ctypes.create_string_buffer(256)
    libc.check("fstatfs", _fstatfs(fd, ctypes.addressof(buffer)))
    return ctypes.c_ulong.from_buffer(buffer).value


def attributes(file: int | str | bytes, *, follow_symlinks: bool = True) -> list[str]:
    """Return the names of a file's extended attributes: listxattr(2). Raises OSError.

    A file system that knows none (ENOTSUP: squashfs, of a symbolic link) has none.
    """
    try:
        return os.listxattr(file, follow_symlinks=follow_symlinks)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return []


def mknodat(
    dirfd: int, name: str, mode: int, device: int = 0, *, shown: str = "", why: str = ""
) -> None:
    """Make a device node, a FIFO or a socket: mknod(2), mkfifo(3)."""
    kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b", stat.S_IFIFO: "p"}.get(stat.S_IFMT(mode), "?")
    args: dict[str, object] = {"path": shown or name, "mode": oct(mode), "kind": kind}
    if kind in "cb":
        args |= {"major": os.major(device), "minor": os.minor(device)}
    logged_python(
        "mkfifo" if kind == "p" else "mknodat",
        lambda: os.mknod(name, mode, device, dir_fd=None if dirfd == -100 else dirfd),
        args, shown or name, why,
    )  # fmt: skip


def symlinkat(target: str, dirfd: int, name: str, *, shown: str = "", why: str = "") -> None:
    """Make a symbolic link: symlink(2)."""
    args = {"target": target, "path": shown or name}
    logged_python(
        "symlinkat", lambda: os.symlink(target, name, dir_fd=dirfd), args, shown or name, why
    )
