"""Operations of a plan (minirun.core.rootfs): a link, a node, a file, two kinds of mounts.

Destinations are always resolved inside the root and then used as descriptors.
"""

import errno
import os
import stat

from minirun.core.keeping.record import Record
from minirun.core.kernel import files, mounts
from minirun.core.rootfs.inroot import Root

KINDS = {"c": stat.S_IFCHR, "b": stat.S_IFBLK, "p": stat.S_IFIFO}


class Symlink(Record):
    """Make a symbolic link `path` that points to `target`; an existing name is left as it is."""

    target: str
    path: str

    def describe(self) -> str:
        return f"ln -s {self.target} {self.path}"

    def execute(self, root: Root) -> None:
        parent, name = root.make_parent(self.path)
        try:
            files.symlinkat(self.target, parent, name, shown=self.path)
        except FileExistsError:
            pass
        finally:
            os.close(parent)


class MakeNode(Record):
    """Make a device node or FIFO: kind c, b or p; `mode` holds the permission bits."""

    path: str
    kind: str
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0

    def describe(self) -> str:
        return f"mknod -m {self.mode:o} {self.path} {self.kind} {self.major} {self.minor}"

    def execute(self, root: Root) -> None:
        parent, name = root.make_parent(self.path)
        try:
            device = os.makedev(self.major, self.minor)
            mode = KINDS[self.kind] | self.mode
            files.mknodat(parent, name, mode, device, shown=self.path)
            if self.uid or self.gid:
                os.chown(name, self.uid, self.gid, dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)


class WriteFile(Record):
    """Write a small file; never through a link at its last name, and never to a device."""

    path: str
    data: bytes
    mode: int = 0o644

    def describe(self) -> str:
        return f"write {len(self.data)} bytes to {self.path}"

    def execute(self, root: Root) -> None:
        parent, name = root.make_parent(self.path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            fd = os.open(name, flags | os.O_CLOEXEC, self.mode, dir_fd=parent)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError(errno.EINVAL, "not a regular file", self.path)
                os.write(fd, self.data)
            finally:
                os.close(fd)
        finally:
            os.close(parent)


class MountFs(Record):
    """Mount a file system (proc, tmpfs, overlay, …) on a directory, made if it is missing."""

    fstype: str
    source: str
    path: str
    flags: int = 0
    data: str = ""
    why: str = ""

    def describe(self) -> str:
        options = f" -o {self.data}" if self.data else ""
        return f"mount -t {self.fstype} {self.source} {self.path}{options}"

    def execute(self, root: Root) -> None:
        fd = root.make_dir(self.path)
        try:
            mounts.mount(
                self.source, f"/proc/self/fd/{fd}", self.fstype, self.flags, self.data or None,
                shown=self.path, why=self.why,
            )  # fmt: skip
        finally:
            os.close(fd)


class Bind(Record):
    """Bind a file or directory of the host, with properties MOUNT_ATTR_* set on it.

    `source` is a path of the host, never one of the image.
    """

    source: str
    path: str
    attributes: int = 0
    recursive: bool = True
    why: str = ""

    def describe(self) -> str:
        return f"mount --{'r' if self.recursive else ''}bind {self.source} {self.path}"

    def execute(self, root: Root) -> None:
        source = os.open(self.source, os.O_PATH | os.O_CLOEXEC)
        try:
            bind_fd(root, source, self.source, self.path, self.attributes, self.recursive, self.why)
        finally:
            os.close(source)


def bind_fd(
    root: Root,
    source_fd: int,
    source: str,
    path: str,
    attributes: int = 0,
    recursive: bool = True,
    why: str = "",
) -> None:
    """Mount what `source_fd` refers to at `path` in the root: open_tree, mount_setattr, move_mount.

    The mount point is made if it is missing: a directory for a directory, else an empty file.
    Raises OSError.
    """
    flags = mounts.OPEN_TREE_CLONE | mounts.AT_EMPTY_PATH
    if recursive and stat.S_ISDIR(os.fstat(source_fd).st_mode):
        flags |= mounts.AT_RECURSIVE
    tree = mounts.open_tree(source_fd, "", flags, shown=source, why=why)
    try:
        if attributes:
            mounts.mount_setattr(tree, attributes, recursive=recursive, shown=path)
        attach(root, tree, path)
    finally:
        os.close(tree)


def attach(root: Root, tree: int, path: str) -> None:
    """Attach the detached mount `tree` at `path` in the root; a missing mount point is made.

    Raises OSError.
    """
    is_dir = stat.S_ISDIR(os.fstat(tree).st_mode)
    target = root.make_dir(path) if is_dir else root.make_file(path)
    try:
        mounts.move_mount(tree, target, shown=path)
    except OSError as error:
        if error.errno == errno.EINVAL and stat.S_ISDIR(os.fstat(target).st_mode) != is_dir:
            error.errno = 20  # ENOTDIR: what mount(2) says of it, and docker looks for
        raise
    finally:
        os.close(target)
