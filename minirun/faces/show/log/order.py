"""The order of causes: a birth stands before what the child did, and time never runs backwards.

    init     prctl PR_SET_PDEATHSIG      the child acts, and writes of it …
    runtime  clone3 … = 4242             … while the parent is still on its way out of clone3(2)

A call is logged when it has returned. So a log that is read line by line may tell of a child first,
and of its birth later. Which clone is init's birth is known by init's pid: the runtime has other
children too, such as a hook.

All times that are shown count from the start, without the time at gates: Waits.
"""

from __future__ import annotations

from bisect import bisect_left

from minirun.faces.show.log.event import began

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.show.log.event import Event

_CLONES = ("clone3", "clone")
_FIRST_STAGE = 1
OPENED = "gate opened"
"""The stepper's note that the process at a gate goes on."""
_GIVEN_UP = "ERROR"
"""What the runtime tells init then."""


def init_of(events: list[Event]) -> int:
    """Return the pid of a container's init, which is the first to act under that name; or 0."""
    return next((event.pid for event in events if event.actor == "init"), 0)


def is_birth(event: Event, init: int) -> bool:
    """Return True if `event` is the clone that made init. `init`: its pid; 0: not known yet.

    Then it is told by its new namespaces. A helper of stage 1 has a user namespace at most.
    """
    if event.kind != "syscall" or event.name not in _CLONES or event.errno:
        return False
    if init:
        return event.ret == init
    flags = str(event.args.get("flags", ""))
    return event.stage == _FIRST_STAGE and ("NEWNS" in flags or "NEWPID" in flags)


class Clock:
    """Tells when events are to be shown, one after the other."""

    def __init__(self) -> None:
        self.latest = 0

    def time(self, event: Event) -> int:
        """Return nanoseconds (CLOCK_MONOTONIC), no less than before.

        A clone has the time at which the call began: the child's acts follow. Two processes that
        write at once may do it in the other order than they took the time: some microseconds.
        """
        child = event.kind == "syscall" and event.name in _CLONES and not event.errno
        return self.at(event.t - event.dur if child else event.t)

    def at(self, t: int) -> int:
        """Return a time, no less than before."""
        self.latest = max(self.latest, t)
        return self.latest


def steps(starts: list[list[Event]]) -> list[list[int]]:
    """Number the events of starts, each in its order, from 0 on as if one followed the other.

    Which of two starts comes next is told by the times that are shown. All views that give each
    event the same room, or go from one to the next, use these numbers.
    """
    clocks = [Clock() for _ in starts]
    moments = [
        (clocks[number].time(event), number, at)
        for number, events in enumerate(starts)
        for at, event in enumerate(events)
    ]
    found = [[0] * len(events) for events in starts]
    for step, (_, number, at) in enumerate(sorted(moments)):
        found[number][at] = step
    return found


class Waits:
    """When a start stood still at gates, learned from its events in their order.

    The process at a gate does nothing else. So it waits until the stepper says that the gate is
    open, or, with gates that another program opens, until it begins its next act; or until another
    process is at the next gate, or the runtime gives the start up. What others do in this time (the
    stepper's snapshot) takes no time of the start.
    """

    def __init__(self) -> None:
        self.gate: Event | None = None
        """The gate that a process is at; None if none is."""
        self.spans: list[tuple[int, int]] = []
        """From when until when: CLOCK_MONOTONIC, ns. Two never overlap: one process is let through
        at a time."""
        self.sums = [0]
        """How many nanoseconds the first spans have together: of none, of one, …"""

    def take(self, event: Event) -> None:
        """Learn from the next event."""
        if self.gate and _opens(event, self.gate):
            first = max(self.gate.t, self.spans[-1][1] if self.spans else 0)
            self.spans.append((first, max(first, event.t - began(event))))
            self.sums.append(self.sums[-1] + self.spans[-1][1] - first)
            self.gate = None
        if event.kind == "gate":
            self.gate = event

    def before(self, t: int) -> int:
        """Return how many nanoseconds before a moment were spent at gates."""
        if self.gate and t > self.gate.t:
            return t - self.gate.t + self.before(self.gate.t)
        count = bisect_left(self.spans, (t, t))
        if not count:
            return 0
        return self.sums[count] - max(0, self.spans[count - 1][1] - t)

    def within(self, begin: int, end: int) -> int:
        """Return how many nanoseconds of a time were spent at gates."""
        return self.before(end) - self.before(begin)

    def without(self, event: Event) -> Event:
        """Return an event as if there had been no gate: when it was, and how long it took."""
        waited = self.before(event.t)
        if not waited:
            return event
        own = event.dur - self.within(event.t - event.dur, event.t)
        return event._replace(t=event.t - waited, dur=own)


def _opens(event: Event, gate: Event) -> bool:
    """Return True if an event tells that a gate is no longer waited at."""
    given_up = event.kind == "message" and event.name == _GIVEN_UP
    return event.name == OPENED or given_up or event.kind == "gate" or event.pid == gate.pid


class Births:
    """Orders the events of a log that still grows: init's wait here until its birth is told."""

    def __init__(self) -> None:
        self.init = 0
        """Init's pid; 0 as long as it is not known."""
        self.held: list[Event] = []
        self.over = False
        """True if there is nothing to wait for any more."""

    def take(self, events: list[Event], *, last: bool = False) -> list[Event]:
        """Return the events whose order is known; all of them if these are the `last`.

        None is held back if a process waits at a gate: what it waits for may be this answer. The
        stage's end says that no birth will be told (a brief log has no system calls).
        """
        if self.over:
            return events
        self.held += events
        self.init = self.init or init_of(self.held)
        told = bool(self.init) and any(is_birth(event, self.init) for event in self.held)
        ended = any(event.kind == "end" for event in self.held)
        self.over = told or ended or last
        waiting = self.init or any(event.name in _CLONES for event in self.held)
        gate = any(event.kind == "gate" for event in self.held)
        if waiting and not (self.over or gate):
            return []
        ready, self.held = clones_before_children(self.held), []
        return ready


def clones_before_children(events: list[Event]) -> list[Event]:
    """Put each clone before what its child did.

    The child may act, and write, before the call has returned in its parent, who writes of it.
    """
    first: dict[int, int] = {}
    for at, event in enumerate(events):
        first.setdefault(event.pid, at)
    waiting: dict[int, list[int]] = {}  # where a child begins → its birth, which is told later
    for at, event in enumerate(events):
        child = event.ret if event.name in ("clone3", "clone") else None
        if event.kind == "syscall" and isinstance(child, int) and first.get(child, at) < at:
            waiting.setdefault(first[child], []).append(at)
    later = {at for births in waiting.values() for at in births}
    ordered: list[Event] = []
    for at in range(len(events)):
        pending = [] if at in later else [at]
        while pending:
            if births := waiting.get(pending[-1]):
                pending.append(births.pop(0))
            else:
                ordered.append(events[pending.pop()])
    return ordered
