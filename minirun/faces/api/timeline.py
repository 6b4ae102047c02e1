"""A timeline: the events of one container, to look at, to walk through and to cut.

It shows itself as minirun's other views do: two lanes of text (minirun.faces.show), or the part of
an HTML page with lanes, arrows and reasons (minirun.faces.show.page.html). A recording is a run as
a file, for machines that can run nothing. Some come with minirun (minirun/faces/recordings/);
`minirun --log FILE --log-format json run …` makes more, and so does a copy of a container's
events.jsonl.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, overload

from minirun.common.screen import WIDTH
from minirun.core.errors import StateError, UsageError, reason
from minirun.core.keeping.settings import BOUNDARIES
from minirun.faces import recordings
from minirun.faces.api.devices import DeviceDiff
from minirun.faces.api.drawing import Drawing
from minirun.faces.api.namespaces import Namespaces
from minirun.faces.api.table import Shown
from minirun.faces.show.log import find
from minirun.faces.show.log.event import Event
from minirun.faces.show.log.recording import Recording, read
from minirun.faces.show.page import html

_HINT = "minirun.run(…, snapshots=True) takes them"


class Timeline(Shown):
    """The events of one container, in the order in which they were written."""

    def __init__(self, recording: Recording, level: str = "stages", *, held: bool = False) -> None:
        """`held`: it is of a run that stands still after the last of these events."""
        self.recording = recording
        self.held = held
        self.level = level
        """What its text shows: "stages" and their milestones, or all "syscalls"."""
        self.id = recording.id
        self.name = recording.name
        self.stages = recording.stages
        """The stages of Figure 3 that began; times in nanoseconds (CLOCK_MONOTONIC)."""
        self.messages = recording.messages
        """What runtime and init said to each other through the FIFOs."""
        self.simulated = recording.simulated
        """True if the GPUs in it are the simulated driver's."""
        self.snapshots = recording.snapshots
        """Boundary ("5:begin") → the container's state there; `run(snapshots=True)` takes them."""

    @property
    def pids(self) -> dict[str, int]:
        """Actor → its process id on the host. hook and cli are one process: stage 5 is in-line."""
        return {e.actor: e.pid for e in reversed(self.recording.events)}

    @property
    def duration(self) -> int:
        """Nanoseconds from the first event to the last one."""
        return self.recording.end - self.recording.start

    @property
    def namespaces(self) -> Namespaces:
        """Those of init, as the last snapshot has them. Raises StateError without snapshots."""
        return Namespaces.recorded(self._last("namespaces"), f"container {self.name}")

    @property
    def host(self) -> Namespaces:
        """Those of the runtime, which are the host's. Raises StateError without snapshots."""
        return Namespaces.recorded(self._last("host_namespaces"), "the runtime, on the host")

    @property
    def devices(self) -> DeviceDiff:
        """What stage 5 changed. Raises StateError without snapshots."""
        taken = self.snapshots
        if not {"5:begin", "5:end"} <= taken.keys():
            raise StateError(f"{self.name} has no snapshots of stage 5", _HINT)
        return DeviceDiff.between(taken["5:begin"], taken["5:end"], simulated=self.simulated)

    def _last(self, part: Literal["namespaces", "host_namespaces"]) -> dict[str, str]:
        for taken in reversed(list(self.snapshots.values())):
            if found := taken.get(part):
                return dict(found)
        raise StateError(f"{self.name} was recorded without snapshots", _HINT)

    def __len__(self) -> int:
        return len(self.recording.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.recording.events)

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> Timeline: ...
    def __getitem__(self, at: int | slice) -> Event | Timeline:
        if isinstance(at, slice):
            return self._with(self.recording.events[at])
        return self.recording.events[at]

    def filter(
        self,
        *,
        stage: int | None = None,
        actor: str | None = None,
        name: str | None = None,
        kind: str | None = None,
    ) -> Timeline:
        """Return the events that are all of this: filter(stage=5, name="mknodat")."""
        wanted = {"stage": stage, "actor": actor, "name": name, "kind": kind}
        given = {key: value for key, value in wanted.items() if value is not None}
        events = self.recording.events
        return self._with([e for e in events if all(getattr(e, k) == v for k, v in given.items())])

    def between(self, first: int | str, last: int | str) -> Timeline:
        """Return the events from one boundary to another, both included.

        A boundary is "5:begin" or "5:end"; a number alone is a stage's begin as `first`, its end as
        `last`. Raises ValueError for what is no boundary, or was not reached.
        """
        start = self._at(first if isinstance(first, str) else f"{first}:begin")
        stop = self._at(last if isinstance(last, str) else f"{last}:end")
        return self._with(self.recording.events[start : stop + 1])

    def _at(self, boundary: str) -> int:
        if boundary not in BOUNDARIES:
            raise ValueError(f"{boundary!r} is no boundary: 1:begin, 1:end, … 7:end")
        number, edge = boundary.split(":")
        for at, event in enumerate(self.recording.events):
            if event.kind == edge and event.stage == int(number):
                return at
        raise ValueError(f"this run did not come to {boundary}")

    def _with(self, events: list[Event]) -> Timeline:
        """Return a part: it shows all that is in it."""
        return Timeline(replace(self.recording, events=events), "syscalls")

    def text(self, level: str = "", width: int = WIDTH) -> str:
        """Return it as two lanes of text; `level` "syscalls" shows every system call."""
        drawing = Drawing(width, level or self.level)
        drawing.take(self.recording.events, last=True, held=self.held)
        return str(drawing)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return html.fragment(self.recording, held=self.held)


def replay(name_or_path: str | os.PathLike[str]) -> Timeline | list[Timeline]:
    """Return the timeline of a recording, by its name or its path.

    A file that holds several containers, as Figure 1's does, gives a list of them. Raises
    UsageError for what is neither name nor file, or holds no events.
    """
    path = Path(name_or_path)
    if not path.is_file() and str(name_or_path) in recordings.RECORDINGS:
        path = recordings.path(str(name_or_path))
    try:
        found = [Timeline(each) for each in read(path)]
    except OSError as error:
        what = reason(error)
        hint = f"a file of events, or one of {', '.join(recordings.RECORDINGS)}"
        raise UsageError(f"no recording {str(name_or_path)!r}: {what}", hint) from None
    except StateError as error:
        raise UsageError(str(error)) from None
    return found[0] if len(found) == 1 else found


def of_container(root: str, container_id: str) -> Timeline:
    """Return the timeline of a container below the state root `root`, living or removed.

    Raises StateError if there is none (any more).
    """
    path = find.of_container(container_id, root)
    found = [each for each in read(path) if container_id in (each.id, each.name)] if path else []
    if not found:
        raise StateError(f"nothing is recorded of container {container_id!r}")
    return Timeline(found[0])
