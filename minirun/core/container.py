"""A container while a command works on it: its directory, its config, its record, its extras."""

from __future__ import annotations

import fcntl
import os

from minirun.core import events
from minirun.core.config import LOG, Config
from minirun.core.errors import ConfigError, StateError, UsageError
from minirun.core.keeping import places, state, state_file
from minirun.core.keeping.record import Record
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from typing import Any

    from minirun.core.cgroup import OwnCgroup
    from minirun.core.gates import Gates
    from minirun.core.handshake import Channel, Init
    from minirun.core.keeping.container_record import ContainerRecord
    from minirun.core.rootfs.inroot import Root

LOG_LIMIT = 1 << 20
"""Bytes. A larger log is not opened again: it begins with the start, and each exec adds to it."""
DETAILS = ("off", "stages", "syscalls")


class Console(Record):
    """Three descriptors for the command, and the socket that gets a terminal's master end."""

    stdin: int = 0
    stdout: int = 1
    stderr: int = 2
    socket: int = -1


class Container:
    """One container: names, places and the record in state.json."""

    def __init__(
        self, settings: Settings, config: Config, record: ContainerRecord, name: str = ""
    ) -> None:
        """`name`: of one that is about to be made; otherwise its directory says it."""
        self._planned = name
        self.settings = settings
        self.config = config
        self.record = record
        self.id = record.id
        self.directory = f"{settings.root}/{self.id}"
        self.unprivileged = record.unprivileged
        """True if its user has no privileges on the host: minirun.engines.rootless."""
        self._cgroup: OwnCgroup | None = None
        self.gates: Gates | None = None
        self.console = Console()
        self.preserve_fds = 0
        self.extras: dict[str, Extra] = {}
        """What it needs beyond the core, by name; minirun.core.extras makes them."""

    @property
    def name(self) -> str:
        """What it is called now, `rename` may change it: its id, if it has no other name.

        Not for init: once the root has changed this would be a path of the container's.
        """
        try:
            found = state.name_of(self.directory)
        except OSError:  # an error's text has the name, and must not be lost for want of it
            found = self.id
        return (self._planned or found) if found == self.id else found

    @property
    def cgroup(self) -> OwnCgroup:
        """Its cgroup, opened when it is first used: `start`, for one, does not use it."""
        if self._cgroup is None:
            self._cgroup = lazy.load("minirun.cgroups").open_for(self)
        return self._cgroup

    @cgroup.setter
    def cgroup(self, cgroup: OwnCgroup) -> None:
        self._cgroup = cgroup

    @property
    def stays_dumpable(self) -> bool:
        """Return True if init stays dumpable until stage 7, when the first program runs in there.

        Otherwise its owner, without privileges, could not write its id maps, nor enter it for stage
        5. No other process can look into init: it is alone in its user namespace, or, if it joins
        one, in its pid namespace.
        """
        spaces, is_new = self.config.namespaces, self.config.new_namespace
        alone = is_new("user") or ("user" in spaces and is_new("pid"))
        return self.unprivileged and alone

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

    def save(self, record: ContainerRecord) -> None:
        """Take `record` for the container's own, and write it. Raises OSError."""
        self.record = record
        state.save(self.directory, record)

    def claim_poststop(self) -> bool:
        """Note on the disk that the poststop hooks run; return True if they did not run before.

        False if the container is gone. Raises OSError.
        """
        try:
            fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if state_file.read(self.directory).poststop_done:
                return False
            self.save(self.record._replace(poststop_done=True))
            return True
        except (FileNotFoundError, StateError):
            return False
        finally:
            os.close(fd)

    def oci_state(self, status: str) -> dict[str, Any]:
        """The state document that hooks read on their standard input.

        After the end there is no pid: another process may have the number by then.
        """
        return {
            "ociVersion": state.OCI_VERSION, "id": self.id, "status": status,
            "pid": 0 if status == state.STOPPED else self.record.pid, "bundle": self.config.bundle,
            "annotations": self.config.annotations,
        }  # fmt: skip


class Extra:
    """What one module does for one container. Each method is a point of the stages.

    A method that a module leaves out does nothing. Each may raise MinirunError, OSError.
    """

    def __init__(self, container: Container) -> None:
        self.container = container
        self.config = container.config

    def clone(self, flags: int) -> tuple[int, int] | None:
        """Stage 1, runtime, right before clone: or in place of it, and then return (pid, pidfd)."""
        return None

    def from_outside(self, init: Init) -> None:
        """Stage 1, runtime, after clone: do for init what it cannot do for itself."""

    def isolate(self) -> bool:
        """Stage 1, init: set which mounts spread to and from the host. Return True if it did."""
        return False

    def inside(self) -> None:
        """Stage 1, init: called when it is in its new namespaces, and root there."""

    def source(self, where: str) -> int | None:
        """Stage 1, init: return a detached mount for the entry `where` of `mounts`, or None."""
        return None

    def before_mount(self, root: Root, row: dict[str, Any], where: str) -> None:
        """Stage 1, init: called before the entry `where` of `mounts`, `row`, is mounted."""

    def after_mount(self, root: Root, row: dict[str, Any]) -> None:
        """Stage 1, init: called when this entry is mounted, and its options are not set yet."""

    def receive(self, channel: Channel, pid: int, pidfd: int, status: str) -> None:
        """Stage 7, runtime: take what process `pid` passes on while it becomes the command."""

    def before_pivot(self, root: Root) -> None:
        """After stage 2, init, while hooks run: read the image's files; / is the host's still."""

    def variables(self, root: Root, entries: list[str]) -> list[str]:
        """After stage 2, init, while hooks run: return the command's variables."""
        return entries

    def connect(self, root: Root, console: Console, *, console_node: bool) -> bool:
        """Stage 7, init: make the command's streams 0 to 2. Return True if it did."""
        return False

    def lead_session(self) -> None:
        """Stage 7, init: called when it leads a new session."""

    def change_root(self, root: Root) -> bool:
        """Stage 7, init: make `root` the root without pivot_root. Return True if it did."""
        return False

    def after_pivot(self) -> None:
        """Stage 7, init: called when the container's root is /, before anything in it is hidden."""

    def after_hiding(self) -> None:
        """Stage 7, init: called when all is hidden that the container may not see."""

    def limit(self) -> None:
        """Stage 7, init, still with all privileges: set what a process can set for itself alone."""

    def before_user(self, channel: Channel) -> None:
        """Stage 7, init: called while it still has all privileges."""

    def after_user(self, channel: Channel) -> None:
        """Stage 7, init: called when it is the container's user, with its capabilities."""

    def while_waiting(self, poll: select.poll) -> None:
        """Stage 7, init, at exec.fifo: serve what has come, and let `poll` wake it for more."""

    def before_exec(self) -> None:
        """Stage 7, init: called right before execve."""

    def ending(self) -> None:
        """At the end: called before init is killed, if it still lives."""

    def ended(self) -> None:
        """After init's end: give back what the container has of the host, however little it is."""

    def removed(self) -> None:
        """Called before the container's directory is removed."""

    def gone(self) -> None:
        """Called when the container's directory is removed."""


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
