"""Putting an archive's files below a directory, and nothing anywhere else.

Every name is looked up by openat2(2) inside the directory (minirun.core.rootfs.inroot), and the
last part of it is made, linked, changed and dated through descriptors, never by following a link.
So a link to the host, an absolute name or a hard link to a path of the host finds only what lies in
the new tree. Refused with one line: a name with "..", a whiteout, a mark of overlay's own (a layer
with them would change what lies below it), a depth of more than 256. Of extended attributes
security.capability, user.* and ACLs are kept: the host's own labels are no part of an image.

AUFS, docker's first union file system, has left files of its own in old layers (.wh..wh.aufs,
.wh..wh.orph/, .wh..wh.plnk/): they are passed over, as docker does; but what lies in .wh..wh.plnk/
is there until the end of the archive, since hard links lead to it.

Without root every file becomes the user's own, who is root in the container (podman calls it
ignore_chown_errors); there are no file capabilities then, and in place of a device there is an
empty file, as umoci makes it. In a store their owner may read all files and change all directories,
whatever the image says.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from io import BufferedIOBase

from minirun.core.errors import ImageError, os_error, reason
from minirun.core.keeping.settings import unprivileged
from minirun.core.kernel import files
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.tree import remove_at
from minirun.image.store import failure
from rootfs_tools.tar.fields import Body
from rootfs_tools.tar.stream import Member, members

DEPTH_LIMIT = 256
WHITEOUT = ".wh."
"""What the name of a whiteout begins with: image-spec layer.md."""
OPAQUE = ".wh..wh..opq"
"""The name that makes its folder opaque."""
_AUFS = ".wh..wh."
"""What names of AUFS's own begin with: moby's pkg/archive/whiteouts.go."""
_AUFS_LINKS = ".wh..wh.plnk"
"""AUFS's folder of the files that have several names."""
ID_LIMIT = 2**32 - 2
_CHUNK = 1 << 18
_ZEROS = bytes(_CHUNK)
_DEVICES = {"c": stat.S_IFCHR, "b": stat.S_IFBLK}
_OWNER = {"dir": stat.S_IRWXU, "file": stat.S_IRUSR}
_DEFAULT_ACL = "system.posix_acl_default"
_LATE = ("security.capability", "system.posix_acl_")
"""Attributes that chown and chmod would change."""
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Unpacker:
    """Puts members below one directory. The subclasses in unpack_layer know whiteouts."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.dates: dict[str, int] = {}
        """Directory → when it was changed: set at the end, since making files changes it."""
        self._obeys_modes = os.geteuid() != 0
        self._parent = ("", -1)
        """The directory that the last member was put into, and its descriptor."""
        self._inherited = False
        """What is made in that directory inherits an ACL, which no archive speaks of: acl(5)."""

    def unpack(self, stream: BufferedIOBase) -> int:
        """Unpack a tar archive; return the number of members. Raises ImageError."""
        count = 0
        try:
            for member, body in members(stream):
                try:
                    path = inside(member.name, member.name)
                    if not _is_passed_over(path, member):
                        self.take(path, member, body)
                except OSError as error:
                    raise failure(error, f"archive: {member.name!r}") from None
                count += 1
        finally:
            self.forget_parent()
        self.finish()
        return count

    def take(self, path: str, member: Member, body: Body) -> None:
        """Put one member at `path`. Raises ImageError, OSError."""
        _refuse_odd(member)
        if self._obeys_modes:
            member = member._replace(mode=self.accessible(path, member))
        if not path:
            _place_root(self.root, member)
        else:
            head, _, name = path.rpartition("/")
            if name.startswith(WHITEOUT):
                self.whiteout(head, name.removeprefix(WHITEOUT), member)
                return
            parent = self.parent(head)
            self.make_room(parent, path, member.kind)
            self.place(parent, name, member, body)
        if member.kind == "dir":
            self.dates[path] = member.mtime

    def accessible(self, path: str, member: Member) -> int:
        """Return a mode with which the owner, without root, can work: a store reads all again."""
        return member.mode | _OWNER.get(member.kind, 0)

    def whiteout(self, head: str, name: str, member: Member) -> None:
        """Take the mark that `name` in `head` is not to be seen. Raises ImageError, OSError."""
        hint = "one layer is no root filesystem: docker export"
        raise ImageError(f"archive: {member.name!r} is a whiteout", hint)

    def parent(self, head: str) -> int:
        """Return a descriptor of the directory `head`, made if it is missing; do not close it."""
        known, fd = self._parent  # one is enough: archives go from folder to folder
        if fd < 0 or known != head:
            self.forget_parent()
            fd = self.open_parent(head)
            self._parent = (head, fd)
            self._inherited = _DEFAULT_ACL in files.attributes(f"/proc/self/fd/{fd}")
        return fd

    def forget_parent(self) -> None:
        """Close the last directory."""
        if self._parent[1] >= 0:
            os.close(self._parent[1])
        self._parent = ("", -1)

    def open_parent(self, head: str) -> int:
        """Open the directory `head`, and make it if it is missing."""
        return self.root.make_dir(head or ".")

    def make_room(self, parent: int, path: str, kind: str) -> None:
        """Remove what an earlier member left at `path`; a directory stays for a directory."""
        _make_room(parent, path.rpartition("/")[2], kind)

    def place(self, parent: int, name: str, member: Member, body: Body) -> None:
        """Make the member as `name` in the directory `parent`."""
        if member.kind == "file":
            fd = os.open(name, _FILE, 0o600, dir_fd=parent)
            _finish(fd, member, body, clear=self._inherited)
        elif member.kind == "dir":
            is_new = _make_directory(parent, name)
            fd = os.open(name, _DIRECTORY, dir_fd=parent)
            _finish(fd, member, clear=self._inherited or not is_new)
        elif member.kind == "hard link":
            self.hard_link(parent, name, member)
        else:
            _special(parent, name, member)
            if self._inherited:
                clear_attributes(f"/proc/self/fd/{parent}/{name}", member.xattrs)

    def hard_link(self, parent: int, name: str, member: Member) -> None:
        """Link to what lies in the tree; a target outside of it does not exist (CVE-2026-50163)."""
        head, _, last = inside(member.target, member.name).rpartition("/")
        source = self.root.open(head or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            os.link(last, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(source)

    def finish(self) -> None:
        """Date the directories, now that nothing changes in them any more."""
        remove_at(self.root.fd, _AUFS_LINKS)
        for path, mtime in self.dates.items():
            _date_directory(self.root, path, mtime)


def unpack(stream: BufferedIOBase, tree: str) -> int:
    """Unpack a root filesystem, the tar archive `stream`, below the directory `tree`.

    Returns the number of members. Raises ImageError, which names the member: a bad archive, a
    forbidden member, a full disk.
    """
    with closing(Root.at(tree)) as root:
        return Unpacker(root).unpack(stream)


def inside(name: str, member: str) -> str:
    """Return `name` as a path below the root, without "." and doubled slashes.

    Raises ImageError for a way out, and for one that is too deep.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ImageError(f"archive: {member!r} leads out of the root filesystem")
    if len(parts) > DEPTH_LIMIT:
        raise ImageError(f"archive: {member[:60]!r}… lies deeper than {DEPTH_LIMIT} directories")
    if any(part.startswith(WHITEOUT) and not _is_aufs(part) for part in parts[:-1]):
        raise ImageError(f"archive: {member!r} lies in a whiteout")
    return "/".join(parts)


def _is_aufs(name: str) -> bool:
    return name.startswith(_AUFS) and name != OPAQUE


def _is_passed_over(path: str, member: Member) -> bool:
    """Return True for a file of AUFS's own that no hard link leads to."""
    is_linked = member.kind == "file" and path.startswith(f"{_AUFS_LINKS}/")
    return not is_linked and any(map(_is_aufs, path.split("/")))


def _refuse_odd(member: Member) -> None:
    if member.uid > ID_LIMIT or member.gid > ID_LIMIT:
        raise ImageError(f"archive: {member.name!r} belongs to no possible user or group")
    marks = [name for name in member.xattrs if ".overlay." in name]
    if marks or (member.kind == "c" and member.device == (0, 0)):
        what = marks[0] if marks else "the device 0:0"
        raise ImageError(f"archive: {member.name!r} carries a mark of overlay: {what}")


def _place_root(root: Root, member: Member) -> None:
    if member.kind != "dir":
        raise ImageError(f"archive: {member.name!r} is the root and no directory")
    _finish(root.open(".", os.O_RDONLY | os.O_DIRECTORY), member)


def _make_room(parent: int, name: str, kind: str) -> bool:
    """Remove what an earlier member left under that name, but keep a directory for a directory.

    Returns True if something was removed.
    """
    try:
        mode = os.lstat(name, dir_fd=parent).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode) and kind == "dir":
        return False
    remove_at(parent, name)
    return True


def _make_directory(parent: int, name: str) -> bool:
    """Make a directory; return False if it is there already."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def _finish(fd: int, member: Member, body: Body | None = None, *, clear: bool = False) -> None:
    """Write the content and set owner, mode (chown clears bits of it), attributes and date.

    `clear`: other attributes than the member's may be there.
    """
    try:
        if clear:
            clear_attributes(fd, member.xattrs)
        if body:
            _write(fd, body, member.size)
        with _as_far_as_allowed():
            os.fchown(fd, member.uid, member.gid)
        _set_attributes(fd, member, ("user.",))  # while the mode lets the owner write
        os.fchmod(fd, member.mode)
        _set_attributes(fd, member, _LATE)
        os.utime(fd, ns=(member.mtime, member.mtime))
    finally:
        os.close(fd)


def clear_attributes(file: int | str, kept: Collection[str]) -> None:
    """Remove attributes that an archive could give, except those in `kept`. Raises OSError."""
    for name in files.attributes(file, follow_symlinks=isinstance(file, int)):
        if name.startswith(("user.", *_LATE)) and name not in kept:
            os.removexattr(file, name, follow_symlinks=isinstance(file, int))


def _set_attributes(fd: int, member: Member, prefixes: tuple[str, ...]) -> None:
    for name, value in member.xattrs.items():
        if name.startswith(prefixes):
            with _as_far_as_allowed(), _named(member, name, value):
                os.setxattr(fd, name, value)


@contextmanager
def _named(member: Member, name: str, value: bytes) -> Iterator[None]:
    """Say which attribute it is that a file system does not take. Raises ImageError.

    Linux holds 64 KiB (XATTR_SIZE_MAX), ext4 4 KiB for all attributes of a file: xattr(7).
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, PermissionError):
            raise
        why = reason(error)
        text = f"archive: {member.name!r}: the attribute {name[:80]!r} of {len(value)} bytes: {why}"
        hint = "Linux holds at most 65536 bytes" if error.errno == errno.E2BIG else ""
        if error.errno == errno.ENOSPC:
            hint = "a file system limits attributes: ext4 to 4096 bytes of a file"
        raise ImageError(text, hint) from None


def _write(fd: int, body: Body, size: int) -> None:
    """Write a file's content; where it has a hole, or only zeros, a hole is left."""
    while True:
        if hole := body.hole():
            os.lseek(fd, hole, os.SEEK_CUR)
        if not (chunk := body.read(_CHUNK)):
            break
        if chunk == _ZEROS[: len(chunk)]:
            os.lseek(fd, len(chunk), os.SEEK_CUR)
            continue
        while chunk:
            chunk = chunk[os.write(fd, chunk) :]
    os.ftruncate(fd, size)


@contextmanager
def _as_far_as_allowed() -> Iterator[None]:
    """Pass over what only root may do if the caller is not root: the file is the user's then."""
    try:
        yield
    except PermissionError:
        if not unprivileged():
            raise


def _special(parent: int, name: str, member: Member) -> None:
    """A symbolic link, a device or a FIFO: made, never opened.

    An image has thousands of them, and the log of a run that pulls it has a line for each layer.
    """
    if member.kind == "link":
        os.symlink(member.target, name, dir_fd=parent)
    else:
        kind, device = _DEVICES.get(member.kind, stat.S_IFIFO), 0
        if member.kind in _DEVICES:
            device = os.makedev(*member.device)
            if unprivileged():  # no mknod then; a container's /dev is its own
                kind, device = stat.S_IFREG, 0
        os.mknod(name, kind | 0o600, device, dir_fd=parent)
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            found = os.fstat(fd)
            if (stat.S_IFMT(found.st_mode), found.st_rdev) != (kind, device):
                raise os_error(errno.ESTALE, name)  # exchanged just now
            own = f"/proc/self/fd/{fd}"
            with _as_far_as_allowed():
                os.chown(own, member.uid, member.gid)
            os.chmod(own, member.mode)
            os.utime(own, ns=(member.mtime, member.mtime))
        finally:
            os.close(fd)
        return
    with _as_far_as_allowed():
        os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
    times = (member.mtime, member.mtime)
    os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)


def _date_directory(root: Root, path: str, mtime: int) -> None:
    """Date a directory once all its files are made; a later member may have replaced it."""
    try:
        fd = root.open(path or ".", _DIRECTORY)
    except OSError:
        return
    try:
        os.utime(fd, ns=(mtime, mtime))
    finally:
        os.close(fd)


def close_directories(tree: str, modes: Mapping[str, int]) -> None:
    """Give the directories of an unpacked tree the modes that they were not given before.

    A directory that a later entry has replaced keeps its mode. Raises OSError.
    """
    with closing(Root.at(tree)) as root:
        for path in sorted(modes, reverse=True):  # what lies in a directory is closed before it
            try:
                fd = root.open(path or ".", _DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                if stat.S_IMODE(os.fstat(fd).st_mode) == modes[path] | stat.S_IRWXU:
                    os.fchmod(fd, modes[path])
            finally:
                os.close(fd)


def copy_file(source: int, path: str, parent: int, name: str) -> None:
    """Copy `path` of the directory `source` as `name` into `parent`, with all that it has.

    A file, or a link; not a directory, nor a device. Raises ImageError, OSError.
    """
    info = os.lstat(path, dir_fd=source)
    attributes: dict[str, bytes] = {}
    fd = -1
    kind = {stat.S_IFREG: "file", stat.S_IFLNK: "link"}.get(stat.S_IFMT(info.st_mode), "")
    if not kind:
        raise ImageError(f"archive: a hard link to {path!r}, which is neither file nor link")
    if kind == "file":
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
        attributes = {key: os.getxattr(fd, key) for key in files.attributes(fd)}
    target = os.readlink(path, dir_fd=source) if kind == "link" else ""
    member = Member(
        path, kind, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, info.st_size,
        info.st_mtime_ns, target, (0, 0), attributes,
    )  # fmt: skip
    if kind == "link":
        _special(parent, name, member)
        return
    with os.fdopen(fd, "rb") as file:
        copy = os.open(name, _FILE, 0o600, dir_fd=parent)
        _finish(copy, member, Body(file, info.st_size), clear=True)
