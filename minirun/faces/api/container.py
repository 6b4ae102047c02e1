"""A container as an object: what it is made of, what it said, how it came to be, and its end.

Every action is a command of minirun in a process of its own (minirun.faces.api.child); what is only
looked at (state.json, /proc, the log) is read here.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from minirun.common import docker_record
from minirun.common.waiting import until
from minirun.core.errors import MinirunError, StateError
from minirun.core.keeping import state
from minirun.core.keeping.container_record import ContainerRecord
from minirun.core.lazy import lazy
from minirun.faces.api.child import TICK, Location, words_of
from minirun.faces.api.devices import DeviceDiff
from minirun.faces.api.namespaces import Namespaces
from minirun.faces.api.table import Table, Tabular
from minirun.faces.api.timeline import Timeline, of_container

with lazy:
    from minirun.common import naming

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.document import Anatomy

REMOVED = "removed"


class Result(NamedTuple):
    """What a command came to: its exit status, and what it wrote on both streams."""

    exit_status: int
    output: str

    def __str__(self) -> str:
        """The output, and the status unless it is 0."""
        ending = f"\nexit status {self.exit_status}" if self.exit_status else ""
        return self.output.rstrip("\n") + ending

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython's text form."""
        printer.text(str(self))


class ContainerHandle(Tabular):
    """A container by its id or name, made by :func:`minirun.run` or on the command line.

    As a context manager it is removed at the end of the block.
    """

    def __init__(self, id: str, place: Location | None = None) -> None:
        """`id`: its id or its name, also of one that is about to be made."""
        self._given, self._id = state.check_id(id), ""
        self.place = place or Location.usual()
        self._kept: ContainerRecord | None = None
        """What was known last, for when there is no container any more; None if nothing was."""
        self._output: str | None = None
        """What its command had written when it was removed."""

    @property
    def id(self) -> str:
        """Its id; the name that it was asked for by as long as there is no such container."""
        self._id = self._id or naming.id_of(self.place.root, self._given)
        return self._id or self._given

    @property
    def name(self) -> str:
        """What it is called; the name that it was asked for by if it is not there."""
        found = f"{self.place.root}/{self.id}"
        return state.name_of(found) if os.path.lexists(found) else self._given

    def _record(self) -> ContainerRecord | None:
        """Return what state.json says now; the last known if the container has gone."""
        try:
            self._kept, self._output = state.load(self.place.root, self.id), None
        except StateError:
            if self._kept:
                self._kept = self._kept._replace(status=REMOVED, pid=0)
        return self._kept

    @property
    def status(self) -> str:
        """creating, created, running, paused, stopped or removed."""
        record = self._record()
        return record.status if record else REMOVED

    @property
    def pid(self) -> int:
        """The process id of its init on the host; 0 if none runs."""
        record = self._record()
        return record.pid if record else 0

    @property
    def supervisor(self) -> int:
        """The process id of the minirun that looks after it; 0 if nothing is known of it."""
        record = self._record()
        return record.supervisor["pid"] if record else 0

    @property
    def never_began(self) -> bool:
        """True if its start has failed, and its command has never run."""
        record = self._record()
        return record is not None and docker_record.of(record).never_began

    @property
    def exit_status(self) -> int | None:
        """The exit status of its command, 128 + n for signal n; None while it runs."""
        record = self._record()
        return record.exit_status if record else None

    @property
    def output(self) -> str:
        """What its command has written until now, on both streams."""
        return self.logs() if self._output is None else self._output

    @property
    def timeline(self) -> Timeline:
        """How it was made, event by event; it outlives the container. Raises StateError."""
        return of_container(self.place.root, self.id)

    @property
    def namespaces(self) -> Namespaces:
        """Those of its init, from /proc, or as the last snapshot of its start has them.

        Raises StateError if it has ended and no snapshot was taken.
        """
        pid = self.pid
        return Namespaces.of(pid, f"container {self.name}") if pid else self.timeline.namespaces

    @property
    def devices(self) -> DeviceDiff:
        """What stage 5 changed. Raises StateError if nothing is known of it any more."""
        timeline = self.timeline
        if timeline.snapshots or self.status == REMOVED:
            return timeline.devices
        return DeviceDiff.from_edits(self.inspect()["gpus"])

    def inspect(self) -> Anatomy:
        """Return what `minirun inspect` knows of it. Raises StateError."""
        document: Anatomy = json.loads(self._call("inspect", "--json", self.id))
        return document

    def logs(self) -> str:
        """Return what its command has written until now. Raises StateError."""
        done = self.place.call("logs", self.id, merged=True)
        if done.returncode:
            raise StateError(done.stdout.strip().removeprefix("minirun: "))
        return done.stdout

    def exec(self, *command: str | Sequence[str], check: bool = False) -> Result:
        """Run another command in it, as words, a list or one string, and wait for it.

        Raises MinirunError if minirun could not run it: the container is not running, or has no
        such command. `check`: also if its exit status is not 0.
        """
        words = words_of(command)
        with tempfile.NamedTemporaryFile("r") as log:  # of minirun's errors, not of the command's
            done = self.place.call("--log", log.name, "exec", self.id, *words, merged=True)
            failed = log.read()
        if failed:
            reason = done.stdout.strip().rpartition("\n")[2].removeprefix("minirun: ")
            raise MinirunError(reason, status=done.returncode)
        if check and done.returncode:
            raise MinirunError(f"{' '.join(words)}: {done.stdout.strip()}")
        return Result(done.returncode, done.stdout)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until its command has ended; return the exit status.

        Raises TimeoutError after `timeout` seconds; StateError if there never was a container.
        """
        if self.status == REMOVED and not self._kept:
            raise state.no_such_container(self.id)
        seconds = float("inf") if timeout is None else timeout
        if not until(lambda: self.status in (state.STOPPED, REMOVED), seconds, TICK):
            raise TimeoutError(f"container {self.name} still runs after {timeout} s")
        while self.exit_status is None and self._kept and state.is_alive(self._kept.supervisor):
            time.sleep(TICK)  # its supervisor is about to write it down
        return self.exit_status

    def stop(self, timeout: float | None = None) -> int | None:
        """Ask it to end (SIGTERM, or what its image says), kill it after `timeout` seconds.

        None: as long as `minirun stop` waits. Returns the exit status.
        """
        if self.status not in (state.STOPPED, REMOVED):
            words = ("--timeout", f"{timeout:.3f}") if timeout is not None else ()
            self.place.call("stop", *words, self.id)
        return self.wait()

    def remove(self) -> None:
        """Remove it, running or not. Its timeline, output and exit status stay known."""
        if self.status == REMOVED:
            return
        output = self.output
        self._call("delete", "--force", self.id)
        self._output = output

    def _call(self, *words: str) -> str:
        """Call a command of minirun; return its standard output. Raises StateError."""
        done = self.place.call(*words)
        if done.returncode:
            raise StateError(done.stderr.strip().removeprefix("minirun: "))
        return done.stdout

    def __enter__(self) -> ContainerHandle:
        return self

    def __exit__(self, *failure: object) -> None:
        self.remove()

    def _table(self) -> Table:
        record = self._record()
        if record is None:
            rows = [("image", ""), ("command", ""), ("status", REMOVED)]
            return Table(("container", self.name), rows)
        command = " ".join(record.args or [])
        docker = docker_record.of(record)
        rows = [("image", docker.image or ""), ("command", command), ("status", record.status)]
        if record.pid:
            rows.append(("init", f"process {record.pid}"))
        if record.exit_status is not None:
            rows.append(("exit status", str(record.exit_status)))
        if docker.gpus:
            simulated = " (SIMULATED)" if self.timeline.simulated else ""
            rows.append(("GPUs", f"{docker.gpus}{simulated}"))
        return Table(("container", self.name), rows)
