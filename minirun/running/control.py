"""What commands do to one container, runc's and docker's alike: start, kill, delete, pause, resume.

runtime.md ("Operations"), signal(7), pidfd_send_signal(2). pause and resume are the freezer of the
container's cgroup, cgroups(7): version 1 has a controller for it (freezer.state), version 2 a file
in every cgroup (cgroup.freeze). Whether a container is paused is asked of the kernel each time, so
a crash between the two leaves nothing to repair.
"""

from __future__ import annotations

import errno
import os

from minirun.common import docker_record
from minirun.core import endings
from minirun.core.container import Container
from minirun.core.errors import ConfigError, HookError, MinirunError, StateError
from minirun.core.handshake import Channel
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.state_file import DamagedRecord
from minirun.core.keeping.visible import warn
from minirun.core.kernel import signals
from minirun.core.lazy import lazy
from minirun.running import ends, lookup, notify

with lazy:
    from minirun import cgroups
    from minirun.cgroups import stopping
    from minirun.running import (
        force_delete,  # 10 ms, for what hardly ever is
        gc,
    )


def start(container: Container) -> None:
    """Let a created container run its command. Raises MinirunError, OSError."""
    container.open_log()
    report = os.open(f"{container.directory}/init.fifo", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(report, True)
    ready, pid = None, container.record.pid
    if notify.manager():
        ready, init = notify.listen(container.directory), os.pidfd_open(pid)
    try:
        endings.start(container, Channel(report, -1, "init"))
    except HookError:  # of poststart
        endings.destroy(container)
        raise
    if ready:
        notify.relay_or_warn(ready, init, pid)


def kill(container: Container, number: int, *, everyone: bool = False) -> None:
    """Send a signal to a container's init, or to all its processes. Raises MinirunError, OSError.

    With `everyone` a container that has stopped is no error, since containerd's shim asks so. KILL
    is for all of them too if the container has no pid namespace of its own: the end of init is not
    theirs then.
    """
    shared = not container.config.new_namespace("pid") and cgroups.cgroup_of(container).exists()
    if everyone or (shared and number == signals.SIGKILL):
        stopping.kill(cgroups.cgroup_of(container), number)
        return
    if number == signals.SIGKILL and docker_record.of(container.record).restart:
        ends.halt(container)  # as with docker
    endings.kill(container.record, number)
    paused = container.record.status == state.PAUSED
    if number == signals.SIGKILL and paused and cgroups.cgroup_of(container).version == 1:
        # version 1 delivers no signal to a frozen process, not even this one
        cgroups.cgroup_of(container).set_frozen(False)


def delete(settings: Settings, container_id: str, *, force: bool) -> None:
    """Delete one container. Raises MinirunError, OSError."""
    state.check_id(container_id)
    try:
        container = lookup.load(settings, container_id)
    except (StateError, ConfigError) as error:
        if not force:
            raise
        _delete_without_record(settings, container_id, error)
        return
    status = container.record.status
    if status in (state.RUNNING, state.PAUSED, state.CREATING) and not force:
        text = f"cannot delete container {container.name} that is not stopped: {status}"
        raise StateError(text, f"minirun delete --force {container.name}")
    endings.destroy(container)


def _delete_without_record(settings: Settings, container_id: str, error: MinirunError) -> None:
    """Finish what a killed `delete` has begun, or end what has no whole record any more."""
    if isinstance(error, DamagedRecord):
        warn(force_delete.salvage(settings, container_id, error))
    elif os.path.lexists(f"{settings.root}/{container_id}"):
        raise error
    else:
        gc.remove_abandoned(settings.root)


def pause(container: Container) -> None:
    """Stop all processes of a container where they are. Raises StateError, OSError."""
    if container.record.status not in (state.CREATED, state.RUNNING):
        raise StateError("container not running", f"it is {container.record.status}")
    try:
        stopping.freeze(cgroups.cgroup_of(container))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise
        raise StateError("container not running", "it has just ended") from None


def resume(container: Container) -> None:
    """Let the processes of a paused container go on. Raises StateError, OSError."""
    if container.record.status != state.PAUSED:
        raise StateError("container not paused", f"it is {container.record.status}")
    cgroups.cgroup_of(container).set_frozen(False)
