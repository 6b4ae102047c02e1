"""Directories in the making: hidden, and locked (flock(2)) as long as the process that makes them.

A draft whose lock is free has no maker, and may be swept away.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from minirun.common.waiting import take_lock
from minirun.core.keeping.visible import say
from minirun.core.rootfs.tree import remove_tree

DRAFT = ".draft-"
"""What the name of a draft begins with."""
_BESIDE = ".minirun-draft-"
"""The same outside of the store."""
MEMORY = "/dev/shm"
"""Where what is never to be on a disk lies: a tmpfs."""
_SILENT = 1.0
"""Seconds that a lock is waited for without a word."""


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
def beside(folder: str) -> Iterator[str]:
    """Make a draft in a folder that is not the store's; it is removed in the end.

    What makers that died have left there is removed first, if it is the caller's own. Raises
    OSError.
    """
    sweep(folder)
    while True:
        path = tempfile.mkdtemp(prefix=_BESIDE, dir=folder)
        with suppress(FileNotFoundError):
            fd = hold(path)
            if os.path.lexists(path):  # not swept before it was locked
                break
            os.close(fd)
    try:
        yield path
    finally:
        remove_tree(path)
        os.close(fd)


def sweep(folder: str) -> None:
    """Remove what makers that died have left beside, if it is the caller's own."""
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.startswith(_BESIDE):
                _sweep(f"{folder}/{name}")


def _sweep(path: str) -> None:
    """Remove a draft, holding its lock, unless its maker lives or it is another user's."""
    with suppress(OSError):
        fd = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_uid == os.geteuid():
                remove_tree(path)
        finally:
            os.close(fd)


@contextmanager
def locked(path: str, how: int = fcntl.LOCK_EX, by: str = "") -> Iterator[None]:
    """Hold the lock of a directory, or of a file, which is made if it is missing.

    `by` is what may have it, for the line that says what is waited for.
    """
    flags = os.O_RDONLY if os.path.isdir(path) else os.O_CREAT | os.O_WRONLY
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        lock(fd, how, by or f"another minirun command that works in {path}")
        yield
    finally:
        os.close(fd)


def lock(fd: int, how: int, by: str) -> None:
    """Take a lock: flock(2). If that takes longer than a second, say what is waited for.

    With LOCK_NB it raises BlockingIOError, and does not wait.
    """
    if not how & fcntl.LOCK_NB:
        if take_lock(fd, how, _SILENT):
            return
        say(f"waiting for {by}")
    fcntl.flock(fd, how)
