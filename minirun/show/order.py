"""The order of causes: a birth stands before what the child did, and time never runs backwards.

    init     prctl PR_SET_PDEATHSIG      the child acts, and writes of it …
    runtime  clone3 … = 4242             … while the parent is still on its way out of clone3(2)

A call is logged when it has returned. So a log that is read line by line may tell of a child first,
and of its birth later. Which clone is init's birth is known by init's pid: the runtime has other
children too, such as a hook.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.show.event import Event

_CLONES = ("clone3", "clone")
_FIRST_STAGE = 1
OPENED = "gate opened"
"""The stepper's note that the process at a gate goes on."""


def init_of(events: "list[Event]") -> int:
    """Return the pid of a container's init, which is the first to act under that name; or 0."""
    return next((event.pid for event in events if event.actor == "init"), 0)


def is_birth(event: "Event", init: int) -> bool:
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

    def time(self, event: "Event", *, birth: bool) -> int:
        """Return nanoseconds (CLOCK_MONOTONIC), no less than before.

        A birth has the time at which the call began: the child's acts follow. Two processes that
        write at once may do it in the other order than they took the time: some microseconds.
        """
        self.latest = max(self.latest, event.t - event.dur if birth else event.t)
        return self.latest


class Waits:
    """When a start stood still at gates, learned from its events in their order.

    The process at a gate does nothing else. So it waits until the stepper says that the gate is
    open, or, with gates that another program opens, until it begins its next act.
    """

    def __init__(self) -> None:
        self.gate: "Event | None" = None
        """The gate that a process is at; None if none is."""
        self.spans: "list[tuple[int, int]]" = []
        """From when until when: CLOCK_MONOTONIC, ns. Two never overlap: one process is let through
        at a time."""

    def take(self, event: "Event") -> None:
        """Learn from the next event."""
        if event.kind == "gate":
            self.gate = event
        elif self.gate and (event.name == OPENED or event.pid == self.gate.pid):
            length = event.dur if event.kind in ("syscall", "exec") else 0
            self.spans.append((self.gate.t, max(self.gate.t, event.t - length)))
            self.gate = None

    def within(self, begin: int, end: int) -> int:
        """Return how many nanoseconds of a time were spent at gates."""
        return sum(max(0, min(end, last) - max(begin, first)) for first, last in self.spans)


class Births:
    """Orders the events of a log that still grows: init's wait here until its birth is told."""

    def __init__(self) -> None:
        self.init = 0
        """Init's pid; 0 as long as it is not known."""
        self.held: "list[Event]" = []
        self.over = False
        """True if there is nothing to wait for any more."""

    def take(self, events: "list[Event]", *, last: bool = False) -> "list[Event]":
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


def clones_before_children(events: "list[Event]") -> "list[Event]":
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
    ordered: "list[Event]" = []
    for at in range(len(events)):
        pending = [] if at in later else [at]
        while pending:
            if births := waiting.get(pending[-1]):
                pending.append(births.pop(0))
            else:
                ordered.append(events[pending.pop()])
    return ordered
