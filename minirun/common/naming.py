"""The name of a container: one word, which belongs to one container of a state root at a time.

    ROOT/ID/name        the container's name: it comes with the directory, and goes with it
    ROOT/.names/NAME    a link to ../ID: so a name is found without a look at every container

A name counts if both say so. Names are taken and given back under a lock of the root, flock(2),
which ends with its process. At whatever moment a command is killed, a container has one name:

    create    the link; then the directory gets its id, and the name in it counts
    rename    the new link; then the file is replaced: the new name counts; then the old link goes
    remove    the directory goes; then the link

A link that is left over counts for nothing: the next container of that name replaces it, and `gc`
removes it. A container of an engine, and one of `run --bundle`, has no name besides its id.

minirun 0.2 made the name the id: ROOT/web. Such a container keeps this id, which is its name. If it
was renamed there, it has the file and no link: it is looked for among those that no link leads to.
docker keeps its names in the memory of its daemon.
"""

from __future__ import annotations

import fcntl
import os

from minirun.core.container import Container, Extra
from minirun.core.errors import StateError
from minirun.core.keeping import places, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.keeping.container_record import ContainerRecord

_ABOVE = "../"


class NamesLocked:
    """``with NamesLocked(root):`` no other process takes a name, or gives one back, meanwhile."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __enter__(self) -> None:
        self.fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
        except BaseException:
            os.close(self.fd)
            raise

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def id_of(root: str, text: str) -> str:
    """Return the id of the container below a state root that has this name, or this id; else ""."""
    if not state.is_id(text):
        return ""
    linked = _linked(root, text)
    if linked:
        directory = f"{root}/{linked}"
        called = state.name_of(directory)
        is_damaged = called == linked and state.is_made_up(linked)  # it had a name
        if called == text or (is_damaged and os.path.lexists(directory)):
            return linked
    if os.path.lexists(f"{root}/{text}"):
        return text
    for container_id in _without_a_link(root):
        path = f"{root}/{container_id}"
        if os.path.lexists(f"{path}/{places.NAME}") and state.name_of(path) == text:
            return container_id
    return ""


def take(root: str, name: str, container_id: str) -> None:
    """Make the link of a name that is free; the directory says the name next. Raises OSError.

    The caller holds the lock.
    """
    folder = f"{root}/{places.NAMES}"
    os.makedirs(folder, 0o700, exist_ok=True)
    link = f"{folder}/{name}"
    if _linked(root, name) != container_id:
        _unlink(link)
        os.symlink(f"{_ABOVE}{container_id}", link)


def record_of(root: str, text: str) -> ContainerRecord:
    """Return the record of the container of this name or id. Raises StateError, OSError."""
    return state.load(root, id_of(root, text) or text)


def refuse_taken(root: str, name: str, status: int, but: str = "") -> None:
    """Raise StateError, docker's words, if a container, but that of one id, has this name.

    An id that was made up is a name that no other container may have; one that a user has chosen is
    free as a name as soon as its container is called something else.
    """
    other = id_of(root, name)
    called = state.name_of(f"{root}/{other}")
    is_free = other in ("", but) or (called != name and not state.is_made_up(name))
    if not is_free:
        text = f'Conflict. The container name "/{name}" is already in use'
        hint = f"minirun rm {called}, or another name"
        raise StateError(text, hint, status=status)


def rename(root: str, container_id: str, name: str) -> None:
    """Give a container another name. Raises StateError if another has it, OSError."""
    directory = f"{root}/{container_id}"
    with NamesLocked(root):
        old = state.name_of(directory)
        if name == old:
            text = f"the container is called {name} already"
            raise StateError(text, "rename needs a new name", status=1)
        refuse_taken(root, name, 1, container_id)
        take(root, name, container_id)
        temporary = f"{directory}/{places.NEXT_STATE}{os.getpid()}"
        state.replace(f"{directory}/{places.NAME}", name, temporary)
        _drop(root, old, container_id)


def give_back(root: str, name: str, container_id: str) -> None:
    """Remove the link of a container that is gone. Do nothing if it is another's by now."""
    try:
        with NamesLocked(root):
            if not os.path.lexists(f"{root}/{container_id}"):
                _drop(root, name, container_id)
    except FileNotFoundError:
        pass  # the root went with its last container


def sweep(root: str) -> None:
    """Remove the links that count for nothing, for `gc`. Raises OSError."""
    if not os.path.isdir(f"{root}/{places.NAMES}"):
        return
    with NamesLocked(root):
        for name in os.listdir(f"{root}/{places.NAMES}"):
            container_id = _linked(root, name)
            if not container_id or id_of(root, name) != container_id:
                _unlink(f"{root}/{places.NAMES}/{name}")


class Named(Extra):
    """The name of one container, which goes with it."""

    def __init__(self, container: Container) -> None:
        super().__init__(container)
        self.name = container.name

    def gone(self) -> None:
        """Let another container have the name."""
        give_back(self.container.settings.root, self.name, self.container.id)


def _linked(root: str, name: str) -> str:
    """Return the id that the link of a name leads to; "" if there is none."""
    try:
        path = os.readlink(f"{root}/{places.NAMES}/{name}")
    except OSError:
        return ""
    found = path.removeprefix(_ABOVE)
    return found if state.is_id(found) and found != path else ""


def _without_a_link(root: str) -> list[str]:
    """Return the ids of the containers that no link leads to."""
    try:
        names = os.listdir(f"{root}/{places.NAMES}")
    except OSError:
        names = []
    linked = {_linked(root, name) for name in names}
    return [container_id for container_id in state.names(root) if container_id not in linked]


def _drop(root: str, name: str, container_id: str) -> None:
    """Remove the link of a name if it leads to this container."""
    if _linked(root, name) == container_id:
        _unlink(f"{root}/{places.NAMES}/{name}")


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
