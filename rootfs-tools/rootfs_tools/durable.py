"""What has a name in the store is on the disk: after a loss of power too it is whole, or not there.

The data first, then the name, then the directory that holds the name. Of a tree of files syncfs(2)
writes all at once, where fsync(2) would be called for each. It writes what others have changed on
that file system as well.
"""

import errno
import os
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_uint

from minirun.core.kernel import libc
from minirun.core.rootfs.tree import remove_tree

_AT_FDCWD, _RENAME_EXCHANGE = -100, 1 << 1  # linux/fcntl.h, linux/fs.h
_syncfs = libc.bind("syncfs", c_int)
_renameat2 = libc.bind("renameat2", c_int, c_char_p, c_int, c_char_p, c_uint)


def rename(path: str, name: str) -> None:
    """Write all of the file system of `path` to the disk, then give it its name. Raises OSError."""
    _named(path, name, os.rename)


def replace(path: str, name: str) -> None:
    """Do as :func:`rename`; a directory that has the name is found at `path` afterwards.

    So there is no moment without one: renameat2(2). Raises OSError.
    """
    _named(path, name, _exchange if os.path.lexists(name) else os.rename)


def _exchange(path: str, name: str) -> None:
    paths = (_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(name))
    try:
        libc.check("renameat2", _renameat2(*paths, _RENAME_EXCHANGE), name)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        remove_tree(name)  # NFS and some others know no exchange
        os.rename(path, name)


def _named(path: str, name: str, give: Callable[[str, str], None]) -> None:
    folder = os.open(os.path.dirname(name), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        libc.check("syncfs", _syncfs(folder), path)
        give(path, name)
        os.fsync(folder)
    finally:
        os.close(folder)
