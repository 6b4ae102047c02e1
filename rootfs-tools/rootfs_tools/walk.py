"""What is below a directory that a container may be changing: no link, no mount is entered.

A path is opened anew from the top for each directory, so neither recursion nor a chain of
descriptors grows with a tree's depth; what lies deeper than a path can say (PATH_MAX) is left out.
"""

import os
import stat
from collections.abc import Iterator

from minirun.core.kernel import files

_STAY = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS | files.RESOLVE_NO_XDEV


def walk(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (relative path, lstat) of all below `top`, a directory before what is in it.

    Raises OSError: `top` cannot be opened.
    """
    base = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        waiting = _entries(base, "")
        while waiting:
            path, info = waiting.pop()
            yield path, info
            if stat.S_ISDIR(info.st_mode):
                waiting += _entries(base, path)
    finally:
        os.close(base)


def _entries(base: int, folder: str) -> list[tuple[str, os.stat_result]]:
    """Return what is in a directory, the last name first; nothing if it cannot be entered."""
    try:
        fd = files.openat2(base, folder or ".", os.O_RDONLY | os.O_DIRECTORY, _STAY)
    except OSError:
        return []  # gone, or a link by now, or a mount, or too deep
    found = []
    try:
        for name in sorted(os.listdir(fd), reverse=True):
            try:
                info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            found.append((f"{folder}/{name}" if folder else name, info))
    finally:
        os.close(fd)
    return found
