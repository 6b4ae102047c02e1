"""What killed commands left behind, for `minirun gc`: orphans, and directories without a container.

All that a container has made is named in its state.json, which is written first. What is collected:
containers whose creation was cut off, and those of --rm whose supervisor died. Another one whose
supervisor died is ended, and keeps its files. What `create` made and what has simply stopped stays.
What has no record of minirun's is named and left. Abandoned are the directories that never got a
container's name, or have lost it: core/keeping/directories.
"""

from __future__ import annotations

import os

from minirun.common import docker_record, naming
from minirun.core import endings, events
from minirun.core.errors import StateError
from minirun.core.keeping import places, state
from minirun.core.keeping import state_file as records
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.running import ends, lookup

with lazy:
    from minirun.core.rootfs import tree  # ctypes: 3 ms, and few find any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from minirun.core.keeping.container_record import ContainerRecord


_KILLED = 137
"""The exit status of a container whose end no supervisor saw: SIGKILL's."""


def collect(settings: Settings, container_id: str, *, dry: bool) -> tuple[str, str]:
    """Remove or stop one container if it is an orphan; return which of the two, and why.

    Both are empty if it is none. Raises MinirunError, OSError.
    """
    directory = f"{settings.root}/{container_id}"
    if not state.is_id(container_id):
        raise records.ForeignDirectory(directory, "its name is no container's")
    try:
        record = state.load(settings.root, container_id)
        reason = why_orphan(record)
        keeps_files = record.complete and not docker_record.of(record).auto_remove
        if reason and not dry:
            container = lookup.load(settings, container_id)
            if keeps_files:
                endings.end(container)
                events.close_log()
                ends.save_end(container, _KILLED)
            else:
                endings.destroy(container)
    except StateError:
        if os.path.lexists(directory):
            raise
        return "", ""  # another command has just finished it
    return ("stopped" if keeps_files else "removed") if reason else "", reason


def why_orphan(record: ContainerRecord) -> str:
    """Return why a container is to be collected; empty if it is not."""
    if state.is_alive(record.supervisor):
        return ""
    if not record.complete:
        return "its creation was cut off"
    docker = docker_record.of(record)
    if not docker.managed:
        return ""
    if record.exit_status is None:
        return "its supervisor died"
    return "it was to be removed at its end" if docker.auto_remove else ""


def abandoned(root: str) -> Iterator[str]:
    """Yield what is in ROOT/.new and belongs to no living process, as .new/PID-TIME.

    Only directories that this module has made: by place, name, owner and content. Raises OSError.
    """
    for name in _entries(f"{root}/{places.NEW}") or ():
        pid, _, moment = name.partition("-")
        is_own = whole(pid) is not None and whole(moment) is not None
        if not is_own or os.path.exists(f"/proc/{pid}"):
            continue
        inside = _entries(f"{root}/{places.NEW}/{name}")
        if inside is not None and all(map(places.is_own_name, inside)):
            yield f"{places.NEW}/{name}"


def remove_abandoned(root: str) -> list[str]:
    """Remove all that is abandoned; return its names. Raises OSError."""
    found = list(abandoned(root))
    for name in found:
        tree.remove_tree(f"{root}/{name}")
    naming.sweep(root)
    return found


def _entries(directory: str) -> list[str] | None:
    """Return the names in a directory of the caller's own; None if it is anything else."""
    try:
        fd = records.open_directory(directory)
    except (FileNotFoundError, records.ForeignDirectory):
        return None
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)
