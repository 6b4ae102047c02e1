"""Stage 5: Edits → the container, whichever vendor planned them: all of their steps, or none.

The half-started container is a mount namespace in which everything is mounted, and in which the
host's tree can still be seen: sources are paths of the host, destinations are resolved below a
descriptor of the container's root, and no path of the image is ever a source (CVE-2024-0132,
CVE-2025-23359; minirun.gpu.nvidia.cli.compat says what stands in for one). nvidia-container-cli
does the same work in the same order, ldconfig last. Where it allows each device in the cgroup as it
goes, minirun allows all of them at the end in one call, which on cgroup2 is one eBPF program.

The real one leaves 26 mounts and as many empty files behind when the node of a GPU is missing. Here
the state of all paths that the steps will write is recorded first: which exist, what is mounted,
which links and which ld.so.cache ldconfig may replace. When a step fails, new mounts and files are
removed, and replaced files are put back.

The record is made by following links by hand: openat2(RESOLVE_IN_ROOT) keeps a link that passes
above the root inside without an error, but nvidia-container-cli refuses such an image. So does
this.
"""

from __future__ import annotations

import os
import stat

from minirun.core import events
from minirun.core.errors import GPUError
from minirun.core.kernel import mountinfo, mounts, namespaces
from minirun.core.lazy import lazy
from minirun.core.rootfs.inroot import MOST_LINKS, Root
from minirun.core.rootfs.operations import Symlink, WriteFile
from minirun.core.rootfs.own_root import OwnRoot
from minirun.gpu import ldconfig
from minirun.gpu.driverroot import link_target
from minirun.gpu.steps import Place
from minirun.gpu.target import Target

with lazy:
    from minirun.gpu import owner  # for user namespaces alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from minirun.gpu.edits import Edits
    from minirun.gpu.steps import Step

    Seen = dict[str, str | None]
    """Path without links on the way → the target of the link there; "" for no link, None for
    nothing."""

_CACHES = ("/etc/ld.so.cache", "/etc/ld.so.cache~", "/var/cache/ldconfig/aux-cache")
"""What ldconfig writes, and what it leaves when it is killed."""
_LARGEST = 64 << 20


def apply(
    edits: Edits, target: Target, before_step: Callable[[Step | str], None] = lambda _: None
) -> None:
    """Put `edits` into the container; `before_step` is called with each step.

    Raises MinirunError, OSError; the container is as it was before then.
    """
    if target.owner != (0, 0):
        owner.make_files_as(*target.owner)
    if target.ldconfig >= 0:
        ldconfig.check(target.root)
    before = Before(target, edits)
    mask = os.umask(0)
    try:
        place = Place(target.root, edits.driver_root, target.owner != (0, 0))
        for step in edits.steps:
            before_step(step)
            _execute(step, place)
        if target.ldconfig >= 0:
            before_step(edits.ldconfig)
            ldconfig.run(target, edits.ldconfig, edits.library_folders)
        if target.cgroup is not None:
            target.cgroup.allow_devices(edits.device_rules())
    except BaseException:
        before.restore()
        raise
    finally:
        os.umask(mask)
        if target.owner != (0, 0):
            owner.make_files_as(0, 0)


def _execute(step: Step, place: Place) -> None:
    """Execute one step; if its path is a link to nothing, at the link's target in the root."""
    try:
        step.execute(place)
    except FileNotFoundError:  # a link to nothing: its target is made, inside the root
        path, _ = resolve(place.root, step.path, {})
        if path == step.path:
            raise
        step._replace(path=path).execute(place)


def enter(pid: int) -> tuple[int, int]:
    """Move into the mount namespace of `pid`; return the owner, as :class:`Target` has it.

    Raises OSError.
    """
    found = (0, 0)
    if os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
        found = owner.enter(pid)
    why = "the container's mounts, before pivot_root: both trees can be seen"
    namespaces.enter(f"/proc/{pid}/ns/mnt", namespaces.CLONE_NEWNS, why=why)
    return found


class Before:
    """A container's tree before its edits. Raises GPUError if a path of theirs leads outside."""

    def __init__(self, target: Target, edits: Edits) -> None:
        self.root = target.root
        self.rootfs = target.rootfs
        self.folders = edits.library_folders
        self.seen: Seen = {}
        paths = (path for step in edits.steps for path in (os.path.dirname(step.path), step.path))
        for path in dict.fromkeys(paths):
            if resolve(self.root, path, self.seen)[1]:
                raise GPUError(f"mount error: path error: {path} resolves outside of {self.rootfs}")
        for path in (*_CACHES, *self.folders):
            resolve(self.root, path, self.seen)
        self.files = self._replaceable()
        self.mounted = set(_mounted(self.rootfs))

    def _replaceable(self) -> dict[str, Symlink | WriteFile]:
        """Return path → how to make it again, for what ldconfig may replace: links and caches."""
        found: dict[str, Symlink | WriteFile] = {}
        for folder in self.folders:
            for name, target in _links(self.root, folder).items():
                found[f"{folder}/{name}"] = Symlink(target, f"{folder}/{name}")
        for path in _CACHES:
            try:
                found[path] = WriteFile(path, self.root.read(path, _LARGEST))
            except OSError:
                pass  # not there, or no file
        return found

    def restore(self) -> None:
        """Put everything back. An error in it is only logged: the caller raises the first one."""
        for row in reversed([row for row in _mounted(self.rootfs) if row not in self.mounted]):
            _try(row[1], _unmount, row[1])
        now = self._replaceable()
        for path in {**now, **self.files}:
            old = self.files.get(path)
            if old != now.get(path):
                _try(path, self._remove, path)
                if old:
                    _try(path, old.execute, self.root)
        for path in reversed([place for place, target in self.seen.items() if target is None]):
            _try(path, self._remove, path)
        events.emit("note", "undone", {"rootfs": self.rootfs}, why="as if nothing had happened")

    def _remove(self, path: str) -> None:
        """Remove a file, a link, a node, or a folder that is empty; none of the host's."""
        above, _, name = path.rpartition("/")
        parent = self.root.open(above or "/", os.O_PATH | os.O_DIRECTORY)
        try:
            if self.root.of_host(parent):
                return
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)
        finally:
            os.close(parent)


def _try(path: str, work: Callable[[Any], None], argument: object) -> None:
    """Do one part of the undoing; log an error of it, so that the other parts follow."""
    try:
        work(argument)
    except FileNotFoundError:
        pass  # the failure came before it was made
    except OSError as error:
        events.emit("note", "not undone", {"path": path, "error": str(error)})


def _mounted(rootfs: str) -> list[tuple[int, str]]:
    """Return (id, mount point) of what is mounted below `rootfs`."""
    base = f"{os.path.realpath(rootfs)}/"
    rows = [(mount.mount_id, mount.mount_point) for mount in mountinfo.read()]
    return [row for row in rows if row[1].startswith(base)]


def _unmount(path: str) -> None:
    mounts.detach(path, why="undone")


def _links(root: OwnRoot, folder: str) -> dict[str, str]:
    """Return name → target of the links to libraries in a folder; of none among host files."""
    try:
        fd = root.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return {}
    try:
        if root.of_host(fd):  # ldconfig can change nothing there
            return {}
        with os.scandir(fd) as entries:
            names = [entry.name for entry in entries if ".so" in entry.name and entry.is_symlink()]
        return {name: os.readlink(name, dir_fd=fd) for name in names}
    finally:
        os.close(fd)


def resolve(root: Root, path: str, seen: Seen) -> tuple[str, bool]:
    """Return (`path` without links, inside the root; True if ".." would have left the root).

    What does not exist stays as it is. `seen` keeps what was looked at: many files have the same
    folders, and nothing changes between two calls with the same one.
    """
    above = False
    at: list[str] = []
    todo = _parts(path)
    links = 0
    while todo and links < MOST_LINKS:
        part = todo.pop(0)
        if part == "..":
            above = above or not at
            del at[-1:]
            continue
        folder, place = "/".join(at), "/".join([*at, part])
        if place not in seen:
            seen[place] = link_target(root, place) if seen.get(folder, "") is not None else None
        target = seen[place]
        if not target:
            at.append(part)
            continue
        links += 1
        if target.startswith("/"):
            at = []
        todo = _parts(target) + todo
    return "/" + "/".join(at), above


def _parts(path: str) -> list[str]:
    """Return a path's names, without empty ones and dots."""
    return [part for part in path.split("/") if part not in ("", ".")]
