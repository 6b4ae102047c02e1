"""The logs of containers that are gone: ROOT/.history/STAMP.NUMBER.ID.jsonl."""

from __future__ import annotations

import os
import time

from minirun.core.keeping import places
from minirun.core.keeping.numbers import whole

LIMIT = 200
"""How many logs of removed containers are kept below one state root."""


def keep(root: str, container_id: str) -> None:
    """Move a removed container's events to the history, and forget the oldest beyond the limit.

    If there is no room for them they go with the container.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    name = f"{stamp}.{time.monotonic_ns()}.{container_id}.jsonl"
    try:
        fd = _make(root)
    except OSError:
        return
    try:
        log = f"{root}/{container_id}/{places.EVENTS}"
        os.rename(log, f"{root}/{places.HISTORY}/{name}")
        for old in names(fd)[:-LIMIT]:
            os.unlink(old, dir_fd=fd)
    except OSError:  # there is no log, or another command has been quicker
        pass
    finally:
        os.close(fd)


def _make(root: str) -> int:
    """Open the history; make it if it is missing. Raises OSError."""
    try:
        return open_folder(root)
    except FileNotFoundError:
        os.makedirs(f"{root}/{places.HISTORY}", 0o700, exist_ok=True)
        return open_folder(root)


def open_folder(root: str) -> int:
    """Return a descriptor of the history of a state root. Raises OSError: there may be none."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(f"{root}/{places.HISTORY}", flags)


def paths(root: str) -> list[str]:
    """Return the paths of the logs in the history of a state root, the oldest first."""
    try:
        fd = open_folder(root)
    except OSError:
        return []
    try:
        return [f"{root}/{places.HISTORY}/{name}" for name in names(fd)]
    finally:
        os.close(fd)


def container_of(path: str) -> str:
    """Return the id of the container whose log this is."""
    return path.rpartition("/")[2].split(".", 2)[2].removesuffix(".jsonl")


def names(fd: int) -> list[str]:
    """Return the names of the logs in a history, STAMP.NUMBER.ID.jsonl, the oldest first."""
    return sorted(name for name in os.listdir(fd) if _is_log(name))


def _is_log(name: str) -> bool:
    """Return True if a name is STAMP.NUMBER.ID.jsonl."""
    stamp, _, rest = name.partition(".")
    numbers = stamp[:8], stamp[9:], rest.partition(".")[0]
    plain = len(stamp) == 15 and stamp[8] == "T" and None not in map(whole, numbers)
    return plain and rest.count(".") >= 2 and name.endswith(".jsonl")
