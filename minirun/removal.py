"""The end of a container's directory: all in it goes, its record last.

Everything is done from a descriptor of the directory, which is no link and the caller's own: what
takes its place meanwhile is not touched. Nothing that is mounted below it is entered.
"""

import fcntl
import os

from minirun import nursery
from minirun.oci import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def remove(root: str, container_id: str, clear: "Callable[[int], None] | None" = None) -> None:
    """Remove a container's directory; one that is gone is fine.

    Several processes may do so at once: the first one works, the others wait for it. `clear`
    removes what is in a directory but for the record. Raises StateError where the directory is not
    minirun's, OSError.
    """
    directory = f"{root}/{container_id}"
    try:
        fd = record.open_directory(directory)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if not _is_at(fd, directory):
            return
        (clear or empty)(fd)
        place = nursery.take_back(root, container_id)
    finally:
        os.close(fd)
    try:
        os.unlink(f"{place}/{record.FILE}")
        os.rmdir(place)
    except OSError:  # the record is a directory
        from minirun.rootfs.tree import remove_tree

        remove_tree(place)


def _is_at(fd: int, directory: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(directory))
    except FileNotFoundError:
        return False


def empty(fd: int) -> None:
    """Remove what is in the directory `fd`, but for the record. Raises OSError."""
    for name in os.listdir(fd):
        if name == record.FILE:
            continue
        try:
            os.unlink(name, dir_fd=fd)
        except IsADirectoryError:
            from minirun.rootfs.tree import remove_at  # few have any: it costs 1 ms

            remove_at(fd, name)
        except FileNotFoundError:
            continue
