"""Where the directories of containers begin and end: ROOT/.new/NUMBER/PID-TIME.

A container's directory gets its name when it is complete, and loses it when there is nothing in it
any more but its record. So what has a container's name has a record, whenever a command is killed;
and what lies here belongs to the process that the name tells of. When that has ended, the next
command that cleans up removes it.
"""

import os
import time

from minirun.oci import record
from minirun.settings import NEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NURSERIES = 64
"""So many, made as they are needed: one costs a directory, which stays."""


def make(root: str) -> str:
    """Make the directory of a container that has no name yet, PID-TIME in one of the nurseries.

    On ext4 a directory's files lie in its group of inodes, and without a journal each new file
    passes over all inodes that were freed in that group in the last minutes. A new directory goes
    where there are the fewest: that may be the same group for every third container. A nursery
    stays, so each lies in a group of its own, and who is born in it stays in that group, whatever
    its name is then. Raises OSError.
    """
    path = _new_path(root)
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        _make_nursery(root, path)
        os.mkdir(path, 0o700)
    return path


def _new_path(root: str) -> str:
    now = time.monotonic_ns()
    return f"{root}/{NEW}/{now // 1000 % _NURSERIES}/{os.getpid()}-{now}"


def _make_nursery(root: str, path: str) -> None:
    from minirun.kernel import files  # `delete` lives without ctypes

    nurseries = f"{root}/{NEW}"
    os.makedirs(nurseries, 0o700, exist_ok=True)
    files.spread_directories(nurseries)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)


def take_back(root: str, container_id: str) -> str:
    """Take the name away from a container's directory; return where it is now. Raises OSError."""
    path, directory = _new_path(root), f"{root}/{container_id}"
    try:
        os.rename(directory, path)
    except FileNotFoundError:
        os.stat(directory)
        _make_nursery(root, path)
        os.rename(directory, path)
    return path


def abandoned(root: str) -> "Iterator[str]":
    """Yield what lies here and belongs to no living process, as NEW/NUMBER/PID-TIME.

    Only what this module has made: by its place, name, owner and content. Raises OSError.
    """
    for nursery in _entries(f"{root}/{NEW}"):
        for name in _entries(f"{root}/{NEW}/{nursery}") if _is_number(nursery) else ():
            pid, _, moment = name.partition("-")
            if not _is_number(pid, moment) or os.path.exists(f"/proc/{pid}"):
                continue
            if _is_own(f"{root}/{NEW}/{nursery}/{name}"):
                yield f"{NEW}/{nursery}/{name}"


def sweep(root: str) -> "list[str]":
    """Remove all that is abandoned; return its names. Raises OSError."""
    from minirun.rootfs.tree import remove_tree

    found = list(abandoned(root))
    for name in found:
        remove_tree(f"{root}/{name}")
    return found


def _is_number(*texts: str) -> bool:
    return all(text.isascii() and text.isdecimal() for text in texts)


def _entries(directory: str) -> "list[str]":
    """Return the names in a directory of the caller's own; none where it is anything else."""
    try:
        fd = record.open_directory(directory)
    except (FileNotFoundError, record.ForeignDirectory):
        return []
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)


def _is_own(directory: str) -> bool:
    """Tell whether a directory is the caller's, with nothing in it but what minirun makes."""
    try:
        fd = record.open_directory(directory)
    except (FileNotFoundError, record.ForeignDirectory):
        return False
    try:
        return all(map(record.is_own_name, os.listdir(fd)))
    finally:
        os.close(fd)
