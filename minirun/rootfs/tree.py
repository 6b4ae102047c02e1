"""Removing a directory tree that a container has written, without following anything.

A hostile tree has links to the host, changes while it is removed, and may be nested a hundred
thousand levels deep, where neither a path nor a chain of descriptors nor recursion reaches. So
nothing is ever done deeper than two levels: what lies further down is first moved up.
"""

import os

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENOTEMPTY = 39
_TRIES = 50
_TAKEN = (2, 17, 20, _ENOTEMPTY)
"""ENOENT, EEXIST, ENOTDIR, ENOTEMPTY: somebody was quicker, or something else has that name."""

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
        if not _unlink(above, name):
            _remove_directory(above, name, _empty)
    finally:
        os.close(above)


def _unlink(parent: int, name: str) -> bool:
    """Remove a file, or find that it is gone; False for a directory."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except IsADirectoryError:
        return False
    return True


def _remove_directory(parent: int, name: str, empty: "Callable[[int], None]") -> None:
    """Let `empty` remove what is in a directory, then the directory; one that is gone is fine."""
    for tries_left in reversed(range(_TRIES)):
        try:
            fd = os.open(name, _DIRECTORY, dir_fd=parent)
            try:
                empty(fd)
            finally:
                os.close(fd)
            return os.rmdir(name, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError as error:  # somebody else has just moved something into it
            if error.errno != _ENOTEMPTY or not tries_left:
                raise
    return None


def _empty(top: int) -> None:
    """Remove all that is in the directory `top`; directories below its own move up into it."""
    number = 0

    def flatten(fd: int) -> None:
        nonlocal number
        for name in os.listdir(fd):
            while not _unlink(fd, name):
                number += 1
                try:
                    os.rename(name, f".{os.getpid()}.{number}", src_dir_fd=fd, dst_dir_fd=top)
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise

    while names := os.listdir(top):
        for name in names:
            if not _unlink(top, name):
                _remove_directory(top, name, flatten)
