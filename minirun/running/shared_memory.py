"""/dev/shm of a container that others may join: --ipc shareable, and --ipc container:ID.

An IPC namespace has System V's shared memory and the queues of messages. POSIX shared memory is
files in /dev/shm, which is a mount: who joins one needs the other too. So the tmpfs is mounted on
the host, in the container's directory, which only root may enter; config.json binds it, that of the
container and that of each which joins. Nothing of the container's mount namespace, in which its
root may mount what it likes, is looked at.

It is unmounted when the container ends, also by `gc` after SIGKILL: the record, which is written
before, says that there is one. A container that has joined keeps its bind of it.

What the real stack does: dockerd has the same mount, CONTAINER/mounts/shm, for each container
whose mode is shareable; without --ipc the mode is private, as it is here.
"""

from __future__ import annotations

import os

from minirun.common import docker_record
from minirun.core.container import Container, Extra
from minirun.core.errors import MinirunError
from minirun.core.keeping import places
from minirun.core.kernel import mounts
from minirun.oci import run_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SharedMemory(Extra):
    """The tmpfs of one container, at its end."""

    def ended(self) -> None:
        """Unmount it, if it is mounted. Raises OSError."""
        path = f"{self.container.directory}/{places.SHM}"
        while os.path.ismount(path) and mounts.detach(path, why="the container has ended"):
            pass


def mount(container: Container) -> None:
    """Mount the tmpfs that config.json binds at /dev/shm. Raises OSError."""
    path = f"{container.directory}/{places.SHM}"
    os.makedirs(path, 0o700, exist_ok=True)
    words = _row(container)["options"]
    data = ",".join(word for word in words if word.startswith(("size=", "mode=")))
    flags = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
    why = "the container binds it at /dev/shm, and so does each that joins"
    mounts.mount("shm", path, "tmpfs", flags, data, why=why)


def source(other: Container) -> str:
    """Return what a container that joins this one binds at /dev/shm.

    Raises MinirunError, in docker's words, if the other's is private.
    """
    docker = docker_record.of(other.record)
    if docker.shared_memory:
        return f"{other.directory}/{places.SHM}"
    if "ipc" in docker.joined:
        return str(_row(other)["source"])
    text = f"can't join IPC of container {other.name}: non-shareable IPC"
    raise MinirunError(text, "run that one with --ipc shareable")


def _row(container: Container) -> dict[str, Any]:
    rows = container.config.raw["mounts"]
    return next(row for row in rows if row["destination"] == run_config.SHM)
