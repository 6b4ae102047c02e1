"""A container's command runs again: --restart, and `start` of a container that has stopped.

Its files stay: the upper directory of its overlay, its volumes, its output. Processes, namespaces,
cgroup and mounts are new, and made by the same stages as the first ones; the log is that of the
last start.

    no               docker's default
    on-failure[:N]   again if its status is not 0; N times at most
    always           again, whatever its status
    unless-stopped   the same: docker tells the two apart when its daemon starts, and there is none

The container's supervisor does it. So nothing starts a container after a reboot, or once its
supervisor was killed: `gc` ends the container then, and `start` is the way on.

Before each start it waits, as docker does (moby, restartmanager): 0.1 s, then twice as long each
time, up to a minute; after a run of 10 s or more it begins at 0.1 s again.

`stop`, `kill` and `rm` leave the file `halted` in the container's directory first. The supervisor
looks for it before it makes init, and again before it lets init go on: by then init is in the
record, so one of the two sees the other.
"""

from __future__ import annotations

import os
import stat
import time

from minirun.common import docker_record
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import MinirunError, StateError, UsageError
from minirun.core.keeping import places, state
from minirun.core.keeping.numbers import whole
from minirun.core.keeping.record import Record
from minirun.core.keeping.visible import warn
from minirun.core.lazy import lazy
from minirun.running import ends, signals

with lazy:
    from minirun.running import joined  # few join another

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

POLICIES = ("no", "always", "unless-stopped", "on-failure")
FIRST, LONGEST = 0.1, 60.0
"""Seconds of the back-off."""
LONG_RUN = 10.0
"""Seconds after which a run counts as a good one."""


class RestartPolicy(Record):
    """When a container starts again by itself."""

    name: str = "no"
    most: int = 0
    """How often; 0: no limit."""

    def wants(self, status: int, restarts: int) -> bool:
        """Return True if it is to start again after this exit status and so many restarts."""
        if self.name == "on-failure":
            return status != 0 and (not self.most or restarts < self.most)
        return self.name in ("always", "unless-stopped")


def parse(text: str) -> RestartPolicy:
    """Return what --restart says. Raises UsageError."""
    name, colon, count = text.partition(":")
    if name not in POLICIES:
        raise UsageError(
            f"invalid --restart {text!r}", f"{', '.join(POLICIES[:-1])}, on-failure[:N]"
        )
    if colon and name != "on-failure":
        raise UsageError(f"invalid --restart {text!r}", "a count goes with on-failure alone")
    most = whole(count) if colon else 0
    if most is None:
        raise UsageError(f"invalid --restart {text!r}", "on-failure:N, N a whole number")
    return RestartPolicy(name, most)


def delay(before: float, lasted: float) -> float:
    """Return how long to wait now, in seconds; `before` is the wait before, 0 for none."""
    if not before or lasted >= LONG_RUN:
        return FIRST
    return min(before * 2, LONGEST)


def prepare(container: Container, restarts: int) -> Container:
    """Return a stopped container, ready for another start by this process.

    Raises MinirunError, OSError.
    """
    _clear(container.directory)
    record = container.record._replace(
        status=state.CREATING, pid=0, init=None, supervisor=state.identity(os.getpid()),
        cgroup=None, root_mount=None, exit_status=None, finished=None, poststop_done=False,
    )  # fmt: skip
    docker = docker_record.of(record)._replace(restarts=restarts, start_error="", oom_killed=False)
    record = docker_record.put(record, docker)
    again = Container(container.settings, _config(container), record)
    again.save(record)
    return again


def _clear(directory: str) -> None:
    """Remove what belongs to the start before: its log, each FIFO and each socket. Raises OSError.

    A socket that is left cannot be bound again; a gate that is left says that init is half-made.
    """
    with os.scandir(directory) as entries:
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or entry.name == places.EVENTS:
                os.unlink(entry.path)


def _config(container: Container) -> Config:
    """Return the container's config, with the limits that `update` has set, and with the namespaces
    that it joins as they are now. Raises MinirunError, OSError."""
    config, limits = joined.again(container, container.config), container.record.resources
    if limits is None:
        return config
    raw = config.raw | {"linux": config.linux | {"resources": limits}}
    return Config(raw, config.bundle, config.choices)


def started_by_hand(container: Container) -> Container:
    """Return a stopped container for `start`. Raises StateError, OSError."""
    if state.is_alive(container.record.supervisor):
        raise StateError(f"container {container.name!r} is being restarted", "minirun stop, first")
    ends.unhalt(container)
    return prepare(container, 0)


def _wants(container: Container, status: int) -> bool:
    docker = docker_record.of(container.record)
    policy = parse(docker.restart or "no")
    return policy.wants(status, docker.restarts) and not ends.is_halted(container)


def go_on(container: Container, status: int, run: Callable[[Container], int]) -> int:
    """Start a container that has ended with `status` again and again; return the last status.

    `run` runs it once. It ends with the policy, with `stop` and the like, or with a signal. A start
    that fails is an end too, with the error's status. Raises OSError.
    """
    before = lasted = began = 0.0
    while _wants(container, status):
        before = delay(before, lasted)
        try:
            signals.catch()
            time.sleep(before)
            if ends.is_halted(container):
                break
            container = prepare(container, docker_record.of(container.record).restarts + 1)
            began = time.monotonic()
            status = run(container)
        except signals.Interrupted:
            break
        except MinirunError as error:
            warn(error.line())
            return error.status
        lasted = time.monotonic() - began
    return status
