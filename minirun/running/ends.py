"""The end of a container that may start again: no start follows it, and it is recorded."""

from __future__ import annotations

import os

from minirun.common import docker_record
from minirun.core import endings
from minirun.core.container import Container, Extra
from minirun.core.errors import StateError
from minirun.core.keeping import places, state, state_file
from minirun.core.kernel import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.core.errors import CommandError
    from minirun.core.keeping.container_record import ContainerRecord


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


def oom_killed(record: ContainerRecord) -> bool:
    """Return True if the kernel has killed for memory in a container's cgroup.

    As long as there is the cgroup: memory.events, or version 1's memory.oom_control. Then as the
    record has it.
    """
    cgroup = record.cgroup
    if not cgroup or not cgroup["version"]:
        return docker_record.of(record).oom_killed
    name, file = (
        ("memory", "memory.oom_control") if cgroup["version"] == 1 else ("", "memory.events")
    )
    try:
        text = state.read_text(f"{cgroup['dirs'][name]}/{file}")
    except (OSError, LookupError):
        return docker_record.of(record).oom_killed
    return any(row.startswith("oom_kill ") and row != "oom_kill 0" for row in text.splitlines())


def save_end(container: Container, status: int, error: str = "", *, oom: bool = False) -> None:
    """Record that a container has ended, with this exit status. Raises OSError.

    `error`: why its command could not start; `oom`: the kernel has killed in it for memory. The
    newest record is taken for it: `update` and others may have changed it meanwhile.
    """
    try:
        newest = state_file.read(container.directory)
    except StateError:  # damaged, or a stranger's by now
        newest = container.record
    docker = docker_record.of(newest)
    begun = docker.begun or not error
    ended = state.timestamp() if begun else None
    record = newest._replace(
        status=state.STOPPED, exit_status=status, finished=ended, complete=True
    )
    if docker.managed:
        docker = docker._replace(start_error=error, begun=begun, oom_killed=oom)
        record = docker_record.put(record, docker)
    container.save(record)


def save_failed_start(container: Container, error: CommandError) -> None:
    """Record why a container that `create` has made did not start, once its supervisor has noted
    its end. One that is gone by then, as with --rm, is fine. Raises OSError.
    """
    state.has_ended(container.record.supervisor, endings.PATIENCE)
    if os.path.exists(f"{container.directory}/{places.STATE}"):
        was = docker_record.of(state_file.read(container.directory))
        container.record = docker_record.put(container.record, was)
        save_end(container, error.status, str(error))
