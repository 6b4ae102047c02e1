"""Another container, whose namespace a new one joins: --network, --pid, --ipc container:ID."""

from __future__ import annotations

from minirun.core.container import Container
from minirun.core.errors import MinirunError, StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.running import lookup


def running(text: str, settings: Settings, kind: str) -> Container:
    """Return the container that `container:ID` names. Raises UsageError, MinirunError, OSError."""
    name = text.removeprefix("container:")
    if not name:
        raise UsageError(f"invalid {kind} {text!r}", f"--{kind} container:ID")
    try:
        other = lookup.load(*roots.locate(settings, name))
    except StateError as error:
        error.status = UsageError.status  # as any other reason why `run` does not begin
        raise
    if other.record.status not in (state.RUNNING, state.CREATED, state.PAUSED):
        text = f"cannot join {kind} of a non running container: {other.id}"
        raise MinirunError(text, f"minirun start {other.id}")
    return other
