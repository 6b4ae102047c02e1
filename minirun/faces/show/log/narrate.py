"""Which events are shown, at three levels: a line a stage, their milestones, or every call."""

from __future__ import annotations

from minirun.faces.show.log import event_row, milestones
from minirun.faces.show.log.event import began
from minirun.faces.show.log.order import OPENED, Clock, Waits, is_birth
from minirun.faces.show.log.summary import Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.show.log.event import Event

LEVELS = ("summary", "stages", "syscalls")
_MILESTONES = ("begin", "end", "message", "exec", "note")
_GPU_STAGE, _LAST_STAGE = 5, 7
_BOOKKEEPING = ("snapshot", OPENED, "sysctl", "nft")
_LAST_CALLS = ("pivot_root", "seccomp", "capset")


class Narrator:
    """Turns the events of one container, in their order, into rows.

    "summary": one for each stage, at its end. "stages": where stages begin and end, what is said
    and executed in between, the calls that Figure 3 names, what many calls come to, and their
    number in each stage. "syscalls": all.
    """

    def __init__(self, level: str, init: int = 0) -> None:
        """`init`: its pid; 0 if it is not known yet."""
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is none of {LEVELS}")
        self.level = level
        self.init = init
        self.clock = Clock()
        self.waits = Waits()
        self.milestones = milestones.Milestones()
        self.summary = Summary()
        self.start: int | None = None
        self.calls: dict[int, int] = {}
        self.messages: dict[int, int] = {}
        """How many of each stage."""
        self.born = False
        """True if clone3 has made init."""
        self.brief = False
        """True if the log leaves system calls out ($MINIRUN_LOG): stage 1 always has some."""
        self.simulated = False
        """True if the simulated driver's files have been seen."""
        self.over = False
        """True if the run has come to stage 7's end, or a stage has failed."""
        self.unshown: dict[int, event_row.Row] = {}
        """Pid → its last event, if that has no row of its own: it is told with others, later."""
        self.latest: dict[int, event_row.Row] = {}
        """Pid → its last event."""

    def rows(self, event: Event) -> list[event_row.Row]:
        """Return what to show of `event`, below what the calls before it come to.

        Times and durations leave out the time at gates.
        """
        return [row for row, _ in self.rows_with_events(event)]

    def rows_with_events(self, event: Event) -> list[tuple[event_row.Row, tuple[Event, ...]]]:
        """Return the same rows, each with the events that it stands for."""
        self.waits.take(event)
        event, before = self.waits.without(event), self.clock.latest
        shown = self.row(event)
        if self.level == "summary":
            birth = bool(shown and shown.kind == "syscall" and shown.to == "init")
            self.summary.take(event, birth=birth)
            lines = self.summary.lines(event, shown.took if shown else "")
            return [(line, ()) for line in lines]
        if self.level == "syscalls":
            return [(shown, (event,))] if shown else []
        if not shown:
            self.milestones.take(event)
            return []
        start, groups = self.start or 0, self.milestones.before(event)
        times = [min(self.clock.latest, max(before, each.t)) for each in groups]
        pairs = zip(groups, times, strict=True)
        done = [(milestones.row(each, start, t), each.calls) for each, t in pairs]
        return [*done, (shown, (event,))]

    def last_of(self, pid: int) -> list[event_row.Row]:
        """Return the last event of a process that stands still, if it has not been shown."""
        row = self.unshown.pop(pid, None)
        return [row] if row else []

    def row(self, event: Event) -> event_row.Row | None:
        """Return what to show of `event`; None for nothing."""
        if self.start is None:
            self.start = event.t - began(event)
        kind, stage = event.kind, event.stage
        if kind == "gate" and self.over:
            return None  # the view itself holds the last gate, until all is shown
        self.simulated |= event_row.simulated(event)
        if kind == "syscall":
            self.calls[stage] = self.calls.get(stage, 0) + 1
        elif kind == "message":
            self.messages[stage] = self.messages.get(stage, 0) + 1
        birth = not self.born and is_birth(event, self.init)
        row = event_row.row(event, self.start, self.clock.time(event))
        if kind == "end":
            self.over |= stage == _LAST_STAGE or bool(event.ret)
            row = row._replace(
                what=row.what + self._count(stage), took=event_row.duration(event.dur)
            )
        if birth:
            self.born = True
            row = row._replace(to="init")
        if kind != "gate":
            self.unshown.pop(event.pid, None)
            self.latest[event.pid] = row
        if self.level == "syscalls":
            return row
        if birth:
            return row._replace(why=milestones.namespaces(event))
        if not self._is_milestone(event):
            if kind != "gate":
                self.unshown[event.pid] = row
            return None
        return row._replace(what=milestones.of_one(event) or row.what)

    def _is_milestone(self, event: Event) -> bool:
        kind, name = event.kind, event.name
        if kind == "syscall":
            overlay = name == "mount" and event.args.get("fstype") == "overlay"
            attached = name == "bpf" and event.args.get("cmd") == "BPF_PROG_ATTACH"
            return overlay or attached or (name in _LAST_CALLS and event.stage == _LAST_STAGE)
        return kind in _MILESTONES and name not in _BOOKKEEPING

    def _count(self, stage: int) -> str:
        calls, said = self.calls.get(stage, 0), self.messages.get(stage, 0)
        mark = "GPUs SIMULATED" if stage == _GPU_STAGE and self.simulated else ""
        self.brief |= stage == 1 and not calls
        sent = _count("message", said) if said else ""  # write(2) too, of which the log says more
        count = "" if self.brief or (said and not calls) else _count("system call", calls)
        details = ", ".join(part for part in (count, sent, mark) if part)
        return f": {details}" if details else ""


def _count(what: str, number: int) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
