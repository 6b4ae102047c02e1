"""`minirun export`: all files of a container as one archive, whether it runs or has ended.

What is mounted inside (/proc, /dev, volumes) is an empty directory in the archive, as docker has
it. No path is followed: rootfs_tools.tar.pack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from minirun.core.container import Container
from rootfs_tools.container_tree import opened
from rootfs_tools.tar.pack import Packer
from rootfs_tools.tar.stream import Member
from rootfs_tools.tar.writer import TarWriter


def export(container: Container, stream: BinaryIO) -> None:
    """Write the archive. Raises StateError, ImageError, OSError."""
    writer = OwnIds(stream, container.config.linux)
    with opened(container) as fd:
        Packer(writer).top(fd)
    writer.finish()


class OwnIds(TarWriter):
    """Writes owners as the container's user namespace has them."""

    def __init__(self, stream: BinaryIO, linux: Mapping[str, Any]) -> None:
        super().__init__(stream)
        self._own = own_ids(linux)

    def add(self, member: Member, content: BinaryIO | None = None) -> None:
        """Write a member."""
        super().add(self._own(member), content)


def own_ids(linux: Mapping[str, Any]) -> Callable[[Member], Member]:
    """Return what gives a member the owner that the container calls it by."""
    uids, gids = (linux.get(key) or () for key in ("uidMappings", "gidMappings"))
    return lambda member: member._replace(
        uid=container_id(uids, member.uid), gid=container_id(gids, member.gid)
    )


def container_id(rows: Any, number: int) -> int:
    """Return what the container calls an id of the host's; the same if it has no name for it."""
    for row in rows:
        if row["hostID"] <= number < row["hostID"] + row["size"]:
            return int(number - row["hostID"] + row["containerID"])
    return number
