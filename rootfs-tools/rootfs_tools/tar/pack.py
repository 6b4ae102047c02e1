"""The other way round: a directory tree as a tar archive, in an order that is always the same.

    pack_tree      all of a root filesystem (`export`)
    pack_layer     an OverlayFS layer: what OverlayFS marks becomes image-spec's whiteouts

The tree may be a running container's, so nothing is trusted: a directory is entered by its
descriptor and no link is followed, only plain files are opened, and a mount is not entered.
Sources: image-spec layer.md "Whiteouts", "Opaque Whiteout"; the kernel's overlayfs.rst.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing
from typing import BinaryIO

from minirun.core.errors import ImageError
from minirun.core.keeping.settings import unprivileged
from minirun.core.kernel import files
from rootfs_tools.lower import is_whiteout
from rootfs_tools.tar.stream import Member
from rootfs_tools.tar.writer import TarWriter
from rootfs_tools.unpack import DEPTH_LIMIT, WHITEOUT

_STAY = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS | files.RESOLVE_NO_XDEV
_KEPT = ("user.", "system.posix_acl_")
_OVERLAY = ("trusted.overlay.", "user.overlay.")
_KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFCHR: "c",
    stat.S_IFBLK: "b", stat.S_IFIFO: "p",
}  # fmt: skip


def pack_tree(path: str, stream: BinaryIO) -> None:
    """Write all below the directory `path` as a tar archive. Raises ImageError, OSError."""
    _pack(path, stream, Packer)


def pack_layer(path: str, stream: BinaryIO) -> None:
    """Write an OverlayFS layer as a tar archive. Raises ImageError, OSError."""
    _pack(path, stream, LayerPacker)


def _pack(path: str, stream: BinaryIO, packer: type[Packer]) -> None:
    writer = writer_of(stream)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        packer(writer).top(fd)
    finally:
        os.close(fd)
    writer.finish()


def writer_of(stream: BinaryIO) -> TarWriter:
    """Return what writes a tree: without root, all of it as root's."""
    return _OfRoot(stream) if unprivileged() else TarWriter(stream)


class _OfRoot(TarWriter):
    """Without root all files are the caller's own, who is root in the container."""

    def add(self, member: Member, content: BinaryIO | None = None) -> None:
        """Write a member."""
        super().add(member._replace(uid=0, gid=0), content)


class Packer:
    """Writes a tree as it is."""

    stay = _STAY
    """How the next name is looked up: no mount is entered."""

    def __init__(self, writer: TarWriter) -> None:
        self.writer = writer
        self._linked: dict[tuple[int, int], str] = {}
        """Device and inode of a file with several names → the name that was written."""

    def top(self, fd: int) -> None:
        """Write the tree whose root `fd` is, with the root itself."""
        attributes = _attributes(fd, files.attributes(fd))
        self.writer.add(_member(".", "dir", os.fstat(fd), attributes))
        self.directory(fd, "", 0)

    def directory(self, fd: int, path: str, depth: int) -> None:
        """Write all that is in a directory, in the order of the names' bytes."""
        if depth > DEPTH_LIMIT:
            raise ImageError(f"{path[:60]!r}… lies deeper than {DEPTH_LIMIT} directories")
        for name in sorted(os.listdir(fd), key=os.fsencode):
            inner = f"{path}/{name}" if path else name
            try:
                found = files.openat2(fd, name, os.O_PATH | os.O_NOFOLLOW, self.stay)
            except FileNotFoundError:
                continue  # it is gone by now
            except OSError as error:
                if error.errno == errno.EXDEV:
                    self._mount_point(fd, name, inner)
                    continue
                raise
            try:
                self.entry(found, inner, depth)
            finally:
                os.close(found)

    def entry(self, fd: int, path: str, depth: int) -> None:
        """Write what the O_PATH descriptor `fd` refers to."""
        info = os.fstat(fd)
        kind = _KINDS.get(stat.S_IFMT(info.st_mode))
        if kind is None:
            return  # a socket: no archive holds one, and nothing is lost
        if kind == "dir":
            with closing(_Opened(fd, os.O_RDONLY | os.O_DIRECTORY)) as opened:
                marks = files.attributes(opened.fd)
                self.writer.add(_member(path, kind, info, _attributes(opened.fd, marks)))
                self.marks(opened.fd, path, marks)
                self.directory(opened.fd, path, depth + 1)
            return
        first = self._first_name(info, path)
        if first != path:
            self.writer.add(_member(path, "hard link", info, target=first))
        elif kind == "file":
            with closing(_Opened(fd, os.O_RDONLY)) as opened:
                attributes = _attributes(opened.fd, files.attributes(opened.fd))
                with open(opened.fd, "rb", closefd=False) as content:
                    self.writer.add(_member(path, kind, info, attributes), content)
        else:
            target = os.readlink("", dir_fd=fd) if kind == "link" else ""
            self.writer.add(_member(path, kind, info, target=target))

    def marks(self, fd: int, path: str, attributes: list[str]) -> None:
        """Write what OverlayFS says of a directory: nothing, in a whole tree."""

    def _mount_point(self, parent: int, name: str, path: str) -> None:
        """Write a directory or file that something is mounted on: empty, as it lies below."""
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
        kind = "dir" if stat.S_ISDIR(info.st_mode) else "file"
        self.writer.add(Member(path, kind, 0o755, 0, 0, 0, 0, "", (0, 0), {}))

    def _first_name(self, info: os.stat_result, path: str) -> str:
        if info.st_nlink < 2:
            return path
        return self._linked.setdefault((info.st_dev, info.st_ino), path)


class LayerPacker(Packer):
    """Writes a layer: a mark that something is removed becomes a file .wh.NAME."""

    def top(self, fd: int) -> None:
        """Write the layer. Its root has no entry: owner and mode are those of the layer below."""
        self.marks(fd, "", files.attributes(fd))
        self.directory(fd, "", 0)

    def entry(self, fd: int, path: str, depth: int) -> None:
        """Write a file; a whiteout as layer.md has it."""
        if not is_whiteout(os.fstat(fd)):
            check_name(path)
            super().entry(fd, path, depth)
            return
        head, slash, name = path.rpartition("/")
        self._empty(f"{head}{slash}.wh.{name}")

    def marks(self, fd: int, path: str, attributes: list[str]) -> None:
        """Write an opaque directory's mark. Raises ImageError for one that was only renamed."""
        for prefix in _OVERLAY:
            if f"{prefix}redirect" in attributes:
                text = f"{path!r} was renamed in the layer, and lies in another under its old name"
                raise ImageError(text, "mount the overlay with redirect_dir=off")
            if f"{prefix}opaque" in attributes and os.getxattr(fd, f"{prefix}opaque") == b"y":
                self._empty(f"{path}/.wh..wh..opq".lstrip("/"))

    def _empty(self, path: str) -> None:
        self.writer.add(Member(path, "file", 0o600, 0, 0, 0, 0, "", (0, 0), {}))


def check_name(path: str) -> None:
    """Refuse a file that would be a whiteout in a layer's archive. Raises ImageError."""
    if path.rpartition("/")[2].startswith(WHITEOUT):
        raise ImageError(f"/{path}: a layer holds no file whose name begins with {WHITEOUT}")


class _Opened:
    """A descriptor for reading of what an O_PATH descriptor refers to."""

    def __init__(self, fd: int, flags: int) -> None:
        self.fd = files.reopen(fd, flags)

    def close(self) -> None:
        os.close(self.fd)


def member_of(path: str, info: os.stat_result, fd: int = -1) -> Member:
    """Return the entry for a file that lstat says this of; `fd` is open if it has attributes.

    Of a link the target is still to be filled in.
    """
    xattrs = _attributes(fd, files.attributes(fd)) if fd >= 0 else {}
    return _member(path, _KINDS[stat.S_IFMT(info.st_mode)], info, xattrs)


def _member(
    path: str,
    kind: str,
    info: os.stat_result,
    xattrs: dict[str, bytes] | None = None,
    target: str = "",
) -> Member:
    device = (0, 0)
    if kind in ("c", "b"):
        device = (os.major(info.st_rdev), os.minor(info.st_rdev))
    return Member(
        path, kind, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid,
        info.st_size if kind == "file" else 0, info.st_mtime_ns, target, device, xattrs or {},
    )  # fmt: skip


def _attributes(fd: int, names: list[str]) -> dict[str, bytes]:
    """Return the attributes that are a part of an image (rootfs_tools.unpack keeps the same)."""
    return {
        name: os.getxattr(fd, name)
        for name in names
        if name == "security.capability"
        or (name.startswith(_KEPT) and not name.startswith(_OVERLAY))
    }
