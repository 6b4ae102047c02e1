"""What containers need of the store: for `image gc`, which removes the rest, and `system df`.

A container needs its layers from its first record on until it is deleted: one that has ended and
is kept can be looked into. If one record cannot be read, no layer is removed.
Containers begin and end while this runs (core/keeping/directories). So what has no name yet is read
before those that have one are listed: it may become one of them, and none is missed.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from minirun.common import docker_record
from minirun.core.errors import ImageError, StateError
from minirun.core.keeping import container_record, jsonlite, places, state
from minirun.core.keeping import state_file as records
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.keeping.directories import listed
from minirun.core.keeping.settings import Settings
from minirun.engines import roots


class InUse(NamedTuple):
    """What containers have."""

    layers: set[str]
    """Directories."""
    images: set[str]
    """Names."""
    directories: dict[str, bool]
    """Of the containers themselves; True for one that has not ended."""
    volumes: dict[str, set[str]]
    """Directory of a container → names of the volumes that it uses."""
    damaged: list[str]
    """Directories whose record cannot be read."""

    def certain(self) -> InUse:
        """Return this, if every record could be read. Raises ImageError."""
        if not self.damaged:
            return self
        path = self.damaged[0]
        text = f"{path}: its record is damaged, so which layers it uses is not known"
        raise ImageError(text, f"minirun delete --force {os.path.basename(path)}, then again")


def find(settings: Settings) -> InUse:
    """Return what the containers of every state root have that uses the store. Raises OSError.

    --root narrows nothing: another root's containers have layers of the same store.
    """
    found = InUse(set(), set(), {}, {}, [])
    everywhere = roots.known(settings._replace(root_is_named=False))
    for root in dict.fromkeys([*everywhere, f"{settings.store}/{places.CONTAINERS}"]):
        for directory in listed(f"{root}/{places.NEW}"):
            if record := _without_a_name(directory):
                _add(found, record)
        for directory in [f"{root}/{name}" for name in state.names(root)]:
            try:
                _add(found, records.read(directory))
            except records.DamagedRecord as error:
                if error.ours:
                    found.damaged.append(directory)
            except (StateError, FileNotFoundError):
                if os.path.isdir(f"{directory}/{places.UPPER}"):
                    found.damaged.append(directory)  # a container's, without its record
    return found


def _without_a_name(directory: str) -> ContainerRecord | None:
    """Return the record in a directory of ROOT/.new; None if there is none, yet or any more.

    If it is there it is whole, except after a loss of power: then its container is no more. Raises
    OSError.
    """
    try:
        fd = records.open_directory(directory)
    except (StateError, FileNotFoundError):
        return None
    try:
        value = jsonlite.loads(records.read_file(fd, places.STATE).decode())
        return container_record.parse(value, value["directory"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    finally:
        os.close(fd)


def _add(found: InUse, record: ContainerRecord) -> None:
    found.layers.update(record.choices.layers)
    docker = docker_record.of(record)
    found.volumes[record.directory] = {row["name"] for row in docker.mounts or () if row["name"]}
    found.images.update(filter(None, [docker.image]))
    found.directories[record.directory] = state.is_alive(record.init)
