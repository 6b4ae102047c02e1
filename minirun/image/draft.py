"""Directories in the making: hidden, and locked (flock(2)) as long as the process that makes them.

A draft whose lock is free has no maker, and may be swept away.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

DRAFT = ".draft-"
"""What the name of a draft begins with."""


def hold(path: str) -> int:
    """Lock a draft, and return the descriptor that holds the lock. Raises OSError."""
    fd = os.open(path, os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def abandoned(path: str) -> bool:
    """Return True if no process makes this draft any more. Raises OSError."""
    fd = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


@contextmanager
def locked(path: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of a directory, or of a file, which is made if it is missing."""
    flags = os.O_RDONLY if os.path.isdir(path) else os.O_CREAT | os.O_WRONLY
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)
