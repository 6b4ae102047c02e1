"""Putting an archive's files below a directory, and nothing anywhere else.

Every name is looked up by openat2(2) inside the directory (minirun.core.rootfs.inroot), and the
last part of it is made, linked, changed and dated through descriptors, never by following a link.
So a link to the host, an absolute name or a hard link to a path of the host finds only what lies in
the new tree. Refused with one line: a name with "..", a whiteout, a mark of overlay's own (a layer
with them would change what lies below it), a depth of more than 256. Of extended attributes
security.capability and user.* are kept: the host's own labels are no part of an image.

Without root every file becomes the user's own, who is root in the container; there are no device
nodes then, nor file capabilities. (podman calls it ignore_chown_errors.)
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from io import BufferedIOBase

from minirun.core.errors import ImageError
from minirun.core.kernel import files
from minirun.core.rootfs.inroot import Root
from minirun.core.settings import unprivileged
from minirun.image.store import failure
from minirun.image.tarstream import Body, Member, members

DEPTH_LIMIT = 256
ID_LIMIT = 2**32 - 2
_CHUNK = 1 << 18
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack(stream: BufferedIOBase, tree: str) -> int:
    """Unpack the tar archive `stream` below the directory `tree`; return the number of members.

    Raises ImageError, which names the member: a bad archive, a forbidden member, a full disk.
    """
    dated: dict[str, int] = {}
    count = 0
    with closing(Root.at(tree)) as root:
        for member, body in members(stream):
            path = _inside(member.name, member.name)
            try:
                _place(root, path, member, body)
            except OSError as error:
                raise failure(error, f"archive: {member.name!r}") from None
            if member.kind == "dir":
                dated[path] = member.mtime
            count += 1
        for path, mtime in dated.items():
            _date_directory(root, path, mtime)
    return count


def _inside(name: str, member: str) -> str:
    """Return `name` as a path below the root, without "." and doubled slashes."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ImageError(f"archive: {member!r} leads out of the root filesystem")
    if len(parts) > DEPTH_LIMIT:
        raise ImageError(f"archive: {member[:60]!r}… lies deeper than {DEPTH_LIMIT} directories")
    if any(part.startswith(".wh.") for part in parts):
        hint = "one layer is no root filesystem: docker export"
        raise ImageError(f"archive: {member!r} is a whiteout", hint)
    return "/".join(parts)


def _place(root: Root, path: str, member: Member, body: Body) -> None:
    _refuse_odd(member)
    if not path:
        _place_root(root, member)
        return
    head, _, name = path.rpartition("/")
    parent = root.make_dir(head or ".")
    try:
        _make_room(parent, name, member.kind)
        if member.kind == "file":
            fd = os.open(name, _FILE, 0o600, dir_fd=parent)
            _finish(fd, member, body)
        elif member.kind == "dir":
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
            _finish(os.open(name, _DIRECTORY, dir_fd=parent), member)
        elif member.kind == "hard link":
            _hard_link(root, member, parent, name)
        else:
            _special(parent, name, member)
    finally:
        os.close(parent)


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


def _make_room(parent: int, name: str, kind: str) -> None:
    """Remove what an earlier member left under that name, but keep a directory for a directory."""
    try:
        mode = os.lstat(name, dir_fd=parent).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=parent)
    elif kind != "dir":
        shutil.rmtree(name, dir_fd=parent)


def _finish(fd: int, member: Member, body: Body | None = None) -> None:
    """Write the content and set owner, mode (chown clears bits of it), attributes and date."""
    try:
        while body and (chunk := body.read(_CHUNK)):
            while chunk:
                chunk = chunk[os.write(fd, chunk) :]
        with _as_far_as_allowed():
            os.fchown(fd, member.uid, member.gid)
        os.fchmod(fd, member.mode)
        for name, value in member.xattrs.items():
            if name == "security.capability" or name.startswith("user."):
                with _as_far_as_allowed():
                    os.setxattr(fd, name, value)
        os.utime(fd, ns=(member.mtime, member.mtime))
    finally:
        os.close(fd)


@contextmanager
def _as_far_as_allowed() -> Iterator[None]:
    """Pass over what only root may do if the caller is not root: the file is the user's then."""
    try:
        yield
    except PermissionError:
        if not unprivileged():
            raise


def _hard_link(root: Root, member: Member, parent: int, name: str) -> None:
    """Link to what lies in the tree; a target outside of it does not exist (CVE-2026-50163)."""
    head, _, last = _inside(member.target, member.name).rpartition("/")
    source = root.open(head or ".", os.O_PATH | os.O_DIRECTORY)
    try:
        os.link(last, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
    finally:
        os.close(source)


def _special(parent: int, name: str, member: Member) -> None:
    """A symbolic link, a device or a FIFO: made, never opened."""
    if member.kind == "link":
        files.symlinkat(member.target, parent, name, shown=member.name)
    else:
        kind = {"c": stat.S_IFCHR, "b": stat.S_IFBLK, "p": stat.S_IFIFO}[member.kind]
        device = os.makedev(*member.device) if member.kind != "p" else 0
        if member.kind != "p" and unprivileged():
            return  # no mknod without root; a container's /dev is its own
        files.mknodat(parent, name, kind | 0o600, device, shown=member.name)
    with _as_far_as_allowed():
        os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
    if member.kind != "link":
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{fd}", member.mode)
        finally:
            os.close(fd)
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
