"""The directory of a container, from its making to its removal.

    ROOT/.new/PID-TIME     `make` makes it; the caller writes the record in it, and the other files
    ROOT/ID                `give_name` renames it: of two containers with one name, one is made
    ROOT/.new/PID-TIME     `remove` empties it, except record and name, and renames it back
                           these are removed, then the directory

So what has a container's name always has a whole record, at whatever moment a command is killed. A
directory in .new belongs to the process PID; when that has ended, the next `gc` removes it. runc
makes ROOT/ID and fills it: what a killed runc leaves there is an empty directory, and its
owner is unknown.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from minirun.core.errors import os_error
from minirun.core.keeping import places, state_file
from minirun.core.lazy import lazy

with lazy:
    from minirun.core.rootfs import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LAST = (places.NAME, places.STATE)
"""What a container's directory has as long as it has the container's id."""


def make(root: str) -> str:
    """Make a directory that has no container's name yet; return its path. Raises OSError."""
    path = _unnamed(root)
    os.mkdir(path, 0o700)
    return path


def give_name(path: str, directory: str) -> None:
    """Rename a complete directory to ROOT/ID: rename(2).

    Raises FileExistsError if another container has that name, OSError.
    """
    try:
        os.rename(path, directory)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):  # the file system chooses which
            raise os_error(errno.EEXIST, directory) from None
        raise


def remove(root: str, container_id: str, clear: Callable[[int], None] | None = None) -> None:
    """Remove a container's directory, record and name last. Do nothing if it does not exist.

    Several processes may call this at once: the first one works, the others wait for it. `clear`
    gets a descriptor of the directory and removes what is in it, except record and name. A mount
    below it is not entered, and another directory that takes its name is not touched.
    Raises StateError if the directory is not minirun's, OSError.
    """
    directory = f"{root}/{container_id}"
    try:
        fd = state_file.open_directory(directory)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if not state_file.is_at(fd, directory):
            return
        (clear or empty)(fd)
        path = _unnamed(root)
        os.rename(directory, path)
    finally:
        os.close(fd)
    try:
        for name in _LAST:
            if os.path.lexists(f"{path}/{name}"):
                os.unlink(f"{path}/{name}")
        os.rmdir(path)
    except OSError:  # the record is a directory
        tree.remove_tree(path)


def empty(fd: int) -> None:
    """Remove what is in the directory `fd`, except record and name. Raises OSError."""
    for name in os.listdir(fd):
        if name in _LAST:
            continue
        try:
            os.unlink(name, dir_fd=fd)
        except IsADirectoryError:
            tree.remove_at(fd, name)
        except FileNotFoundError:
            continue


def _unnamed(root: str) -> str:
    """Return an unused path in ROOT/.new, and make that folder first."""
    if not os.path.isdir(root):
        os.makedirs(root, mode=0o711, exist_ok=True)
    os.makedirs(f"{root}/{places.NEW}", 0o700, exist_ok=True)
    return f"{root}/{places.NEW}/{os.getpid()}-{time.monotonic_ns()}"


def listed(folder: str) -> list[str]:
    """Return the paths in a folder, sorted; none if it is missing. Raises OSError."""
    try:
        return [f"{folder}/{name}" for name in sorted(os.listdir(folder))]
    except FileNotFoundError:
        return []
