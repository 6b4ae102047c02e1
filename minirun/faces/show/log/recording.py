"""A recording: the events of one container, read from a file, in the shape that all views share.

A file of events (events.jsonl, or what `run --log FILE --log-format json` wrote) may hold several
containers, as Figure 1's does: each becomes one recording. Nothing here needs root, Linux, or a
container that still exists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from minirun.core.errors import StateError
from minirun.faces.show.log import event_row
from minirun.faces.show.log.event import Event, Reader, began
from minirun.faces.show.log.order import Waits, clones_before_children, init_of, is_birth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.inspect.snapshot import Snapshot

_HINT = "a file of events, as --log FILE makes it"
MOST_BYTES = 32 << 20
"""How large a recording may be: some hundred starts of a container. Read, it takes ten times that.
"""


_PARTS: dict[str, Any] = {
    "namespaces": {}, "host_namespaces": {}, "mounts": [], "files": [], "devices": [],
    "processes": {},
}  # fmt: skip
"""What a snapshot has of a part that its event lacks."""


def _is_snapshot(args: dict[str, Any]) -> bool:
    """Return True if each part has the type that minirun.faces.inspect.snapshot writes."""
    if not all(isinstance(args[part], type(empty)) for part, empty in _PARTS.items()):
        return False
    facts = args["processes"].values()
    if not all(isinstance(each, dict) and each.keys() >= _FACTS for each in facts):
        return False
    rows = [args[part] for part, empty in _PARTS.items() if isinstance(empty, list)]
    rows += [each[key] for each in facts for key in ("descriptors", "cgroup") if key in each]
    return all(isinstance(row, list) and all(isinstance(x, str) for x in row) for row in rows)


_FACTS = {"pid", "name", "capabilities", "descriptors"}
"""What is known of each process."""


@dataclass(frozen=True)
class Stage:
    """One of the seven stages: times in ns (CLOCK_MONOTONIC), `end` None if it never ended."""

    number: int
    actor: str
    name: str
    begin: int
    end: int | None
    error: str
    why: str
    held: int = 0
    """Nanoseconds at gates."""

    @property
    def duration(self) -> int:
        """Nanoseconds without the time at gates; 0 if it never ended."""
        return self.end - self.begin - self.held if self.end is not None else 0


@dataclass(frozen=True)
class FifoMessage:
    """What one actor said to another through a FIFO, or a pipe: an arrow between two lanes."""

    t: int
    sender: str
    receiver: str
    name: str


@dataclass(frozen=True)
class Recording:
    """The events of one container, as they were written; a birth stands before the child's acts."""

    id: str
    events: list[Event]
    source: str = ""
    """The file it was read from."""
    unreadable: int = 0
    """Lines of the file that are no events."""
    held: int = 0
    """Nanoseconds at gates that its times leave out already: see `unheld`."""

    @cached_property
    def name(self) -> str:
        """What the container was called last: its id if the log says no name."""
        notes = [each for each in self.events if each.name in ("origin", "renamed")]
        names = [str(each.args.get("name") or "") for each in notes if "engine" not in each.args]
        return next(filter(None, reversed(names)), self.id)

    @cached_property
    def unheld(self) -> Recording:
        """The same as if there had been no gate: without the time at them. All views show this."""
        events = [self.waits.without(event) for event in self.events]
        return replace(self, events=events, held=self.held + self.waits.sums[-1])

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages that began, in the order of their numbers."""
        return _stages(self.events, self.waits)

    def worked(self, event: Event) -> int:
        """Return how long an event took without the time at gates, ns: a stage's end has some."""
        return event.dur - self.waits.within(event.t - event.dur, event.t)

    @cached_property
    def waits(self) -> Waits:
        """When the start stood still at gates."""
        found = Waits()
        for event in self.events:
            found.take(event)
        return found

    @cached_property
    def messages(self) -> list[FifoMessage]:
        """What was said through FIFOs and pipes."""
        said = [e for e in self.events if e.kind == "message"]
        return [FifoMessage(e.t, e.actor, str(e.args.get("to", "")), e.name) for e in said]

    @cached_property
    def init(self) -> int:
        """Init's pid on the host; 0 if it never acted."""
        return init_of(self.events)

    @cached_property
    def birth(self) -> Event | None:
        """The clone that made init."""
        return next((e for e in self.events if is_birth(e, self.init)), None)

    @cached_property
    def arrows(self) -> list[FifoMessage]:
        """What goes from one actor to another: init's birth, and messages, in their order."""
        birth = self.birth
        born = [FifoMessage(birth.t - birth.dur, birth.actor, "init", birth.name)] if birth else []
        return sorted([*born, *self.messages], key=lambda arrow: arrow.t)

    @cached_property
    def snapshots(self) -> dict[str, Snapshot]:
        """Boundary ("5:begin") → the state of the container there; `run --snapshots` takes them.

        An event that has another shape is none.
        """
        taken = [e.args for e in self.events if e.kind == "note" and e.name == "snapshot"]
        whole = [
            _PARTS | {key: args[key] for key in args if args[key] is not None} for args in taken
        ]
        return {str(s.get("at")): cast("Snapshot", s) for s in whole if _is_snapshot(s)}

    @cached_property
    def start(self) -> int:
        """When the first event began, ns: from here all times count."""
        return min((e.t - began(e) for e in self.events), default=0)

    @cached_property
    def end(self) -> int:
        """The time of the last event, ns."""
        return max((e.t for e in self.events), default=0)

    @cached_property
    def actors(self) -> list[str]:
        """Who acted, in order of appearance: runtime, init, hook, cli."""
        return list(dict.fromkeys(e.actor for e in self.events))

    @cached_property
    def simulated(self) -> bool:
        """Return True if the GPUs in it are the simulated driver's."""
        return any(map(event_row.simulated, self.events))

    @cached_property
    def observed(self) -> bool:
        """Return True if another runtime was watched, which wrote no log."""
        return any(event.observed for event in self.events)

    @cached_property
    def complete(self) -> bool:
        """Return True if all seven stages ended without an error."""
        done = [s for s in self.stages if s.end is not None and not s.error]
        return {s.number for s in done} >= {1, 2, 3, 6, 7}


def read(path: str | Path) -> list[Recording]:
    """Return the recordings of a file. Raises OSError; StateError if it holds no event."""
    with open(path, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise StateError(f"{path}: is larger than {MOST_BYTES >> 20} MiB", _HINT)
    return parse(data, str(path))


def unheld(recordings: list[Recording]) -> list[Recording]:
    """Return recordings as they are drawn on one axis: a single one without the time at gates.

    Several keep their host's clock: one went on while another was held.
    """
    return [recordings[0].unheld] if len(recordings) == 1 else recordings


def parse(data: bytes, source: str = "") -> list[Recording]:
    """Return the recordings in a file of events. Raises StateError if there is no event in it."""
    reader, events = Reader(), dict[str, list[Event]]()
    for event in [*reader.take(data), *reader.end()]:
        events.setdefault(event.id, []).append(event)
    if not events:
        raise StateError(f"{source or 'the text'}: holds no events of minirun", _HINT)
    ordered = {name: clones_before_children(found) for name, found in events.items()}
    return [Recording(name, own, source, reader.unreadable) for name, own in ordered.items()]


def _stages(events: list[Event], waits: Waits) -> list[Stage]:
    found: dict[int, Stage] = {}
    for event in events:
        number = event.stage
        if event.kind == "begin":  # stage 3 goes on after 5 for the hooks after NVIDIA's
            stage = Stage(number, event.actor, event.name, event.t, None, "", event.why)
            found[number] = replace(found.get(number, stage), end=None)
        elif event.kind == "end" and number in found:
            error = str(event.args.get("error", "failed")) if event.ret else ""
            held = waits.within(found[number].begin, event.t)
            found[number] = replace(found[number], end=event.t, error=error, held=held)
    return [found[number] for number in sorted(found)]
