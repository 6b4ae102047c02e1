"""One layer's archive, put on top of those below it, in one of two ways.

    FlatLayer      into one tree that holds them all; a whiteout removes (`image unpack`)
    OverlayLayer   into a directory of its own, as OverlayFS wants it; a whiteout is a device 0:0

Both give the same picture, that of image-spec's layer.md: a whiteout hides what lower layers have,
and nothing of its own layer, wherever it stands in the archive. A folder that an archive does not
name is left as it is below; a path through a link is followed inside the image.

OverlayFS's opaque mark is an attribute that containers in a user namespace do not see (trusted.*).
So an opaque directory gets a whiteout for each name that it hides.
"""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import closing, suppress
from io import BufferedIOBase

from minirun.core.errors import ImageError
from minirun.core.kernel import files
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.tree import remove_at
from rootfs_tools.lower import Lower, is_whiteout, resolve
from rootfs_tools.tar.fields import Body
from rootfs_tools.tar.stream import Member
from rootfs_tools.unpack import OPAQUE, WHITEOUT, Unpacker, clear_attributes, copy_file, inside

_OPAQUE = OPAQUE.removeprefix(WHITEOUT)
_STAY = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def apply_flat(stream: BufferedIOBase, tree: str, strict: dict[str, int] | None = None) -> None:
    """Put a layer on the tree that those below it have made.

    `strict` is shared by all layers, and for close_directories after the last one. Raises
    ImageError, OSError.
    """
    with closing(Root.at(tree)) as root:
        FlatLayer(root, {} if strict is None else strict).unpack(stream)


def apply_overlay(stream: BufferedIOBase, upper: str, layers: Sequence[str]) -> int:
    """Put a layer into the empty directory `upper`, over `layers`, lowest first.

    Returns the number of members. Raises ImageError, OSError.
    """
    with closing(Root.at(upper)) as root, closing(Lower(layers)) as lower:
        return OverlayLayer(root, lower).unpack(stream)


class FlatLayer(Unpacker):
    """All layers in one tree."""

    def __init__(self, root: Root, strict: dict[str, int]) -> None:
        super().__init__(root)
        self._strict = strict
        """Directory → the mode that it gets when all layers are there, if its owner is not root."""
        self._own: set[str] = set()
        """What this layer has made: no whiteout of it removes that."""

    def take(self, path: str, member: Member, body: Body) -> None:
        """Put a member at `path`, and note that it is this layer's."""
        super().take(path, member, body)
        while path and path not in self._own:
            self._own.add(path)
            path = path.rpartition("/")[0]

    def accessible(self, path: str, member: Member) -> int:
        """Let the owner work in directories until all layers are there."""
        if member.kind != "dir":
            return member.mode
        self._strict.pop(path, None)
        mode = super().accessible(path, member)
        if mode != member.mode:
            self._strict[path] = member.mode
        return mode

    def open_parent(self, head: str) -> int:
        """Open the directory, and note when it was changed: that is to stay."""
        fd = super().open_parent(head)
        self._keep_date(fd)
        return fd

    def _keep_date(self, fd: int) -> None:
        """Note when a directory was changed, under its own name, which no link is a part of."""
        top, path = (os.readlink(f"/proc/self/fd/{each}") for each in (self.root.fd, fd))
        self.dates.setdefault(path[len(top) :].lstrip("/"), os.fstat(fd).st_mtime_ns)

    def whiteout(self, head: str, name: str, member: Member) -> None:
        """Remove what lower layers have there."""
        check_whiteout(name, member)
        try:
            fd = self.root.open(head or ".", os.O_PATH | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            return  # nothing is there to be hidden
        self._keep_date(fd)
        try:
            above = f"{head}/" if head else ""
            if name == _OPAQUE:
                self._remove_lower(fd, above)
            else:
                self._remove(fd, name, above + name)
        finally:
            os.close(fd)

    def _remove(self, parent: int, name: str, path: str) -> None:
        """Remove a name, but what this layer has put there or below."""
        if path not in self._own:
            remove_at(parent, name)
            return
        with suppress(FileNotFoundError, NotADirectoryError):
            fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            try:
                self._remove_lower(fd, f"{path}/")
            finally:
                os.close(fd)

    def _remove_lower(self, fd: int, above: str) -> None:
        readable = os.open(".", _DIRECTORY, dir_fd=fd)
        try:
            for name in os.listdir(readable):
                self._remove(readable, name, above + name)
        finally:
            os.close(readable)


class OverlayLayer(Unpacker):
    """A layer of its own, over others."""

    def __init__(self, root: Root, lower: Lower) -> None:
        super().__init__(root)
        self._lower = lower
        self._hidden: set[str] = set()
        """Directories in which nothing of the lower layers is to be seen."""
        self._removed: set[str] = set()
        """Those of them that are themselves not to be seen."""
        if top := lower.find(""):
            _like(root.fd, ".", top[0], ".")
            self.dates[""] = top[1].st_mtime_ns

    def whiteout(self, head: str, name: str, member: Member) -> None:
        """Hide what lower layers have there."""
        check_whiteout(name, member)
        head = self.resolve(head)
        if name == _OPAQUE:
            self._hidden.add(head)
            return
        path = f"{head}/{name}" if head else name
        self._hide_all(path)
        if self._lower.find(path):
            parent = self.parent(head)
            with suppress(FileExistsError):  # its own layer has something else there
                os.mknod(name, stat.S_IFCHR, 0, dir_fd=parent)

    def make_room(self, parent: int, path: str, kind: str) -> None:
        """Note what takes the place of something else: a directory is not merged with it."""
        head, _, name = path.rpartition("/")
        with suppress(FileNotFoundError):
            is_directory = stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)
            if not is_directory or kind != "dir":
                self._hide_all(f"{self.resolve(head)}/{name}".lstrip("/"))
        super().make_room(parent, path, kind)

    def open_parent(self, head: str) -> int:
        """Make the directory and those above it, as the lower layers have them."""
        head = self.resolve(head)
        parts = head.split("/") if head else []
        for count in range(1, len(parts) + 1):
            self._copy_up_directory("/".join(parts[:count]))
        return self.root.make_dir(head or ".")

    def resolve(self, path: str) -> str:
        """Return `path` without links, as it is in the merged view.

        Raises ImageError: it leads through a file, or links go in a circle.
        """
        return resolve(path, self._link)

    def _link(self, path: str) -> str | None:
        """Return where the link `path` leads; None for a directory, or for nothing yet."""
        found = self._own(path) or self._below(path)
        if found is None or stat.S_ISDIR(found[1].st_mode) or is_whiteout(found[1]):
            return None
        if stat.S_ISLNK(found[1].st_mode):
            return os.readlink(path, dir_fd=found[0])
        raise ImageError(f"archive: {path!r} is a file, and others lie below it")

    def _own(self, path: str) -> tuple[int, os.stat_result] | None:
        """Return what this layer has there; None for nothing, or for a path through a link."""
        try:
            fd = files.openat2(self.root.fd, path or ".", os.O_PATH | os.O_NOFOLLOW, _STAY)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise
        try:
            return self.root.fd, os.fstat(fd)
        finally:
            os.close(fd)

    def _below(self, path: str) -> tuple[int, os.stat_result] | None:
        """Return what the lower layers show, unless this one hides it."""
        parts = path.split("/")
        above = ("/".join(parts[:count]) for count in range(len(parts)))
        if path in self._removed or any(each in self._hidden for each in above):
            return None
        return self._lower.find(path)

    def _hide_all(self, path: str) -> None:
        self._hidden.add(path)
        self._removed.add(path)

    def _copy_up_directory(self, path: str) -> None:
        """Make a directory that this layer does not have, like that of the lower layers."""
        own = self._own(path)
        if own and not is_whiteout(own[1]):
            return
        head, _, name = path.rpartition("/")
        parent = self.root.open(head or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            if own:
                os.unlink(name, dir_fd=parent)
            os.mkdir(name, 0o755, dir_fd=parent)
            below = self._below(path)
            if below and stat.S_ISDIR(below[1].st_mode):
                _like(parent, name, below[0], path)
                self.dates.setdefault(path, below[1].st_mtime_ns)
        finally:
            os.close(parent)

    def hard_link(self, parent: int, name: str, member: Member) -> None:
        """Link to a file; what only a lower layer has is copied up first, as OverlayFS does."""
        head, _, last = inside(member.target, member.name).rpartition("/")
        head = self.resolve(head)
        path = f"{head}/{last}" if head else last
        below = None if self._own(path) else self._below(path)
        source = self.open_parent(head)
        try:
            if below and not stat.S_ISDIR(below[1].st_mode):
                copy_file(below[0], path, source, last)
            os.link(last, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(source)

    def finish(self) -> None:
        """Give opaque directories their whiteouts, then date all directories."""
        for path in sorted(self._hidden):
            own = self._own(path)
            if own and stat.S_ISDIR(own[1].st_mode):
                self._hide(path)
        super().finish()

    def _hide(self, path: str) -> None:
        """Hide what the lower layers show in a directory that this layer has too."""
        for name in self._lower.names(path):
            inner = f"{path}/{name}" if path else name
            own = self._own(inner)
            if own is None:
                fd = self.root.open(path or ".", os.O_PATH | os.O_DIRECTORY)
                try:
                    os.mknod(name, stat.S_IFCHR, 0, dir_fd=fd)
                finally:
                    os.close(fd)
            elif stat.S_ISDIR(own[1].st_mode):
                self._hide(inner)


def check_whiteout(name: str, member: Member) -> None:
    """Refuse a whiteout of nothing, or of what only a path could mean. Raises ImageError."""
    if name in ("", ".", "..") or (name.startswith(".wh.") and name != _OPAQUE):
        raise ImageError(f"archive: {member.name!r} is a whiteout of no file")


def _like(parent: int, name: str, lower: int, path: str) -> None:
    """Give the new directory owner, mode and attributes of that of a lower layer."""
    source = os.open(path, _DIRECTORY, dir_fd=lower)
    target = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        info = os.fstat(source)
        os.fchown(target, info.st_uid, info.st_gid)
        os.fchmod(target, stat.S_IMODE(info.st_mode))
        attributes = files.attributes(source)
        clear_attributes(target, attributes)  # what it has inherited
        for attribute in attributes:
            os.setxattr(target, attribute, os.getxattr(source, attribute))
    finally:
        os.close(source)
        os.close(target)
