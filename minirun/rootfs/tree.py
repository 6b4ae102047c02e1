"""Removing a directory tree that a container has written, without following anything."""

import os


def remove_tree(path: str) -> None:
    """Remove `path` and all below it; a missing one is fine. Raises OSError.

    Works on directory descriptors and never follows a link, so a tree that changes meanwhile
    cannot lead outside. (shutil.rmtree does the same; importing it costs 5 ms.)
    """
    parent, name = os.path.split(path)
    try:
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _remove(fd, name)
    finally:
        os.close(fd)


def _remove(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
        return
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        pass
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        with os.scandir(fd) as entries:
            names = [entry.name for entry in entries]
        for inner in names:
            _remove(fd, inner)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
