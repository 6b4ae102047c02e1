"""What a container's tree was like before the GPUs came, so that a failure leaves no trace.

The real nvidia-container-cli leaves 26 mounts and as many empty files behind when the node of a GPU
is missing. Here the places that will be written to are looked at before anything happens: which
exist, what is mounted, which links and which ld.so.cache ldconfig may replace. When a step fails,
what is new is unmounted and removed and what was replaced is put back.
"""

import os
import stat

from minirun.core import events
from minirun.core.kernel import mountinfo, mounts
from minirun.core.rootfs.inroot import Root
from minirun.core.rootfs.plan import MountFs, WriteFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.gpu.operations import Doing

_CACHES = ("/etc/ld.so.cache", "/etc/ld.so.cache~", "/var/cache/ldconfig/aux-cache")
"""What ldconfig writes, and what it leaves when it is killed."""
_LARGEST = 64 << 20
_MOST_LINKS = 40


class Before:
    """What a container's tree is like before it is configured, as far as that may change it."""

    def __init__(
        self, root: Root, rootfs: str, todo: "tuple[Doing, ...]", folders: "tuple[str, ...]"
    ) -> None:
        self.root = root
        self.rootfs = rootfs
        self.missing: "list[str]" = []
        """Parents come before what lies in them."""
        self.known: "set[str]" = {"", "/"}
        """Paths that were looked at."""
        hidden: "list[str]" = []
        for doing in todo:
            if not any(doing.path.startswith(f"{above}/") for above in hidden):
                self._look(doing.path)
            if isinstance(doing, MountFs):
                hidden.append(doing.path)
        for path in (*_CACHES, *folders):
            self._look(path)
        self.links = {folder: _links(root, folder) for folder in folders}
        self.caches = {path: _content(root, path) for path in _CACHES}
        self.mounted = set(_mounted(rootfs))

    def _look(self, path: str, links: int = 0) -> None:
        """Remember `path`, and the folders above it, that are not there."""
        if path in self.known:
            return
        self.known.add(path)
        try:
            os.close(self.root.open(path))
        except FileNotFoundError:
            above = path.rpartition("/")[0]
            target = self.root.link_target(path)
            if target and links < _MOST_LINKS:  # what it points to is made, not the link
                self._look(target if target[0] == "/" else f"{above}/{target}", links + 1)
            else:
                self._look(above, links)
                self.missing.append(path)
        except OSError:
            pass  # a loop, or a file on the way: nothing will be made there

    def restore(self) -> None:
        """Put everything back. What cannot be is told in the log: only the first error counts."""
        for row in reversed([row for row in _mounted(self.rootfs) if row not in self.mounted]):
            _try(_unmount, self.root, row[1])
        for folder, old in self.links.items():
            self._restore_links(folder, old)
        for path, content in self.caches.items():
            if content is not None and _content(self.root, path) != content:
                _try(_write, self.root, path, content)
        for path in reversed(self.missing):
            _try(_remove, self.root, path)
        events.emit("note", "undone", {"rootfs": self.rootfs}, why="as if nothing had happened")

    def _restore_links(self, folder: str, old: "dict[str, str]") -> None:
        """Remove the links that ldconfig made in `folder`, and make those anew that it replaced."""
        now = _links(self.root, folder)
        for name, target in now.items():
            if old.get(name) != target:
                _try(_remove, self.root, f"{folder}/{name}")
        for name, target in old.items():
            if now.get(name) != target:
                _try(_link, self.root, f"{folder}/{name}", target)


def _try(work: "Callable[..., None]", root: Root, path: str, *more: object) -> None:
    """Do a part of the undoing, whatever became of the others."""
    try:
        work(root, path, *more)
    except FileNotFoundError:
        pass  # the failure came before it was made
    except OSError as error:
        events.emit("note", "not undone", {"path": path, "error": str(error)})


def _mounted(rootfs: str) -> "list[tuple[int, str]]":
    """Return (id, mount point) of what is mounted below `rootfs`."""
    base = f"{os.path.realpath(rootfs)}/"
    rows = [(mount.mount_id, mount.mount_point) for mount in mountinfo.read()]
    return [row for row in rows if row[1].startswith(base)]


def _unmount(_: Root, path: str) -> None:
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


def _link(root: Root, path: str, target: str) -> None:
    parent, name = root.parent(path)
    try:
        os.symlink(target, name, dir_fd=parent)
    finally:
        os.close(parent)


def _write(root: Root, path: str, content: bytes) -> None:
    WriteFile(path, content).execute(root)


def _remove(root: Root, path: str) -> None:
    """Remove a file, a link, a node, or a folder that is empty."""
    above, _, name = path.rpartition("/")
    parent = root.open(above or "/", os.O_PATH | os.O_DIRECTORY)
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)
    finally:
        os.close(parent)
