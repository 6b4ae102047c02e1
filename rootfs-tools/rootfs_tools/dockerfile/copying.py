"""COPY and ADD: files of one tree become a layer over another.

The layer is written as an archive at once; no container and no mount is needed. It holds what is
copied, and directories on the way that the layers below do not have. What the target's path says
is resolved in the image, as if its root was the root of all. Source: docs.docker.com/reference
/dockerfile, "COPY".
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterable, Sequence
from typing import BinaryIO, NamedTuple

from minirun.core.errors import ImageError
from rootfs_tools.compression import Hashed
from rootfs_tools.dockerfile.chmod import ModeChange
from rootfs_tools.dockerfile.ignore import Ignore
from rootfs_tools.dockerfile.trees import (
    Found,
    PathStat,
    Tree,
    is_directory,
    resolve,
    walk,
    with_parents,
)
from rootfs_tools.tar.pack import check_name, member_of
from rootfs_tools.tar.stream import Member
from rootfs_tools.tar.writer import TarWriter


class Ownership(NamedTuple):
    """Whose the copied files are; None: as they are in the tree that they come from."""

    uid: int | None = None
    gid: int | None = None
    mode: ModeChange | None = None
    """--chmod."""
    special: bool = True
    """False: files lose the set-user-ID and the set-group-ID bit, and file capabilities."""


class LayerWriter:
    """Writes a layer of files that are copied over the layers below."""

    def __init__(self, stream: BinaryIO, below: Tree, now: int) -> None:
        """`now`: when the directories are made that are missing, nanoseconds since 1970."""
        self._writer = TarWriter(stream)
        self._below, self._now = below, now
        self._whose = Ownership()
        self._made: dict[str, str] = {}
        """What this layer has → its kind."""
        self._links: dict[tuple[int, int], str] = {}
        self._content = hashlib.sha256()
        self._exclude = Ignore()

    def exclude(self, patterns: Sequence[str]) -> None:
        """Leave out what fits --exclude: relative to a source that is a directory.

        Raises ImageError.
        """
        self._exclude = Ignore.of(patterns)

    def kept(self, tree: Tree, sources: Iterable[Found]) -> list[Found]:
        """Return the sources of which not the file itself is left out."""
        return [
            each for each in sources
            if is_directory(tree, each.path)
            or not (each.name in self._exclude or each.path in self._exclude)
        ]  # fmt: skip

    def finish(self) -> str:
        """Write the archive's end; return the digest of all that was copied, but its dates."""
        self._writer.finish()
        return self._content.hexdigest()

    def copy(self, tree: Tree, sources: list[Found], target: str, whose: Ownership) -> None:
        """Copy files, and what is in directories, to `target`, which is absolute.

        With a slash at its end, or for several sources, it is a directory. Raises ImageError,
        OSError.
        """
        place = self._resolve(target)
        into = target.endswith("/") or len(sources) > 1 or self._is_directory(place)
        for source in sources:
            self._whose, self._links = whose, {}
            if is_directory(tree, source.path):
                self.copy_directory(tree, source.path, target, whose)
            else:
                path = f"{place}/{source.name}".lstrip("/") if into else place
                self._make_directories(path.rpartition("/")[0])
                self._copy_file(tree, source.path, path)

    def copy_directory(self, tree: Tree, source: str, target: str, whose: Ownership) -> None:
        """Copy what is in a directory into another one, which is made if it is missing.

        Raises ImageError, OSError.
        """
        self._copy_rows(tree, source, walk(tree, source), target, whose)

    def copy_parents(self, tree: Tree, source: str, target: str, whose: Ownership) -> None:
        """Copy what COPY --parents means by a source. Raises ImageError, OSError."""
        self._links = {}
        for top, pattern, rows in with_parents(tree, source):
            wanted = Ignore.of([pattern or "**"])
            fitting = (row for row in rows if _below(top, row[0]) in wanted)
            self._copy_rows(tree, top, fitting, target, whose)

    def write(self, name: str, content: str, target: str, whose: Ownership) -> None:
        """Write a file whose content stands in the Dockerfile. Raises ImageError."""
        self._whose = whose
        place = self._resolve(target)
        if target.endswith("/") or self._is_directory(place):
            place = f"{place}/{name}".lstrip("/")
        self._make_directories(place.rpartition("/")[0])
        if self._is_directory(place):
            raise ImageError(f"cannot overwrite directory /{place} with a file")
        data = content.encode(errors="surrogateescape")
        member = Member(place, "file", 0o644, 0, 0, len(data), self._now, "", (0, 0), {})
        self._add(member, io.BytesIO(data))

    def _copy_rows(
        self, tree: Tree, top: str, rows: Iterable[PathStat], target: str, whose: Ownership
    ) -> None:  # fmt: skip
        """Copy files to where they lie below `top`, in directories that are like theirs."""
        self._whose = whose
        place = self._resolve(target)
        self._make_directories(place)
        places = {top: place}
        for path, info in rows:
            if _below(top, path) in self._exclude:
                continue
            if stat.S_ISDIR(info.st_mode):
                self._place(tree, path, places)
            else:
                head, _, name = path.rpartition("/")
                new = f"{self._place(tree, head, places)}/{name}".lstrip("/")
                self._copy_file(tree, path, new)

    def _place(self, tree: Tree, path: str, places: dict[str, str]) -> str:
        """Return where a directory of the tree is copied to; it is made, and those above it."""
        if path not in places:
            head, _, name = path.rpartition("/")
            new = f"{self._place(tree, head, places)}/{name}".lstrip("/")
            fd = tree.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                places[path] = self._copy_one_directory(os.fstat(fd), new, fd)
            finally:
                os.close(fd)
        return places[path]

    def make_directories(self, target: str, whose: Ownership) -> bool:
        """Make a directory and those above it; return False if it is there. Raises ImageError."""
        self._whose = whose
        return self._make_directories(self._resolve(target))

    def _copy_one_directory(self, info: os.stat_result, new: str, fd: int) -> str:
        """Copy a directory without what is in it; return its place, behind a link of the image."""
        resolved = self._resolve(new)
        if resolved != new and self._is_directory(resolved):
            return resolved
        if not self._is_directory(new) and (new in self._made or self._below.stat(new)):
            raise ImageError(f"cannot copy a directory over /{new}, which is no directory")
        self._add(member_of(new, info, fd))
        return new

    def _copy_file(self, tree: Tree, source: str, path: str) -> None:
        if self._is_directory(path):
            raise ImageError(f"cannot overwrite directory /{path} with a file")
        fd = tree.open(source, os.O_PATH)
        try:
            info = os.fstat(fd)
            if stat.S_ISSOCK(info.st_mode):
                return  # no archive holds one, and nothing is lost
            first = self._links.setdefault((info.st_dev, info.st_ino), path)
            if first != path and info.st_nlink > 1:
                self._add(member_of(path, info)._replace(kind="hard link", size=0, target=first))
            elif stat.S_ISREG(info.st_mode):
                with open(tree.open(source, os.O_RDONLY | os.O_NONBLOCK), "rb") as content:
                    self._add(member_of(path, info, content.fileno()), content)
            else:
                target = os.readlink("", dir_fd=fd) if stat.S_ISLNK(info.st_mode) else ""
                self._add(member_of(path, info)._replace(target=target))
        finally:
            os.close(fd)

    def _make_directories(self, path: str) -> bool:
        """Make the directories of a resolved path that are not there."""
        made = False
        parts = path.split("/") if path else []
        for count in range(1, len(parts) + 1):
            each = "/".join(parts[:count])
            if self._is_directory(each):
                continue
            if each in self._made or self._below.stat(each):
                raise ImageError(f"/{each} is a file, and no directory")
            made = True
            self._write(Member(each, "dir", 0o755, 0, 0, 0, self._now, "", (0, 0), {}))
        return made

    def _add(self, member: Member, content: BinaryIO | None = None) -> None:
        """Write a member with the mode that it is to have."""
        if not self._whose.special:
            member = member._replace(mode=member.mode & ~(stat.S_ISUID | stat.S_ISGID))
        if self._whose.mode and member.kind != "link":
            member = member._replace(mode=self._whose.mode(member.mode, member.kind == "dir"))
        if not self._whose.special:
            member.xattrs.pop("security.capability", None)
        self._write(member, content)

    def _write(self, member: Member, content: BinaryIO | None = None) -> None:
        """Write a member as its new owner's, and hash it."""
        check_name(member.name)
        whose = self._whose
        member = member._replace(
            uid=member.uid if whose.uid is None else whose.uid,
            gid=member.gid if whose.gid is None else whose.gid,
        )
        self._made[member.name] = member.kind
        hashed = Hashed(content or io.BytesIO())
        self._writer.add(member, io.BufferedReader(hashed))
        line = f"{member._replace(mtime=0)} {hashed.digest()}\n"
        self._content.update(line.encode(errors="surrogateescape"))

    def _resolve(self, path: str) -> str:
        return resolve(self._below, path)

    def _is_directory(self, path: str) -> bool:
        kind = self._made.get(path)
        return kind == "dir" if kind else is_directory(self._below, path)


def _below(top: str, path: str) -> str:
    """Return a path relative to the directory `top`, in which it lies."""
    return path.removeprefix(f"{top}/") if top else path
