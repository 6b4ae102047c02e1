"""Recordings as a trace: JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open.

The "Trace Event Format" (Chromium): a container is a process there, an actor one of its threads
(and so is each other process that acts under the actor's name, such as ldconfig's), so that the
containers of Figure 1 lie below each other on one axis of time.

    X  complete: a stage, a system call that took time; `ts` and `dur` in microseconds
    i  instant: an execve, a note
    s, f  a flow: an arrow from a message, or a birth, to what its receiver did next
    M  metadata: names and order of processes and threads

Attributes have OpenTelemetry's names if it has one: container.id, process.pid, process.vpid,
process.command_args, error.type; what is minirun's own is called minirun.*.

A message takes no time that the log knows of. It is drawn one microsecond wide, because viewers
attach an arrow to a slice only.
"""

from typing import Any

from minirun.faces.show.log import event_row
from minirun.faces.show.log.axis import began
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.recording import Recording, unheld

TraceObject = dict[str, Any]
_MESSAGE_WIDTH = 1.0
_SLICES = ("begin", "syscall", "message")


def document(recordings: list[Recording]) -> TraceObject:
    """Return the trace of `recordings` as one JSON object.

    Times count from the first event, and leave out gates: see
    minirun.faces.show.log.recording.unheld.
    """
    recordings = unheld(recordings)
    start = min(_began(event) for recording in recordings for event in recording.events)
    entries: list[TraceObject] = []
    for number, recording in enumerate(recordings, 1):
        entries += _Container(recording, number, start).entries()
    simulated = [recording.name for recording in recordings if recording.simulated]
    about = {"minirun.gpus": f"SIMULATED in {', '.join(simulated)}"} if simulated else {}
    return {"traceEvents": entries, "displayTimeUnit": "ns", "otherData": about}


class _Container:
    """One recording: the process `number` of the trace."""

    def __init__(self, recording: Recording, number: int, start: int) -> None:
        self.recording = recording
        self.number = number
        self.start = start
        self.threads: dict[tuple[str, int], int] = {}
        self.flows = 0
        self.vpids = _vpids(recording.events)

    def entries(self) -> list[TraceObject]:
        """Return all of it: stages first, so that each lies below its system calls."""
        found: list[TraceObject] = []
        begun: dict[int, Event] = {}
        for event in self.recording.events:
            self._thread(event)
            if event.kind == "begin":
                begun[event.stage] = event
            elif event.kind == "end" and event.stage in begun:
                found.append(self._stage(begun.pop(event.stage), event))
        found += [self._cut_off(event) for event in begun.values()]
        for event in self.recording.events:
            if event.kind not in ("begin", "end"):
                found += self._entry(event)
        return self._names() + found

    def _thread(self, event: Event) -> int:
        """Return the thread of who did `event`: 1, 2, … in order of appearance."""
        key = (event.actor, event.pid)
        return self.threads.setdefault(key, len(self.threads) + 1)

    def _at(self, event: Event, nanoseconds: int) -> TraceObject:
        place = {"pid": self.number, "tid": self._thread(event)}
        return {**place, "ts": (nanoseconds - self.start) / 1000}

    def _stage(self, begin: Event, end: Event) -> TraceObject:
        error = end.args.get("error") if end.ret else None
        args = self._attributes(begin) | ({"error.message": str(error)} if error else {})
        what = event_row.stages(observed=begin.observed).get(begin.stage, begin.name)
        name = f"{begin.stage} {begin.name}" + (" FAILED" if end.ret else "")
        dur = (end.t - begin.t) / 1000
        args["minirun.stage.description"] = what
        return {"ph": "X", "cat": "stage", "name": name, "dur": dur, "args": args,
                **self._at(begin, begin.t)}  # fmt: skip

    def _cut_off(self, begin: Event) -> TraceObject:
        """Return a stage that never ended: B without its E, which a viewer draws to the end."""
        return {"ph": "B", "cat": "stage", "name": f"{begin.stage} {begin.name}",
                "args": self._attributes(begin), **self._at(begin, begin.t)}  # fmt: skip

    def _entry(self, event: Event) -> list[TraceObject]:
        kind, args = event.kind, self._attributes(event)
        common = {"cat": kind, "name": event.name, "args": args}
        if kind == "message":
            place = self._at(event, event.t)
            to = str(event.args.get("to"))
            return [{"ph": "X", "dur": _MESSAGE_WIDTH, **common, **place}, *self._flow(event, to)]
        if kind == "syscall":
            call = {"ph": "X", "dur": event.dur / 1000, **common, **self._at(event, _began(event))}
            born = event is self.recording.birth
            return [call, *(self._flow(event, "init") if born else [])]
        return [{"ph": "i", "s": "t", **common, **self._at(event, event.t)}]

    def _flow(self, event: Event, to: str) -> list[TraceObject]:
        """Return an arrow to the next slice of `to`, if there is one: a message, or init's birth.

        An end without "bp" binds to what begins after it on its thread: the log does not tell when
        a message was read, only what came of it.
        """
        start = _began(event)
        later = [e for e in self.recording.events if e.actor == to and e.kind in _SLICES]
        reached = min((e for e in later if _began(e) > start), key=_began, default=None)
        if reached is None:
            return []
        self.flows += 1
        kind = "fifo" if event.kind == "message" else "birth"
        flow = {"cat": kind, "name": event.name, "id": self.number * 1_000_000 + self.flows}
        tail = self._at(event, start)
        return [{"ph": "s", **flow, **tail},
                {"ph": "f", **flow, **tail, "tid": self._thread(reached)}]  # fmt: skip

    def _attributes(self, event: Event) -> TraceObject:
        found: TraceObject = {"container.id": self.recording.id, "process.pid": event.pid}
        if event.pid in self.vpids:
            found["process.vpid"] = self.vpids[event.pid]
        found |= {"minirun.actor": event.actor, "minirun.stage": event.stage}
        if event.kind == "exec" and isinstance(event.args.get("argv"), list):
            found["process.command_args"] = event.args["argv"]
        if event.errno:
            found["error.type"] = event.errno
        if event.why:
            found["minirun.why"] = event.why
        if event.kind == "syscall":
            found["minirun.return"] = event.ret
        return found | {f"minirun.args.{key}": value for key, value in event.args.items()}

    def _names(self) -> list[TraceObject]:
        """Return the names and the order of this process and its threads."""
        mark = " (GPUs SIMULATED)" if self.recording.simulated else ""
        rows: list[tuple[int, str, TraceObject]] = [
            (0, "process_name", {"name": f"container {self.recording.name}{mark}"}),
            (0, "process_sort_index", {"sort_index": self.number}),
        ]
        for (actor, pid), tid in self.threads.items():
            rows.append((tid, "thread_name", {"name": f"{actor} (pid {pid})"}))
            rows.append((tid, "thread_sort_index", {"sort_index": tid}))
        return [
            {"ph": "M", "pid": self.number, "tid": tid, "name": name, "args": args}
            for tid, name, args in rows
        ]


def _began(event: Event) -> int:
    """Return when an event began, ns: a call's event has the time when it returned."""
    return event.t - began(event)


def _vpids(events: list[Event]) -> dict[int, int]:
    """Return the pids that are 1 in a namespace of their own: who was cloned into a new one."""
    born = [e for e in events if e.name in ("clone", "clone3") and not e.errno]
    new = [e for e in born if "CLONE_NEWPID" in str(e.args.get("flags", ""))]
    return {e.ret: 1 for e in new if isinstance(e.ret, int)}
