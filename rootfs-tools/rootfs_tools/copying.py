"""`minirun cp`: files into a container, out of one, or from one into another.

Docker's rules for a path (moby's go-archive, copy.go): a source that ends with /. is what is in a
directory; a destination that exists and is a directory gets the source in it, under its own name;
else the source gets the destination's name, whose parent has to be there. A link is copied as a
link, except with -L, or if the path ends with a slash.

Both trees may be changed while they are copied, by a container that wants the copy to go astray
(CVE-2018-15664). So nothing is opened twice by a name. What is read is entered descriptor by
descriptor (rootfs_tools.tar.pack): no link is followed; devices, FIFOs and sockets are not opened.
What is written goes through descriptors that openat2(2) gives inside one root
(rootfs_tools.unpack): the container's on the one side, the destination on the other. So whatever
is exchanged on the way, the copy stays below it.

Docker sends a tar stream from one side to the other; here each member is handed on as it is read.
A device of a container becomes none of the host: it is left out, and a line says so.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from typing import Any, BinaryIO, NamedTuple

from minirun.core.errors import ImageError, StateError, from_os, reason
from minirun.core.kernel import files, namespaces
from minirun.core.rootfs.inroot import MOST_LINKS, Root
from minirun.oci.namespaces import idmap
from rootfs_tools.export import own_ids
from rootfs_tools.tar.fields import Body
from rootfs_tools.tar.pack import Packer
from rootfs_tools.tar.stream import Member, members
from rootfs_tools.tar.writer import TarWriter
from rootfs_tools.unpack import DEPTH_LIMIT, Unpacker

Ids = tuple[int, int]
"""User and group."""
Change = Callable[[Member], Member | None]
"""What becomes of a member: None if it is left out."""


class CopySource(NamedTuple):
    """What is copied."""

    fd: int
    """O_PATH, of the file or directory itself."""
    name: str
    """What it is called in an archive; "." for what is in a directory."""

    @property
    def is_directory(self) -> bool:
        """Return True for a directory."""
        return stat.S_ISDIR(os.fstat(self.fd).st_mode)


class CopyTarget(NamedTuple):
    """Where the copy goes."""

    root: Root
    """Nothing is written outside of it."""
    folder: str
    """The directory that the copy goes into, below the root."""
    name: str
    """The new name of the source; "" for its own."""


def asserts_directory(path: str) -> bool:
    """Return True if a path can only mean a directory: it ends with / or /."""
    return path.endswith(("/", "/.")) or path == "."


def base_name(path: str) -> str:
    """Return the name that the source has in an archive."""
    return "." if path.endswith("/.") or path == "." else os.path.basename(path.rstrip("/")) or "/"


def find(root: Root, path: str, container: str, *, follow: bool) -> CopySource:
    """Return a file of a container. Raises StateError, in docker's words, OSError."""
    flags = os.O_PATH | os.O_NOFOLLOW
    if follow or asserts_directory(path):
        flags = os.O_PATH
    try:
        fd = root.open(path.rstrip("/") or "/", flags)
    except OSError as error:
        raise _not_found(error, path, container) from None
    if asserts_directory(path) and not stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise StateError(f"{container}:{path}: not a directory", "without the slash at its end")
    return CopySource(fd, base_name(path))


def _not_found(error: OSError, path: str, container: str) -> StateError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        text = f"Could not find the file {_shown(path)} in container {container}"
        return StateError(text, f"minirun exec {container} ls -la")
    what = reason(error)
    return StateError(f"{container}:{path[:200]}: {what}", "another path")


def _shown(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"


def on_host(path: str, *, follow: bool) -> CopySource:
    """Return a file of the host. Raises StateError, in docker's words."""
    flags = os.O_PATH | os.O_CLOEXEC
    if not follow and not asserts_directory(path):
        flags |= os.O_NOFOLLOW
    try:
        fd = os.open(path.rstrip("/") or "/", flags)
    except OSError as error:
        what = reason(error)
        raise StateError(f"lstat {os.path.abspath(path)}: {what}", "a path that is there") from None
    if asserts_directory(path) and not stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise StateError(f"{path}: not a directory", "without the slash at its end")
    return CopySource(fd, base_name(path))


def inside(root: Root, path: str, container: str, source: CopySource | None) -> CopyTarget:
    """Return where in a container a copy goes; without a `source` it is an archive.

    Raises StateError, in docker's words.
    """
    wanted = path or "/"
    for _ in range(MOST_LINKS):
        if (after := _link(root, wanted)) is not None:
            wanted = after
            continue
        try:
            fd = root.open(wanted.rstrip("/") or "/")
        except FileNotFoundError:
            return _new(root, wanted, container, source, path)
        except OSError as error:
            raise _not_found(error, path, container) from None
        mode = os.fstat(fd).st_mode
        os.close(fd)
        return _existing(root, wanted, mode, f"{container}:{path}", source)
    raise StateError(f"{container}:{path}: too many symbolic links", "another path")


def _link(root: Root, path: str) -> str | None:
    """Return where a link leads, since docker writes there; None if it is no link."""
    try:
        fd = root.open(path.rstrip("/") or "/", os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            return None
        target = os.readlink("", dir_fd=fd)
        return target if target.startswith("/") else f"{os.path.dirname(path.rstrip('/'))}/{target}"
    finally:
        os.close(fd)


def _existing(
    root: Root, path: str, mode: int, shown: str, source: CopySource | None
) -> CopyTarget:
    """Return the target for a path at which something is."""
    if stat.S_ISDIR(mode):
        return CopyTarget(root, path, "")
    if source is None:
        text = f'destination "{shown}" must be a directory'
        raise StateError(text, "an archive is unpacked into it")
    if source.is_directory:
        raise StateError(f"cannot copy directory: {shown} is a file", "another destination")
    if asserts_directory(path):
        raise StateError(f"{shown}: not a directory", "without the slash at its end")
    if not stat.S_ISREG(mode):
        what = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "an irregular file"
        text = f'destination "{shown}" must be a directory or a regular file: got {what}'
        raise StateError(text, "another destination")
    head, _, name = path.rstrip("/").rpartition("/")
    return CopyTarget(root, head or "/", name)


def _new(
    root: Root, path: str, container: str, source: CopySource | None, shown: str
) -> CopyTarget:
    """Return the target for a path at which nothing is; the directory above has to be there."""
    if source is None:
        text = f'destination "{container}:{shown}" must be a directory'
        raise StateError(text, f"minirun exec {container} mkdir {shown}")
    if asserts_directory(path) and not source.is_directory:
        text = f"no such directory: {container}:{shown}"
        raise StateError(text, "mkdir it first, or without the slash at its end")
    head, _, name = path.rstrip("/").removesuffix("/.").rstrip("/").rpartition("/")
    try:
        os.close(root.open(head or "/", os.O_PATH | os.O_DIRECTORY))
    except OSError as error:
        raise _not_found(error, head, container) from None
    return CopyTarget(root, head or "/", name)


def on_the_host(path: str, source: CopySource) -> CopyTarget:
    """Return where on the host a copy goes. Raises StateError, in docker's words, OSError."""
    wanted = path
    for _ in range(MOST_LINKS):  # a link of the host's user, and not of the container
        if not os.path.islink(wanted):
            break
        wanted = os.path.join(os.path.dirname(wanted), os.readlink(wanted))
    above = os.path.dirname(os.path.abspath(wanted))
    if os.path.isdir(wanted):
        return CopyTarget(Root.at(wanted), ".", "")
    if not os.path.isdir(above):
        text = f'invalid output path: directory "{above}" does not exist'
        raise StateError(text, "mkdir it first")
    if not os.path.lexists(wanted):
        if asserts_directory(wanted) and not source.is_directory:
            text = f"no such directory: {path}"
            raise StateError(text, "mkdir it first, or without the slash at its end")
        return CopyTarget(Root.at(above), ".", os.path.basename(os.path.abspath(wanted)))
    return _existing(
        Root.at(above), os.path.basename(wanted), os.stat(wanted).st_mode, path, source
    )


def copy(source: CopySource, target: CopyTarget, change: Change) -> None:
    """Copy a file or a tree. Raises ImageError, StateError, OSError."""
    top = "" if source.name == "." and not target.name else target.name or source.name.strip("/")
    unpacker = _Writer(target)
    packer = _TreeReader(_Handing(unpacker, change))
    packer.entry(source.fd, top, 0)
    unpacker.forget_parent()
    unpacker.finish()


def copy_as_root_of(
    namespace: int, source: CopySource, target: CopyTarget, owner: Ids | None
) -> None:
    """Copy into a container of another user namespace, of which `namespace` is a descriptor.

    Its overlay belongs to that namespace: no file of it can be made by the host's root, whom it
    does not know. So a child becomes its root and writes what comes through a pipe, as an archive;
    ids are the container's own there. Raises ImageError, OSError.
    """
    top = "." if source.name == "." and not target.name else target.name or source.name.strip("/")
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    with _child(namespace, read_end, write_end, target, owner):
        os.close(read_end)
        try:
            with open(write_end, "wb") as stream:
                writer = TarWriter(stream)
                _TreeReader(writer).entry(source.fd, top, 0)
                writer.finish()
        except BrokenPipeError:
            pass  # the child says why


def read_archive_as_root_of(namespace: int, fd: int, target: CopyTarget, owner: Ids | None) -> None:
    """Unpack the archive that `fd` reads as :func:`copy_as_root_of` copies."""
    with _child(namespace, fd, -1, target, owner):
        pass


@contextmanager
def _child(
    namespace: int, archive: int, closed: int, target: CopyTarget, owner: Ids | None
) -> Iterator[None]:
    """Let a child unpack an archive; wait for it at the end, and raise what it has met."""
    said, saying = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            for fd in filter(lambda each: each >= 0, (closed, said)):
                os.close(fd)
            namespaces.setns(namespace, namespaces.FLAGS["user"], why="a container's root writes")
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
            with open(archive, "rb") as stream:
                read_archive(stream, target, with_owner(owner))
        except BaseException as caught:
            error = from_os(caught) if isinstance(caught, OSError) else caught
            hint = getattr(error, "hint", "")
            os.write(saying, f"{error}\0{hint}".encode(errors="replace"))
        finally:
            os._exit(0)
    os.close(saying)
    try:
        yield
    finally:
        with open(said, encoding="utf-8", errors="replace") as pipe:
            text, _, hint = pipe.read().partition("\0")
        os.waitpid(pid, 0)
    if text:
        raise StateError(text, hint)


def write_archive(source: CopySource, writer: TarWriter) -> None:
    """Write a file or a tree as an archive, with docker's names. Raises ImageError, OSError."""
    _TreeReader(writer).entry(source.fd, source.name, 0)
    writer.finish()


def read_archive(stream: BufferedIOBase, target: CopyTarget, change: Change) -> None:
    """Unpack an archive, whose names lead nowhere but below the container's root.

    Raises ImageError, OSError.
    """
    unpacker = _Writer(target)
    handing = _Handing(unpacker, change)
    for member, body in members(stream):
        handing.take(member, body)
    unpacker.forget_parent()
    unpacker.finish()


class _TreeReader(Packer):
    """Reads a tree with all that is mounted in it."""

    stay = files.RESOLVE_BENEATH | files.RESOLVE_NO_SYMLINKS | files.RESOLVE_NO_MAGICLINKS


class _FileBody(Body):
    """The content of an open file, whose holes are passed over."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__(file, size)  # type: ignore[arg-type]  # it is read from, and no more
        self._fd, self._at, self._size = file.fileno(), 0, size

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end, which may have come nearer."""
        data = os.pread(self._fd, min(size, self._size - self._at), self._at)
        self._at += len(data)
        return data

    def hole(self) -> int:
        """Skip a hole at this place: lseek(2), SEEK_DATA."""
        before = self._at
        try:
            self._at = min(os.lseek(self._fd, before, os.SEEK_DATA), self._size)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return 0  # the file system knows no holes
            self._at = self._size
        return self._at - before

    def finish(self) -> None:
        """Nothing is left to be read over."""


class _Handing(TarWriter):
    """Hands each member on to what writes it, in place of an archive."""

    def __init__(self, unpacker: _Writer, change: Change) -> None:
        self._unpacker, self._change = unpacker, change

    def add(self, member: Member, content: BinaryIO | None = None) -> None:
        """Take a member of a tree."""
        body = _FileBody(content, member.size) if content else Body(_EMPTY, 0)
        self.take(member, body)

    def take(self, member: Member, body: Body) -> None:
        """Write a member, unless it is left out. Raises ImageError, OSError."""
        changed = self._change(member)
        if changed is None:
            return
        path = _plain(changed.name)
        if changed.kind == "hard link":
            changed = changed._replace(target=self._unpacker.below(_plain(changed.target)))
        if path:
            self._unpacker.take(self._unpacker.below(path), changed, body)
        elif changed.kind != "dir":
            raise ImageError(f"archive: {member.name!r} has no name")


class _Nothing(BufferedIOBase):
    def read(self, size: int | None = -1, /) -> bytes:
        """Return the end."""
        return b""


_EMPTY = _Nothing()


def _plain(name: str) -> str:
    """Return a member's name as a path below the destination. Raises ImageError for a way out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ImageError(f"archive: {name[:200]!r} leads out of the destination")
    if len(parts) > DEPTH_LIMIT:
        raise ImageError(f"archive: {name[:60]!r}… lies deeper than {DEPTH_LIMIT} directories")
    return "/".join(parts)


class _Writer(Unpacker):
    """Writes below a directory that is there. Names of whiteouts mean nothing here."""

    def __init__(self, target: CopyTarget) -> None:
        super().__init__(target.root)
        self._folder = target.folder.strip("/")
        if self._folder == ".":
            self._folder = ""

    def below(self, path: str) -> str:
        """Return the path of a member from the root on."""
        return f"{self._folder}/{path}" if self._folder else path

    def take(self, path: str, member: Member, body: Body) -> None:
        """Put one member at `path`. Raises ImageError, OSError."""
        head, _, name = path.rpartition("/")
        parent = self.parent(head)
        self.make_room(parent, path, member.kind)
        self.place(parent, name, member, body)
        if member.kind == "dir":
            self.dates[path] = member.mtime

    def make_room(self, parent: int, path: str, kind: str) -> None:
        """Remove a file that is there; a directory is never replaced, nor a file by one."""
        name = path.rpartition("/")[2]
        try:
            is_directory = stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)
        except FileNotFoundError:
            return
        if is_directory and kind != "dir":
            raise StateError(
                f'cannot overwrite directory "/{path}" with non-directory', "rm it first"
            )
        if not is_directory and kind == "dir":
            raise StateError(
                f'cannot overwrite non-directory "/{path}" with directory', "rm it first"
            )
        super().make_room(parent, path, kind)


def with_owner(owner: Ids | None) -> Change:
    """Return what becomes of a member on its way into a container: with -a it is its user's."""
    return lambda member: member._replace(uid=owner[0], gid=owner[1]) if owner else member


def with_known_owner(owner: Ids | None) -> Change:
    """Return the same in a user namespace: an id that has no meaning there becomes root's."""
    uids, gids = idmap.read("self", "uid_map"), idmap.read("self", "gid_map")
    enter = with_owner(owner)

    def change(member: Member) -> Member | None:
        own = enter(member)
        return own and own._replace(
            uid=own.uid if idmap.host_id(uids, own.uid) is not None else 0,
            gid=own.gid if idmap.host_id(gids, own.gid) is not None else 0,
        )

    return change


class OutOf:
    """What becomes of a member on its way to the host."""

    def __init__(self, linux: Mapping[str, Any], *, keep_owner: bool) -> None:
        self._own = own_ids(linux)
        self._keep = keep_owner
        self.devices: list[str] = []
        """Names of devices, which are left out."""

    def __call__(self, member: Member) -> Member | None:
        """Return the member as the host gets it: the caller's own, except with `keep_owner`."""
        if member.kind in ("b", "c"):
            self.devices.append(member.name)
            return None
        if self._keep:
            return self._own(member)
        return member._replace(uid=os.geteuid(), gid=os.getegid())
