"""What has a name in the store is on the disk: after a loss of power too it is whole, or not there.

The data first, then the name, then the directory that holds the name. Of a tree of files syncfs(2)
writes all at once, where fsync(2) would be called for each. It writes what others have changed on
that file system as well.
"""

import os
from ctypes import c_int

from minirun.core.kernel import libc

_syncfs = libc.bind("syncfs", c_int)


def rename(path: str, name: str) -> None:
    """Write all of the file system of `path` to the disk, then give it its name. Raises OSError."""
    folder = os.open(os.path.dirname(name), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        libc.check("syncfs", _syncfs(folder), path)
        os.rename(path, name)
        os.fsync(folder)
    finally:
        os.close(folder)
