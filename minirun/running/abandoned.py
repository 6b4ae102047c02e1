"""Directories of containers that never got their name, or have lost it: core/directories."""

import os

from minirun.core import places
from minirun.core import state_file as record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def names(root: str) -> "Iterator[str]":
    """Yield what is in ROOT/.new and belongs to no living process, as .new/PID-TIME.

    Only directories that this module has made: by place, name, owner and content. Raises OSError.
    """
    for name in _entries(f"{root}/{places.NEW}") or ():
        pid, _, moment = name.partition("-")
        if not (_is_number(pid) and _is_number(moment)) or os.path.exists(f"/proc/{pid}"):
            continue
        inside = _entries(f"{root}/{places.NEW}/{name}")
        if inside is not None and all(map(places.is_own_name, inside)):
            yield f"{places.NEW}/{name}"


def remove(root: str) -> "list[str]":
    """Remove all that is abandoned; return its names. Raises OSError."""
    found = list(names(root))
    if found:
        from minirun.core.rootfs.tree import remove_tree  # ctypes: 3 ms, and few find any
    for name in found:
        remove_tree(f"{root}/{name}")
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _entries(directory: str) -> "list[str] | None":
    """Return the names in a directory of the caller's own; None if it is anything else."""
    try:
        fd = record.open_directory(directory)
    except (FileNotFoundError, record.ForeignDirectory):
        return None
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)
