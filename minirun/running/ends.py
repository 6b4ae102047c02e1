"""The end of a container that may start again: no start follows it, and it is recorded."""

from __future__ import annotations

import os

from minirun.core.container import Container, Extra
from minirun.core.errors import StateError
from minirun.core.keeping import places, state, state_file
from minirun.core.kernel import signals


class Restarted(Extra):
    """The supervisor of one container with --restart."""

    def ending(self) -> None:
        """Have it start the container no more, unless it is this process that does."""
        if self.container.record.supervisor["pid"] == os.getpid():
            return
        try:
            halt(self.container)
        except (FileNotFoundError, StateError):
            pass  # it was never whole, or another command has removed it


def halt(container: Container) -> None:
    """Have a container's supervisor start it no more, and take its newest record.

    A supervisor that waits before the next start is woken by SIGTERM. Raises StateError, OSError.
    """
    path = f"{container.directory}/{places.HALTED}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    container.record = state.load(container.settings.root, container.id)
    supervisor = container.record.supervisor
    waits = container.record.status == state.STOPPED and supervisor["pid"] != os.getpid()
    if waits and state.is_alive(supervisor):
        os.kill(supervisor["pid"], signals.SIGTERM)


def unhalt(container: Container) -> None:
    """Let the container be started again. Raises OSError."""
    try:
        os.unlink(f"{container.directory}/{places.HALTED}")
    except FileNotFoundError:
        pass


def is_halted(container: Container) -> bool:
    """Return True if the container must not start again: it was stopped, or is being removed."""
    return not os.path.exists(f"{container.directory}/{places.STATE}") or os.path.exists(
        f"{container.directory}/{places.HALTED}"
    )


def save_end(container: Container, status: int) -> None:
    """Record that a container has ended, with this exit status. Raises OSError.

    The newest record is taken for it: `update` and others may have changed it meanwhile.
    """
    try:
        newest = state_file.read(container.directory)
    except StateError:  # damaged, or a stranger's by now
        newest = container.record
    ended = state.timestamp()
    record = newest._replace(status=state.STOPPED, exit_status=status, finished=ended)
    container.save(record)
