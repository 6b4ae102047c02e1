"""A container while a command works on it: its directory, its config and its record."""

from __future__ import annotations

import fcntl
import os

from minirun.core import events, extras
from minirun.core.config import LOG, Config
from minirun.core.errors import ConfigError, StateError, UsageError
from minirun.core.keeping import places, state, state_file
from minirun.core.keeping.settings import Settings
from minirun.core.process.streams import Console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minirun.core.cgroup import OwnCgroup
    from minirun.core.extras import Extra
    from minirun.core.gates import Gates

LOG_LIMIT = 1 << 20
"""Bytes. A larger log is not opened again: it begins with the start, and each exec adds to it."""
DETAILS = ("off", "stages", "syscalls")


class Container:
    """One container: names, places and the record in state.json."""

    def __init__(self, settings: Settings, config: Config, record: dict[str, Any]) -> None:
        self.settings = settings
        self.config = config
        self.record = record
        self.id: str = record["id"]
        self.directory = f"{settings.root}/{self.id}"
        self.unprivileged = bool(record.get("unprivileged"))
        """True if its user has no privileges on the host: minirun.engines.rootless."""
        self._cgroup: OwnCgroup | None = None
        self.gates: Gates | None = None
        self.console = Console()
        self.preserve_fds = 0
        self.extras: dict[str, Extra] = {}
        """What it needs beyond the core, by name; :meth:`prepare` makes them."""

    @property
    def cgroup(self) -> OwnCgroup:
        """Its cgroup, opened when it is first used: `start`, for one, does not use it."""
        if self._cgroup is None:
            self._cgroup = extras.function("open_cgroup")(self)
        return self._cgroup

    @cgroup.setter
    def cgroup(self, cgroup: OwnCgroup) -> None:
        self._cgroup = cgroup

    @property
    def stays_dumpable(self) -> bool:
        """Return True if init stays dumpable until stage 7, when the first program runs in there.

        Otherwise its owner, without privileges, could not write its id maps, nor enter it for stage
        5. No other process could look into init: its user namespace is new.
        """
        return self.unprivileged and self.config.new_namespace("user")

    def prepare(self, points: frozenset[str] = extras.POINTS) -> None:
        """Load and compile all that is needed at `points`, before init is cloned from this process.

        After pivot_root nothing can be loaded any more. Raises ConfigError, MinirunError.
        """
        self.extras = extras.load(self, points)

    def layer_paths(self) -> list[str]:
        """Return the layers' paths as init sees them: in a user namespace, id-mapped mounts."""
        if "user" not in self.config.namespaces or self.unprivileged:
            return self.config.layers  # a user's own images have the right owner as they are
        return [f"{self.directory}/{places.LOWER}/{n}" for n in range(len(self.config.layers))]

    def open_log(self) -> None:
        """Write events to events.jsonl from now on, in the detail that :func:`log_detail` returns.

        Raises UsageError, ConfigError, OSError.
        """
        word, path = log_detail(self.config), f"{self.directory}/{places.EVENTS}"
        if word == "off" or (os.path.exists(path) and os.stat(path).st_size > LOG_LIMIT):
            return
        events.open_log(path, self.id, brief=word == "stages")

    def save(self, **changes: Any) -> None:
        """Change the record and write it. Raises OSError."""
        self.record.update(changes)
        state.save(self.directory, self.record)

    def set_once(self, key: str) -> bool:
        """Set `key` in the record on the disk; return True if this call, and no other, has set it.

        False if it was set already, or if the container is gone. Raises OSError.
        """
        try:
            fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            saved = state_file.read(self.directory)
            if not saved.get(key):
                self.save(**{key: True})
            return not saved.get(key)
        except (FileNotFoundError, StateError):
            return False
        finally:
            os.close(fd)

    def oci_state(self, status: str) -> dict[str, Any]:
        """The state document that hooks read on their standard input."""
        return {
            "ociVersion": state.OCI_VERSION, "id": self.id, "status": status,
            "pid": self.record["pid"], "bundle": self.config.bundle,
            "annotations": self.config.annotations,
        }  # fmt: skip


def log_detail(config: Config) -> str:
    """Return what the log holds: all (syscalls, the default), all but system calls, or nothing.

    The annotation io.minirun.log=stages|syscalls says it, else $MINIRUN_LOG, which may be off too.
    Raises ConfigError, UsageError.
    """
    word = config.annotations.get(LOG)
    if word is not None:
        if word not in DETAILS[1:]:
            text = f"config.json: annotations.{LOG}: unknown detail {word!r}"
            raise ConfigError(text, " or ".join(DETAILS[1:]))
        return word
    word = os.environ.get("MINIRUN_LOG") or DETAILS[-1]
    if word not in DETAILS:
        raise UsageError(f"MINIRUN_LOG: unknown detail {word!r}", "off, stages or syscalls")
    return word
