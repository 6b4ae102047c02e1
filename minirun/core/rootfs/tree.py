"""Removing a directory tree that a container has written, without following anything.

A hostile tree has links to the host, changes while it is removed, and may be nested a hundred
thousand levels deep, where neither a path nor a chain of descriptors nor recursion reaches. So
nothing is ever done deeper than a few levels: what lies further down is first moved up. A directory
that something is mounted on is not entered, but an error (openat2(2), RESOLVE_NO_XDEV).
"""

from __future__ import annotations

import errno
import os

from minirun.core.errors import os_error
from minirun.core.kernel import files

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_STAY = files.RESOLVE_NO_XDEV | files.RESOLVE_NO_SYMLINKS | files.RESOLVE_BENEATH
_DEEPEST = 8
_TRIES = 50
_TAKEN = (errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.ENOTEMPTY)
"""Another process was quicker, or the name is taken."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def remove_tree(path: str) -> None:
    """Remove `path` and all below it; a missing one is fine. Raises OSError.

    Several processes may remove the same tree at once. (shutil.rmtree costs 5 ms to import, and
    fails on a tree that is nested too deeply.)
    """
    parent, name = os.path.split(path)
    try:
        above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        remove_at(above, name)
    finally:
        os.close(above)


def remove_at(parent: int, name: str) -> None:
    """Remove `name` in the directory `parent`, and all below it. Raises OSError."""
    if not _unlink(parent, name):
        _remove_directory(parent, name, _empty)


def _unlink(parent: int, name: str) -> bool:
    """Remove a file; return True if it is gone now, False if `name` is a directory."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except IsADirectoryError:
        return False
    return True


def _remove_directory(parent: int, name: str, empty: Callable[[int], None]) -> None:
    """Let `empty` remove what is in a directory, then the directory; one that is gone is fine."""
    for tries_left in reversed(range(_TRIES)):
        try:
            fd = files.openat2(parent, name, _DIRECTORY, _STAY)
            try:
                empty(fd)
            finally:
                os.close(fd)
            return os.rmdir(name, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise os_error(errno.EBUSY, name) from None
            if error.errno != errno.ENOTEMPTY or not tries_left:  # a file was moved in just now
                raise
    return None


def _empty(top: int) -> None:
    """Remove all that is in the directory `top`; what is too deep moves up into it."""
    number = 0

    def clear(fd: int, depth: int) -> None:
        """Remove all that is in the directory `fd`, `depth` below the top."""
        nonlocal number
        for name in os.listdir(fd):
            while not _unlink(fd, name):
                if depth < _DEEPEST:
                    _remove_directory(fd, name, lambda below: clear(below, depth + 1))
                    break
                number += 1
                try:
                    os.rename(name, f".{os.getpid()}.{number}", src_dir_fd=fd, dst_dir_fd=top)
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise

    clear(top, 0)
    while number:  # until nothing has moved up any more
        number = 0
        clear(top, 0)
