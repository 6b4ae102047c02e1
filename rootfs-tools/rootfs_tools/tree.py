"""What a root filesystem holds, written down so that two machines write the same.

One line a file, in the order of the path's bytes: a JSON list of path, type, permission bits,
owner, group, size, content and extended attributes; the content is the SHA-256 of a file, the
target of a link, the numbers of a device. Times are left out: they differ between two builds of
the same thing. The SHA-256 of the list is the image's digest, which `minirun images --verify`
computes again. (A registry's digest is that of a manifest, which covers compressed layers.)
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from minirun.core.kernel import files


class TreeDigest(NamedTuple):
    """The digest of one or more trees, and the bytes of content in them."""

    digest: str
    size: int


def summarize(roots: list[str]) -> TreeDigest:
    """Return digest (sha256:…) and size of the trees below `roots`, lowest layer first.

    Raises OSError.
    """
    whole = hashlib.sha256()
    size = 0
    for root in roots:
        for row in listing(root):
            size += row[5]
            whole.update(json.dumps(row, separators=(",", ":")).encode() + b"\n")
        whole.update(b"\n")
    return TreeDigest(f"sha256:{whole.hexdigest()}", size)


def listing(root: str) -> Iterator[list[Any]]:
    """Yield one list for every file below `root`, and for `root` itself. Raises OSError."""
    pending = [b"."]
    base = os.fsencode(root)
    while pending:
        path = pending.pop()
        full = os.path.join(base, path)
        status = os.lstat(full)
        yield entry(path, full, status)
        if stat.S_ISDIR(status.st_mode):
            inside = sorted(os.listdir(full), reverse=True)
            pending += [os.path.join(path, name) for name in inside]


def entry(path: bytes, full: bytes, status: os.stat_result) -> list[Any]:
    """Return the list for one file: `path` as it is named, `full` to read it. Raises OSError."""
    mode = status.st_mode
    content: str | list[int] = ""
    size = 0
    if stat.S_ISREG(mode):
        size, content = status.st_size, _sha256(full)
    elif stat.S_ISLNK(mode):
        content = os.fsdecode(os.readlink(full))
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        content = [os.major(status.st_rdev), os.minor(status.st_rdev)]
    kind = stat.filemode(mode)[0]
    owner = [status.st_uid, status.st_gid]
    return [os.fsdecode(path), kind, stat.S_IMODE(mode), *owner, size, content, _xattrs(full)]


def _xattrs(full: bytes) -> dict[str, str]:
    names = sorted(files.attributes(full, follow_symlinks=False))
    return {name: os.getxattr(full, name, follow_symlinks=False).hex() for name in names}


def _sha256(full: bytes) -> str:
    fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def clamp_times(root: str, limit: int) -> None:
    """Give what is newer than `limit` (nanoseconds) that date, so that two builds do not differ."""
    for path, directories, names in os.walk(root, topdown=False):
        for full in [os.path.join(path, name) for name in [*directories, *names, "."]]:
            if os.lstat(full).st_mtime_ns > limit:
                os.utime(full, ns=(limit, limit), follow_symlinks=False)
