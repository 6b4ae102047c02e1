"""`minirun export`: all files of a container as one archive, whether it runs or has ended.

Of one that runs, what its init sees is read, from the root directory of init on; of one that has
ended, the layers and what it has written over them are mounted again, read-only, where no other
process sees it. What is mounted inside (/proc, /dev, volumes) is an empty directory in the archive,
as docker has it. No path is followed: rootfs_tools.tar.pack.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from minirun.core.container import Container
from minirun.core.errors import StateError
from minirun.core.keeping import places, state
from minirun.core.kernel import files, mounts, namespaces
from minirun.core.rootfs.build import RootMount
from rootfs_tools.tar.pack import Packer
from rootfs_tools.tar.stream import Member
from rootfs_tools.tar.writer import TarWriter


def export(container: Container, stream: BinaryIO) -> None:
    """Write the archive. Raises StateError, ImageError, OSError."""
    writer = _OwnIds(stream, container.config.linux)
    with _root(container) as fd:
        Packer(writer).top(fd)
    writer.finish()


class _OwnIds(TarWriter):
    """Writes owners as the container's user namespace has them."""

    def __init__(self, stream: BinaryIO, linux: Mapping[str, Any]) -> None:
        super().__init__(stream)
        self._uids, self._gids = (linux.get(key) or () for key in ("uidMappings", "gidMappings"))

    def add(self, member: Member, content: BinaryIO | None = None) -> None:
        """Write a member."""
        uid, gid = _inside(self._uids, member.uid), _inside(self._gids, member.gid)
        super().add(member._replace(uid=uid, gid=gid), content)


def _inside(rows: Any, number: int) -> int:
    """Return what the container calls an id of the host's; the same if it has no name for it."""
    for row in rows:
        if row["hostID"] <= number < row["hostID"] + row["size"]:
            return int(number - row["hostID"] + row["containerID"])
    return number


@contextmanager
def _root(container: Container) -> Iterator[int]:
    """Yield a descriptor of the container's root filesystem. Raises StateError, OSError."""
    status = container.record.status
    if status == state.STOPPED:
        with _mounted(container) as fd:
            yield fd
        return
    if status == state.CREATING:
        raise StateError(f"container {container.id} is not complete: there is nothing to export")
    init = container.record.first_process()
    try:
        fd = os.open(f"/proc/{init['pid']}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        raise StateError(f"container {container.id} ended just now", "export it again") from None
    try:
        if not state.is_alive(init) or os.path.samestat(os.fstat(fd), os.stat("/")):
            raise StateError(f"container {container.id} has no root filesystem of its own now")
        yield fd
    finally:
        os.close(fd)


class _View(RootMount):
    """The layers, lowest first, and nothing that could be written to."""

    path: str
    layers: tuple[str, ...]
    writable: str
    options: str = ""

    def _options(self, layers: tuple[str, ...]) -> str:
        return f"lowerdir={':'.join(map(_escaped, reversed(layers)))}{self.options}"


def _escaped(path: str) -> str:
    for sign in "\\,:":
        path = path.replace(sign, f"\\{sign}")
    return path


@contextmanager
def _mounted(container: Container) -> Iterator[int]:
    """Yield the root of a container that has ended: for this process alone, it is mounted again."""
    config = container.config
    if not config.layers:
        yield from _opened(config.rootfs)
        return
    home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        namespaces.unshare(namespaces.FLAGS["mount"])
        mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
        layers = (*config.layers, f"{container.directory}/{places.UPPER}")
        options = ",userxattr" if "user" in config.namespaces else ""
        root = _View(config.rootfs, layers, "", options).execute()
        fd = files.reopen(root.fd, os.O_RDONLY | os.O_DIRECTORY)
        root.close()
        try:
            yield fd
        finally:
            os.close(fd)
    finally:
        namespaces.setns(home, namespaces.FLAGS["mount"])
        os.fchdir(folder)
        os.close(folder)
        os.close(home)


def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
