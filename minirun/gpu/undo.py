"""What a container's tree was like before the GPUs came, so that a failure leaves no trace.

The real nvidia-container-cli leaves 26 mounts and as many empty files behind when the node of a GPU
is missing. Here the places that will be written to are looked at before anything happens: which
exist, what is mounted, which links and which ld.so.cache ldconfig may replace. When a step fails,
what is new is unmounted and removed and what was replaced is put back.

The look follows links by hand. openat2(RESOLVE_IN_ROOT) keeps every look-up inside: at the root,
".." stays where it is. That is safe, but quiet; nvidia-container-cli refuses an image whose links
pass above the root, with "resolves outside of", and so does this.
"""

import os
import stat

from minirun.common import mountinfo
from minirun.common.operations import Symlink, WriteFile
from minirun.core import events
from minirun.core.errors import GPUError
from minirun.core.kernel import mounts
from minirun.core.rootfs.inroot import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Seen = dict[str, str | None]
    """Place without links on the way → where the link there leads; "" for no link, None for
    nothing."""

_CACHES = ("/etc/ld.so.cache", "/etc/ld.so.cache~", "/var/cache/ldconfig/aux-cache")
"""What ldconfig writes, and what it leaves when it is killed."""
_LARGEST = 64 << 20
_MOST_LINKS = 40  # as the kernel has it: path_resolution(7)


def resolve(root: Root, path: str, seen: "Seen") -> "tuple[str, bool]":
    """Return (`path` without links, inside the root; whether a link on it passes above the root).

    What does not exist stays as it is. `seen` keeps what was looked at: many files have the same
    folders, and nothing changes between two calls with the same one.
    """
    above = False
    at: "list[str]" = []
    todo = _parts(path)
    links = 0
    while todo and links < _MOST_LINKS:
        part = todo.pop(0)
        if part == "..":
            above = above or not at
            del at[-1:]
            continue
        folder, place = "/".join(at), "/".join([*at, part])
        if place not in seen:
            seen[place] = _look(root, place) if seen.get(folder, "") is not None else None
        target = seen[place]
        if not target:
            at.append(part)
            continue
        links += 1
        if target.startswith("/"):
            at = []
        todo = _parts(target) + todo
    return "/" + "/".join(at), above


def _parts(path: str) -> "list[str]":
    return [part for part in path.split("/") if part not in ("", ".")]


def _look(root: Root, path: str) -> "str | None":
    """Return where the link `path` leads, "" for anything else; None if nothing is there."""
    try:
        fd = root.open(path, os.O_PATH | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError:
        return ""  # a file on the way: nothing will be made there
    try:
        return os.readlink("", dir_fd=fd)
    except OSError:
        return ""
    finally:
        os.close(fd)


class Before:
    """What a container's tree is like before it is configured, as far as that may change it.

    `paths` is what will be made or mounted on, `folders` what ldconfig makes links in. Raises
    GPUError if one of `paths` leads outside.
    """

    def __init__(
        self, root: Root, rootfs: str, paths: "list[str]", folders: "tuple[str, ...]"
    ) -> None:
        self.root = root
        self.rootfs = rootfs
        self.seen: "Seen" = {}
        for path in dict.fromkeys(above for one in paths for above in (os.path.dirname(one), one)):
            if resolve(root, path, self.seen)[1]:
                raise GPUError(f"mount error: path error: {path} resolves outside of {rootfs}")
        for path in (*_CACHES, *folders):
            resolve(root, path, self.seen)
        self.links = {folder: _links(root, folder) for folder in folders}
        self.caches = {path: _content(root, path) for path in _CACHES}
        self.mounted = set(_mounted(rootfs))

    def restore(self) -> None:
        """Put everything back. What cannot be is told in the log: only the first error counts."""
        for row in reversed([row for row in _mounted(self.rootfs) if row not in self.mounted]):
            _try(row[1], _unmount, row[1])
        for folder, old in self.links.items():
            now = _links(self.root, folder)
            for name in [name for name in {**now, **old} if now.get(name) != old.get(name)]:
                path = f"{folder}/{name}"
                if name in now:
                    _try(path, self._remove, path)
                if name in old:
                    _try(path, Symlink(old[name], path).execute, self.root)
        for path, content in self.caches.items():
            if content is not None and _content(self.root, path) != content:
                _try(path, WriteFile(path, content).execute, self.root)
        for path in reversed([place for place, target in self.seen.items() if target is None]):
            _try(path, self._remove, path)
        events.emit("note", "undone", {"rootfs": self.rootfs}, why="as if nothing had happened")

    def _remove(self, path: str) -> None:
        """Remove a file, a link, a node, or a folder that is empty."""
        above, _, name = path.rpartition("/")
        parent = self.root.open(above or "/", os.O_PATH | os.O_DIRECTORY)
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)
        finally:
            os.close(parent)


def _try(path: str, work: "Callable[[Any], None]", argument: object) -> None:
    """Do a part of the undoing, whatever became of the others."""
    try:
        work(argument)
    except FileNotFoundError:
        pass  # the failure came before it was made
    except OSError as error:
        events.emit("note", "not undone", {"path": path, "error": str(error)})


def _mounted(rootfs: str) -> "list[tuple[int, str]]":
    """Return (id, mount point) of what is mounted below `rootfs`."""
    base = f"{os.path.realpath(rootfs)}/"
    rows = [(mount.mount_id, mount.mount_point) for mount in mountinfo.read()]
    return [row for row in rows if row[1].startswith(base)]


def _unmount(path: str) -> None:
    mounts.umount2(path, mounts.MNT_DETACH | mounts.UMOUNT_NOFOLLOW, why="undone")


def _links(root: Root, folder: str) -> "dict[str, str]":
    """Return name → target of the links to libraries in a folder of the container."""
    try:
        fd = root.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return {}
    try:
        with os.scandir(fd) as entries:
            names = [entry.name for entry in entries if ".so" in entry.name and entry.is_symlink()]
        return {name: os.readlink(name, dir_fd=fd) for name in names}
    finally:
        os.close(fd)


def _content(root: Root, path: str) -> "bytes | None":
    try:
        return root.read(path, _LARGEST)
    except OSError:
        return None
