"""Where COPY takes its files from: the build context, or the layers of another stage or image.

Both are read the same way: by paths relative to the top, of which no part is a symbolic link.
A link is resolved first, inside the tree, so no file outside it is ever reached.
"""

import errno
import itertools
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from minirun.core.errors import ImageError, os_error
from minirun.core.kernel import files
from rootfs_tools import lower
from rootfs_tools.dockerfile.ignore import Ignore, as_regex
from rootfs_tools.unpack import DEPTH_LIMIT

_INSIDE = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS | files.RESOLVE_NO_MAGICLINKS
_SPECIAL = frozenset("*?[")
PathStat = tuple[str, os.stat_result]
"""A path in a tree, and what lstat says of it."""


class Tree(Protocol):
    """A tree of files. Paths have no link in them; "" is the top."""

    ignore: Ignore
    """What is not to be seen."""

    def stat(self, path: str) -> os.stat_result | None:
        """Return lstat's answer; None if nothing is there."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Open a file or a directory. Raises OSError."""

    def readlink(self, path: str) -> str:
        """Return where a link leads. Raises OSError."""

    def close(self) -> None:
        """Let go of it."""


class FolderTree:
    """The files below a directory of the host."""

    def __init__(self, path: str, ignore: Ignore | None = None) -> None:
        """Open it. Raises OSError."""
        self.ignore = ignore or Ignore()
        self._fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def stat(self, path: str) -> os.stat_result | None:
        """Return lstat's answer; None if nothing is there. Raises OSError."""
        try:
            fd = self.open(path, os.O_PATH)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted. Raises OSError."""
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return sorted(os.listdir(fd), key=os.fsencode)
        finally:
            os.close(fd)

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Open a file or a directory. Raises OSError."""
        return files.openat2(self._fd, path or ".", flags | os.O_NOFOLLOW, _INSIDE)

    def readlink(self, path: str) -> str:
        """Return where a link leads. Raises OSError."""
        fd = self.open(path, os.O_PATH)
        try:
            return os.readlink("", dir_fd=fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)


class LayerTree:
    """The files that layers show together; they are complete, and do not change."""

    ignore = Ignore()

    def __init__(self, layers: Sequence[str]) -> None:
        """Open them, lowest first. Raises OSError."""
        self._lower = lower.Lower(layers)

    def stat(self, path: str) -> os.stat_result | None:
        """Return lstat's answer; None if nothing is there."""
        found = self._lower.find(path)
        return found[1] if found else None

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted. Raises OSError."""
        return self._lower.names(path)

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Open a file or a directory. Raises OSError."""
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path or ".", flags, dir_fd=self._layer(path))

    def readlink(self, path: str) -> str:
        """Return where a link leads. Raises OSError."""
        return os.readlink(path, dir_fd=self._layer(path))

    def _layer(self, path: str) -> int:
        found = self._lower.find(path)
        if not found:
            raise os_error(errno.ENOENT, path)
        return found[0]

    def close(self) -> None:
        """Let go of them."""
        self._lower.close()


def resolve(tree: Tree, path: str) -> str:
    """Return `path` without links, inside the tree. Raises ImageError: they go in a circle."""

    def link(prefix: str) -> str | None:
        info = tree.stat(prefix)
        return tree.readlink(prefix) if info and stat.S_ISLNK(info.st_mode) else None

    return lower.resolve(path.strip("/"), link)


def is_directory(tree: Tree, path: str) -> bool:
    """Return True if `path`, resolved, is a directory."""
    info = tree.stat(path)
    return bool(info and stat.S_ISDIR(info.st_mode))


class Found(NamedTuple):
    """What a source of COPY means."""

    name: str
    """The last part of its name; a link keeps its own."""
    path: str
    """Behind all links."""


def expand(tree: Tree, patterns: Sequence[str], *, alone: bool = True) -> list[Found]:
    """Return what the sources of a COPY mean: paths, and what fits a pattern.

    A pattern may fit nothing, if it is not `alone`. Raises ImageError: one leads out of the tree,
    or nothing is there.
    """
    found = {pattern: _expanded(tree, pattern) for pattern in patterns}
    for pattern, rows in found.items():
        if not rows and (alone or not _SPECIAL & set(pattern)):
            raise not_found(tree, pattern)
    return [row for rows in found.values() for row in rows]


def not_found(tree: Tree, pattern: str) -> ImageError:
    """Return the error for a source that is not there."""
    text = f"{pattern}: not found in the build context, or left out by .dockerignore"
    return ImageError(text if tree.ignore.has_rules else f"{pattern}: not found")


def _expanded(tree: Tree, pattern: str) -> list[Found]:
    wanted = posixpath.normpath(pattern)
    if wanted.split("/")[0] == "..":
        raise ImageError(f"forbidden path outside the build context: {pattern}")
    found = [Found("", "")]
    for part in wanted.lstrip("/").split("/"):
        if part not in ("", "."):
            found = [inner for each in found for inner in _fitting(tree, each.path, part)]
    return [each for each in found if _is_seen(tree, each.path)]


def _fitting(tree: Tree, folder: str, part: str) -> list[Found]:
    """Return what fits one part of a pattern in a folder; links are resolved."""
    if not _SPECIAL & set(part):
        return [Found(part, resolve(tree, f"{folder}/{part}"))]
    try:
        pattern = re.compile(as_regex(part))
    except (ValueError, re.error):
        raise ImageError(f"{part!r} is no pattern: syntax error in pattern") from None
    names = tree.names(folder) if is_directory(tree, folder) else []
    fitting = [(name, f"{folder}/{name}".lstrip("/")) for name in names if pattern.fullmatch(name)]
    return [Found(name, resolve(tree, path)) for name, path in fitting if path not in tree.ignore]


def _is_seen(tree: Tree, path: str) -> bool:
    """Return True if something is there, and not left out; of a folder, something in it."""
    info = tree.stat(path)
    if info is None or path not in tree.ignore or not path:
        return info is not None
    return stat.S_ISDIR(info.st_mode) and next(walk(tree, path), None) is not None


def with_parents(tree: Tree, source: str) -> Iterator[tuple[str, str, Iterator[PathStat]]]:
    """Yield what COPY --parents means by a source: (top, pattern, rows).

    Below the target the files get the path that they have below `top`: what stands before /./ , if
    that is there. The rows are all that may fit the pattern, in which ** is any number of folders;
    no link is followed. Raises ImageError.
    """
    head, pivot, rest = source.partition("/./")
    pattern = posixpath.normpath("/" + (rest if pivot else source)).lstrip("/")
    fixed = list(itertools.takewhile(lambda part: not _SPECIAL & set(part), pattern.split("/")))
    for top in expand(tree, [head or "/"]) if pivot else [Found("", "")]:
        begin = "/".join(filter(None, (top.path, *fixed)))
        info = tree.stat(begin)
        if info is None or not _is_seen(tree, begin):
            if not _SPECIAL & set(source):
                raise not_found(tree, source)
            continue
        own = [(begin, info)] if begin != top.path else []
        below = walk(tree, begin) if stat.S_ISDIR(info.st_mode) else iter(())
        yield top.path, pattern, chain(own, below)


def walk(tree: Tree, top: str, depth: int = 0) -> Iterator[PathStat]:
    """Yield (path, lstat) of all below a directory, a directory before what is in it.

    A directory that is left out stands there if something in it does not. Raises ImageError,
    OSError.
    """
    if depth > DEPTH_LIMIT:
        raise ImageError(f"{top[:60]!r}… lies deeper than {DEPTH_LIMIT} directories")
    for name in tree.names(top):
        path = f"{top}/{name}" if top else name
        info = tree.stat(path)
        if info is None:
            continue  # it is gone by now
        is_folder = stat.S_ISDIR(info.st_mode)
        below = walk(tree, path, depth + 1) if is_folder else iter(())
        if path not in tree.ignore:
            yield path, info
            yield from below
        elif is_folder and tree.ignore.may_bring_back and (first := next(below, None)):
            yield path, info
            yield from chain([first], below)
