"""Orphans: what killed commands left behind, for `minirun gc`.

All that a container has made is named in its state.json, which is written first. What is collected:
containers whose creation was cut off, and containers whose supervisor died. What `create` made and
what has simply stopped stays. What has no record of minirun's is named and left.
"""

import os

from minirun.core import endings, state
from minirun.core.errors import StateError
from minirun.core.settings import Settings
from minirun.core.state_file import ForeignDirectory
from minirun.running import existing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def collect(settings: Settings, container_id: str, *, dry: bool) -> str:
    """Remove one container if it is an orphan; return why, or "". Raises MinirunError, OSError."""
    if not state.is_id(container_id):
        raise ForeignDirectory(f"{settings.root}/{container_id}", "its name is no container's")
    try:
        record = state.load(settings.root, container_id)
        reason = why_orphan(record)
        if reason and not dry:
            endings.destroy(existing.load(settings, container_id))
    except StateError:
        if os.path.lexists(f"{settings.root}/{container_id}"):
            raise
        return ""  # another command has finished it meanwhile
    return reason


def why_orphan(record: "dict[str, Any]") -> str:
    """Return why a container is to be collected; empty if it is not."""
    if state.is_alive(record["supervisor"]):
        return ""
    if not record["complete"]:
        return "its creation was cut off"
    if not record["managed"]:
        return ""
    if "exit_status" not in record:
        return "its supervisor died"
    return "it was to be removed at its end" if record["auto_remove"] else ""
