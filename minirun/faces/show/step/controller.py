"""What holds a stepped run: it follows the log, stops at gates, and opens them.

It runs in a process of its own, forked before the run begins, as the live view does. If the log
says that a process waits at a gate (minirun.core.gates), the kernel objects stay as they are until
the gate is opened. What it tells its face it reads from the kernel at that moment, from outside. At
each boundary it writes a snapshot into the log, so that `minirun diff` and the pages can show it
later; with --snapshots alone that is all it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from minirun.core import events, gates
from minirun.core.errors import UsageError
from minirun.core.keeping import places
from minirun.core.keeping.settings import BOUNDARIES, Settings
from minirun.faces.inspect import snapshot
from minirun.faces.show.compare import snapshots
from minirun.faces.show.log.event import Event, Tail
from minirun.faces.show.log.event_row import Row
from minirun.faces.show.log.narrate import Narrator
from minirun.faces.show.log.order import OPENED, Births
from minirun.faces.show.log.pattern import ANY
from minirun.faces.show.step import destinations, inside, keys
from minirun.faces.show.step.face import Face, Output, Stop
from minirun.faces.show.step.until import StopPattern
from minirun.running import lookup

_SIGINT = 2
_PATIENCE = 10.0
"""Seconds that the runtime gets to clean up."""
_TICK = 0.005
"""Seconds between two looks at the log."""
_NO_INIT = "there is no init yet, and so no container to look into"


class Controller:
    """Holds the gates of a container's start, and opens them one by one as its face says."""

    def __init__(
        self, settings: Settings, container_id: str, awaited: StopPattern, runtime_pipe: int,
        *, every_event: bool = False,
    ) -> None:  # fmt: skip
        """`awaited`: shared with the run (show.step.until); `runtime_pipe` ends with it."""
        self.settings = settings
        self.id = container_id
        self.directory = f"{settings.root}/{container_id}"
        self.awaited = awaited
        self.runtime_pipe = runtime_pipe
        self.runtime = os.getppid()
        self.every_event = every_event
        self.pids: dict[str, int] = {"runtime": self.runtime}
        """Actor → pid, also of actors that have ended."""
        self.taken: list[snapshot.Snapshot] = []
        """The snapshots of all boundaries so far."""
        self.stops: list[Stop] = []
        """Where the run was held, the latest last."""
        self.last: dict[int, Event] = {}
        """Pid → its latest event."""
        self.row: Row | None = None
        """The latest event of the process that was seen last, as a line."""
        self.running_on = False
        """True after `continue`; always if only snapshots are wanted."""
        self.target = ""
        """The boundary that `until` asked for; "" for none."""

    def follow(self, face: Face, level: str) -> None:
        """Do it until stage 7's end, or until the run has ended. Never raises for its end.

        `level`: of the rows that the face is told, see minirun.faces.show.log.narrate.
        """
        narrator, births, waiting = Narrator(level), Births(), list[Event]()
        tail = Tail(f"{self.directory}/{places.EVENTS}")

        def read(*, last: bool = False) -> None:
            waiting.extend(births.take(tail.events(), last=last))
            narrator.init = births.init
            while waiting:
                event = waiting.pop(0)
                held = narrator.last_of(event.pid) if event.kind == "gate" else []
                face.show_event(event, narrator.rows(event) + held)
                self.row = narrator.latest.get(event.pid)
                self._see(event, face, read)

        try:
            while not (narrator.over and self.taken and self.taken[-1]["at"] == BOUNDARIES[-1]):
                ended = _tick(self.runtime_pipe)
                read(last=ended)
                if ended:
                    break
        except keys.RunEnded:
            pass
        finally:
            tail.close()
            face.ended()

    def _see(self, event: Event, face: Face, read: Callable[[], None]) -> None:
        """Remember who is who; stop at a gate. `read` tells the face what the log has got since."""
        if not events.log_fds():
            events.open_log(f"{self.directory}/{places.EVENTS}", self.id)
            if self.settings.log and self.settings.log_format == "json":
                events.open_log(self.settings.log, self.id, 0o644)
            events.become("step", os.getpid())
        actor = event.actor
        if actor in ("init", "hook", "cli") and event.pid:
            self.pids["init" if actor == "init" else "hook"] = event.pid
        if event.kind != "gate":
            if actor != "step":
                self.last[event.pid] = event
            return
        self._stop(event, face, read)
        events.emit("note", OPENED, {"gate": event.name}, why="the process at the gate goes on")
        gates.open_gate(self.directory)

    def _stop(self, gate: Event, face: Face, read: Callable[[], None]) -> None:
        """Take a snapshot at a boundary; then ask how to go on, until it is to go on."""
        at = gate.name
        waited_for = at == self.target or (at in BOUNDARIES and at == BOUNDARIES[-1])
        asked = not self._is_awaiting() or at == gates.EVERY_EVENT or waited_for
        if at in BOUNDARIES or asked:
            container = lookup.load(self.settings, self.id)  # init and cgroup come in stage 1
            now = snapshot.take(container, at, self.pids)
        if at in BOUNDARIES:
            self.taken.append(now)
            events.emit("note", "snapshot", dict(now), why="the container as it is at this moment")
            read()  # so that a page has this snapshot while the run is held
        if self.running_on or not asked:
            return
        missed = self._missed(at)
        self._await("")
        before = self.stops[-1].snapshot if self.stops else None
        changes = snapshots.since(before, now)
        last = self.last.get(gate.pid)
        row = self.row if at == gates.EVERY_EVENT else None
        stop = Stop(at, gate.stage, gate, last, now, changes, len(self.stops) + 1, row)
        self.stops.append(stop)
        face.stopped(stop)
        if missed:
            face.say(missed)
        self._ask(stop, face)

    def _ask(self, stop: Stop, face: Face) -> None:
        """Do what the face says, until the run is to go on."""
        while True:
            key = face.key()
            if key.name == "quit":
                face.say("giving up: the runtime cleans up")
                self.abort()
                return
            if key.name == "at" and key.argument == stop.at:
                continue
            if key.name in ("until", "at"):
                try:
                    self.until(key.argument)
                except UsageError as error:
                    face.say(error.line())
                    continue
                return
            if key.name in ("next", "continue"):
                self.running_on = key.name == "continue"
                self._await("" if self.running_on or not self.every_event else ANY)
                if self.running_on or stop.at == BOUNDARIES[-1]:
                    face.ended()  # before the command writes
                return
            face.answer(key, stop)

    def until(self, words: str) -> None:
        """Let the run go on to an event, "mknodat", or a boundary: "5:begin", or "5" for it.

        Raises UsageError.
        """
        boundary = destinations.boundary(words)
        if not boundary:
            destinations.check(words)
            return self._await(words)
        if self.has_passed(boundary):
            raise UsageError(f"{boundary} is over")
        self._await("")
        self.target = boundary
        return None

    def has_passed(self, boundary: str) -> bool:
        """Return True if the run cannot come to a boundary any more, or is at it."""
        return bool(self.taken) and BOUNDARIES.index(boundary) <= BOUNDARIES.index(
            self.taken[-1]["at"]
        )

    def _await(self, words: str) -> None:
        self.target = ""
        self.awaited.set(words)

    def _is_awaiting(self) -> bool:
        """Return True if the run is to pass the boundaries between here and an event."""
        pattern = self.awaited.pattern()
        return bool(self.target or (pattern and pattern.text != ANY))

    def _missed(self, at: str) -> str:
        """Return that the event which was waited for has not come; "" if it has, or none was."""
        pattern = self.awaited.pattern()
        if at != BOUNDARIES[-1] or not pattern or pattern.text == ANY:
            return ""
        return f"no event was {pattern.text!r}; this is the last stop"

    def abort(self) -> None:
        """Give the run up, with ^C's signal, and wait until it has cleaned up. Raises RunEnded."""
        os.kill(self.runtime, _SIGINT)
        keys.wait([], self.runtime_pipe, _PATIENCE)

    def earlier(self, back: int, at: str) -> snapshot.Snapshot | None:
        """Return the snapshot that was taken `back` boundaries before `at`; None without any."""
        taken = [each for each in self.taken if each["at"] != at]
        return taken[max(0, len(taken) - back)] if taken else None

    def why_no_shell(self) -> str:
        """Return why no command can run in the container now; "" if one can."""
        return "" if "init" in self.pids else _NO_INIT

    def shell(self, command: str = "") -> None:
        """Run a shell, or a command, in the container as it stands, on this process's streams."""
        inside.shell(self.settings, self.id, command)

    def command(self, command: str, seconds: float = 20.0) -> Output:
        """Run a command in the container as it stands, and return what it printed.

        It is ended after `seconds`.
        """
        if reason := self.why_no_shell():
            return Output(125, reason, cut=False)
        return inside.command(self.settings, self.id, command, seconds)


def _tick(runtime_pipe: int) -> bool:
    """Wait a moment; True if the run has ended."""
    try:
        keys.wait([], runtime_pipe, _TICK)
    except keys.RunEnded:
        return True
    return False
