"""Who the container's process is: `-u` against the image's own /etc/passwd and /etc/group.

What happens: the caller names a user, or a number, and optionally a group. Names are looked up in
the two files of the *image*, never the host's, and without NSS: the pwd module would read the
host's files, or load libnss from the image (CVE-2019-14271). The files are hostile (links to the
host, a FIFO, no end), so they are opened below the root and only up to a limit; the parser takes
nothing for a number that is not plain ASCII digits, since int() reads "1_0", " 1" and "١", and a
user id of 2^32 would wrap to 0 (CVE-2016-3697, CVE-2024-40635, CVE-2026-30892).

What the man pages say: passwd(5), group(5).

What the real stack does: engines resolve names before the runtime is called; config.json holds
numbers only. The rules here, and the texts of the errors, are docker's:

    -u            uid         gid                groups
    (nothing)     0           of that entry      those that list its name
    1000          1000        of its entry or 0  those that list its name
    name          its entry   of its entry       those that list its name
    1000:100      1000        100                none
    name:group    its entry   of the group       none

A number is always an id, even if an entry is *named* so. The highest is
docker's, 2^31 - 1. An unknown name ends the run before the command, so with status 125.
"""

from __future__ import annotations

import errno

from minirun.core.errors import MinirunError, reason
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class FileReader(Protocol):
        """Where the two files are: a Root, or the layers of an image."""

        def read(self, path: str, limit: int, /) -> bytes:
            """Return a file's content, at most `limit` bytes of it. Raises OSError."""


MAX_ID = 2**31 - 1
"""The highest user or group id that docker and runc take; the kernel's own is 2^32 - 2."""

MAX_SIZE = 1 << 20
"""How much of /etc/passwd and /etc/group is read, in bytes."""


class User(Record):
    """The user that the container's process runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    """Additional groups, in the order of /etc/group."""
    home: str
    """The home directory of the passwd entry; "/" without one."""
    name: str
    """The name of the passwd entry; empty without one."""


def resolve_user(root: FileReader, spec: str) -> User:
    """Return the user that `spec` ("", uid, name, uid:gid, name:group) means in the image `root`.

    Raises MinirunError if a name is unknown, a number is out of range, or one of the two files
    cannot be read.
    """
    who, _, which = spec.partition(":")
    wanted = _number(who) if who else 0
    user = _find_user(root, who, wanted)
    if not user:
        raise _unknown("user", who, "passwd")
    if which:
        return user._replace(gid=_find_group(root, which))
    return user._replace(groups=_memberships(root, user.name))


def _find_user(root: FileReader, who: str, wanted: int | None) -> User | None:
    """Return the first entry with the id `wanted`, or, if that is None, with the name `who`.

    An id needs no entry.
    """
    for fields in _lines(root, "/etc/passwd", 7):
        uid, gid = _plain_number(fields[2]), _plain_number(fields[3])
        if uid is None or gid is None:
            continue
        if fields[0] == who if wanted is None else uid == wanted:
            return User(uid, gid, (), fields[5] or "/", fields[0])
    return None if wanted is None else User(wanted, 0, (), "/", "")


def _groups(root: FileReader) -> list[tuple[str, int, list[str]]]:
    """Return (name, id, members) of each group."""
    return [
        (fields[0], gid, fields[3].split(","))
        for fields in _lines(root, "/etc/group", 4)
        if (gid := _plain_number(fields[2])) is not None
    ]


def _find_group(root: FileReader, which: str) -> int:
    """Return the id of the group `which`, a number or a name."""
    number = _number(which)
    if number is not None:
        return number
    for name, gid, _ in _groups(root):
        if name == which:
            return gid
    raise _unknown("group", which, "group")


def group_ids(root: FileReader, names: list[str]) -> tuple[int, ...]:
    """Return the ids of groups, each a number or a name of the image's. Raises MinirunError."""
    return tuple(_find_group(root, name) for name in names)


def _memberships(root: FileReader, name: str) -> tuple[int, ...]:
    """Return the ids of the groups that list `name` as a member, each once."""
    if not name:
        return ()
    return tuple(dict.fromkeys(gid for _, gid, members in _groups(root) if name in members))


def _lines(root: FileReader, path: str, fields: int) -> list[list[str]]:
    """Return the rows of a colon-separated file, each with `fields` fields or more.

    A missing file has none. A row without a first field is left out.

    Only a newline ends a line: str.splitlines would also split at U+0085, a form feed and others.
    A line with a NUL, which no environment or argument can carry, is left out.
    """
    try:
        data = root.read(path, MAX_SIZE + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):  # no fault of the image
            raise
        raise MinirunError(
            f"the image's {path} cannot be read: {reason(error)}",
            "it must be a regular file, or missing",
        ) from None
    if len(data) > MAX_SIZE:
        raise MinirunError(f"the image's {path} is larger than {MAX_SIZE} bytes")
    rows = [
        line.strip().decode(errors="surrogateescape").split(":")
        for line in data.split(b"\n")
        if b"\0" not in line
    ]
    return [row + [""] * (fields - len(row)) for row in rows if row[0]]


def _plain_number(text: str) -> int | None:
    """Return `text` as an id if it is plain digits in range; None else."""
    return whole(text, 0, MAX_ID)


def _number(text: str) -> int | None:
    """Return what the caller wrote as an id; None if it is a name.

    Raises MinirunError for digits out of range.
    """
    if text and not text.strip("0123456789") and _plain_number(text) is None:
        raise MinirunError(f"user {text!r}: uids and gids must be in range 0-{MAX_ID}")
    return _plain_number(text)


def _unknown(kind: str, name: str, file: str) -> MinirunError:
    return MinirunError(
        f"unable to find {kind} {name}: no matching entries in {file} file",
        f"the name must be in the image's /etc/{file}; a number always works",
    )
