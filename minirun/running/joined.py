"""Another container, whose namespaces a new one joins: --network, --pid, --ipc container:ID.

config.json names a namespace by the pid of that container's init. A pid lasts as long as its
process: so the record keeps the container's id, and before each further start the path is made
anew of it.
"""

from __future__ import annotations

from minirun.common import docker_record
from minirun.core.config import Config
from minirun.core.container import Container
from minirun.core.errors import MinirunError, StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.engines import roots
from minirun.running import lookup

_FILES = {"network": "net"}
"""Kind of namespace → its file in /proc/PID/ns, if that is not the kind."""


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
        text = f"cannot join {kind} of a non running container: {other.name}"
        raise MinirunError(text, f"minirun start {other.name}")
    return other


def path(other: Container, kind: str) -> str:
    """Return the path of a running container's namespace, for config.json."""
    return f"/proc/{other.record.pid}/ns/{_FILES.get(kind, kind)}"


def again(container: Container, config: Config) -> Config:
    """Return the config of a container that is to start again, with namespaces as they are now.

    Raises MinirunError if a container whose namespace it joins does not run, OSError.
    """
    names = docker_record.of(container.record).joined
    if not names:
        return config
    rows = []
    for row in config.linux["namespaces"]:
        kind = row["type"]
        if kind in names:
            other = running(names[kind], container.settings, kind)
            row = row | {"path": path(other, kind)}
        rows.append(row)
    raw = config.raw | {"linux": config.linux | {"namespaces": rows}}
    return Config(raw, config.bundle, config.choices)
