"""A container's name, if it is not its id: `minirun rename`.

minirun's id is the name that `run --name` gave: a directory, a cgroup and mounts have it, so it
stays while the container is there. A new name is a file in the container's directory, ROOT/ID/name.
It goes with the container, and an id counts before a name. docker has a number for the one, and a
word for the other.
"""

from __future__ import annotations

import fcntl
import os

from minirun.core.errors import StateError
from minirun.core.keeping import places, state, state_file


def name_of(directory: str) -> str:
    """Return the name of the container in a directory: its id, or what `rename` has called it."""
    container_id = directory.rpartition("/")[2]
    try:
        fd = state_file.open_directory(directory)
    except (OSError, StateError):
        return container_id
    try:
        name = state_file.read_file(fd, places.NAME).decode(errors="replace")
    except (OSError, StateError, ValueError):
        return container_id
    finally:
        os.close(fd)
    return name if state.is_id(name) else container_id


def find(root: str, name: str) -> str:
    """Return the id of the container that is called so below a state root; "" if none is."""
    for container_id in state.names(root) if state.is_id(name) else ():
        path = f"{root}/{container_id}"
        if os.path.lexists(f"{path}/{places.NAME}") and name_of(path) == name:
            return container_id
    return ""


def rename(root: str, container_id: str, name: str) -> None:
    """Give a container another name. Raises StateError if another has it, OSError.

    A lock of the root keeps two commands from giving one name to two containers.
    """
    directory = f"{root}/{container_id}"
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if name == name_of(directory):
            text = f"{container_id} is called {name} already"
            raise StateError(text, "rename needs a new name", status=1)
        other = name if os.path.lexists(f"{root}/{name}") else find(root, name)
        if other and other != container_id:
            text = f'Conflict. The container name "/{name}" is already in use'
            raise StateError(text, f"by {other}; another name, or minirun rm {other}", status=1)
        path = f"{directory}/{places.NAME}"
        if name == container_id:
            os.unlink(path)
        else:
            state.replace(path, name, f"{directory}/{places.NEXT_STATE}{os.getpid()}")
    finally:
        os.close(fd)
