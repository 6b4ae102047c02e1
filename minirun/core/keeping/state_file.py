"""The one reader of state.json: what it returns has been checked, field by field.

minirun kills processes and removes cgroups, as root, because a record names them. So a record
counts only if it is certainly minirun's, of this container, and whole: a regular file
in a directory of the caller's own that no other user may write to, one JSON object, every field
that a command reads of the right type and size. runc's and crun's containers lie below the same
roots at times, and runc has a state.json too, of other fields.
"""

from __future__ import annotations

import errno
import os
import stat

from minirun.core.errors import StateError, os_error, reason
from minirun.core.keeping import container_record, jsonlite, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import ContainerRecord

_LIMIT = 16 << 20
"""Bytes of a record: a larger one is nothing that minirun has written."""
_OWN_KEYS = ("status", "supervisor", "cgroup_path", "auto_remove", "directory")


class DamagedRecord(StateError):
    """A container's record cannot be read; `ours`: the directory is one that minirun has made."""

    def __init__(self, directory: str, reason: str, *, ours: bool) -> None:
        self.directory, self.reason, self.ours = directory, reason, ours
        name = directory.rpartition("/")[2]
        hint = f"minirun delete --force {name}" if ours else "it is left as it is"
        super().__init__(f"{directory}/{places.STATE} is damaged: {reason}", hint)


class ForeignDirectory(StateError):
    """What has the container's name is not minirun's."""

    def __init__(self, directory: str, reason: str) -> None:
        name = directory.rpartition("/")[2]
        text = f"container {name!r} does not exist: {directory} is not minirun's: {reason}"
        super().__init__(text, "it is left as it is")
        self.reason = reason


def read(directory: str) -> ContainerRecord:
    """Return the record in a container's directory.

    Raises DamagedRecord, ForeignDirectory; FileNotFoundError if there is no such directory.
    """
    fd = open_directory(directory)
    try:
        return _read(fd, directory)
    finally:
        os.close(fd)


def open_directory(directory: str) -> int:
    """Open a container's directory. Raises ForeignDirectory, FileNotFoundError, OSError."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        kind = "a link" if os.path.islink(directory) else "no directory"
        raise ForeignDirectory(directory, f"it is {kind}") from None
    if reason := _not_own(os.fstat(fd)):
        os.close(fd)
        raise ForeignDirectory(directory, reason)
    return fd


def _not_own(found: os.stat_result) -> str:
    """Return why another user may have written a file; empty if only the caller can."""
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}"
    return "other users may write to it" if found.st_mode & 0o022 else ""


def _read(fd: int, directory: str) -> ContainerRecord:
    """Return the record in the open directory `fd`. Raises StateError, FileNotFoundError."""
    try:
        value = jsonlite.loads(read_file(fd, places.STATE).decode())
        if isinstance(value, dict) and value and not any(key in value for key in _OWN_KEYS):
            raise ForeignDirectory(directory, f"{places.STATE} is another program's")
        return container_record.parse(value, directory)
    except (ValueError, OSError) as error:
        if not is_at(fd, directory):  # another command removes it at this moment
            raise os_error(errno.ENOENT, directory) from None
        if isinstance(error, FileNotFoundError):
            raise ForeignDirectory(directory, f"it has no {places.STATE}") from None
        raise DamagedRecord(directory, reason(error), ours=is_made_by_minirun(fd)) from None


def read_file(fd: int, name: str) -> bytes:
    """Return what is in a regular file of the directory `fd`. Raises ValueError, OSError.

    Does not follow a link, and does not wait for the writer of a FIFO.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(name, flags, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise ValueError("not a regular file") from None
        raise
    try:
        if reason := _not_own(os.fstat(file)):
            raise ValueError(reason)
        return read_regular(file, _LIMIT)
    finally:
        os.close(file)


def read_regular(fd: int, limit: int) -> bytes:
    """Return what is in the open file `fd`, a regular one of at most `limit` bytes.

    Raises ValueError if it is no regular file or a larger one, OSError.
    """
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        raise ValueError("not a regular file")
    if info.st_size > limit:
        raise ValueError(f"larger than {limit >> 20} MiB")
    return read_on(fd)


def read_on(fd: int) -> bytes:
    """Return the rest of the open file `fd`: from its offset to its end. Raises OSError."""
    chunks = []
    while chunk := os.read(fd, 1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


def is_at(fd: int, directory: str) -> bool:
    """Return True if the open directory `fd` still has this path."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(directory))
    except FileNotFoundError:
        return False


def is_made_by_minirun(fd: int) -> bool:
    """Return True if a directory holds a record, whole or not, and only what minirun makes."""
    names = os.listdir(fd)
    return places.STATE in names and all(map(places.is_own_name, names))
