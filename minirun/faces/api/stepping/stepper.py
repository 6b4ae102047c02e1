"""minirun.step: a run that stops at each stage, on a page in the notebook, with buttons.

    s = minirun.step("ubuntu", "nvidia-smi -L", gpus="0,1")
    s                      the page: Next, Back, Until, Command … (needs anywidget)
    s.until("mknodat")     the same from code
    s.shell("ls -l /dev")  in the half-built container

Where no container can be made, the same page steps through a recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minirun.core.lazy import lazy
from minirun.faces import recordings
from minirun.faces.api import mime
from minirun.faces.api.container import REMOVED, ContainerHandle
from minirun.faces.api.launch import FlagValue, RunError, asked_for, can_run, flags_of, named
from minirun.faces.api.stepping.holder import ONWARD, RunHolder
from minirun.faces.api.stepping.live_run import LiveRun
from minirun.faces.api.stepping.played_run import PlayedRun
from minirun.faces.api.table import Shown
from minirun.faces.api.timeline import Timeline
from minirun.faces.knowledge import language
from minirun.faces.show.log import recording
from minirun.faces.show.page import growing

with lazy:
    from minirun.faces.api.stepping import widget

_PATIENCE = 60.0
"""Seconds that a key may take: a command in the container is ended after 20."""


class Stepper(Shown):
    """A run that is held before and after each stage. In a notebook it is a page with buttons."""

    def __init__(
        self, holder: RunHolder, container: ContainerHandle | None, reason: str = ""
    ) -> None:
        """`container`: None for a recording; `reason`: why it is one."""
        self._holder = holder
        self.board = holder.board
        self.container = container
        self.reason = reason
        self._widget: Any = None

    @property
    def place(self) -> str:
        """Where the run is held: "before stage 5: …"; "" if it is not."""
        return self.board.stop

    @property
    def over(self) -> bool:
        """True if there will be no stop any more, and the command has ended."""
        return self.board.over

    @property
    def timeline(self) -> Timeline:
        """What has happened so far."""
        found = growing.recording(self.board.id, list(self.board.events))
        return Timeline(found, held=bool(self.board.stop))

    @property
    def changes(self) -> dict[str, tuple[list[str], list[str]]]:
        """What changed since the last stop: nodes, mounts, rules … → what came, what went."""
        return {change.part: (change.new, change.gone) for change in self.board.changes}

    def next(self) -> Stepper:
        """Go on to the next stop. Raises StateError if the run is not held."""
        return self._press("next")

    def until(self, event: str) -> Stepper:
        """Go on to an event ("mknodat", "mount*") or a boundary ("5:begin", "5").

        Raises UsageError for a name that no event has.
        """
        return self._press("until", event)

    def go_on(self) -> Stepper:
        """Go on without stops, to the command's end."""
        return self._press("continue")

    def back(self) -> str:
        """Show the stop before: of a run, its snapshot; a recording goes back to it."""
        return self._press("back").board.said

    def why(self) -> str:
        """Return why this step is taken."""
        return self._press("why").board.said

    def inspect(self) -> str:
        """Return what the container and its processes are made of now."""
        return self._press("inspect").board.said

    def shell(self, command: str) -> str:
        """Run a command in the half-built container; return what it printed."""
        return self._press("shell", command).board.said.partition("\n")[2]

    def abort(self) -> Stepper:
        """Give the run up; the runtime cleans up."""
        return self._press("quit")

    def remove(self) -> None:
        """Give the run up if it is held, and remove the container."""
        self._holder.close()
        if self.container:
            self.container.remove()

    def _press(self, key: str, argument: str = "") -> Stepper:
        """Press a key and wait until it is done."""
        board = self.board
        before = board.version
        self._holder.press(key, argument)
        onward = key in (*ONWARD, "quit")
        self._wait(lambda: board.over or (bool(board.stop) if onward else board.version > before))
        return self

    def _wait(self, done: Any) -> None:
        with self.board.changed:
            if not self.board.changed.wait_for(done, _PATIENCE):
                raise TimeoutError(f"the run gave no answer within {_PATIENCE:g} s")

    def __enter__(self) -> Stepper:
        return self

    def __exit__(self, *failure: object) -> None:
        self.remove()

    def __str__(self) -> str:
        if self.over:
            said = f": {self.board.said}" if self.board.said else ""
            return f"container {self.board.id}: the run is over{said}"
        kind = f"a recording, since {self.reason}" if self.board.recorded else "held"
        said = self.board.said.strip()
        note = f" ({said})" if said and "\n" not in said else ""  # lines: a page was asked for
        return f"container {self.board.id}, {kind}: {self.place or 'it goes on'}{note}"

    def _repr_html_(self) -> str:
        return self.timeline._repr_html_()

    def _repr_mimebundle_(self, **kinds: Any) -> dict[str, Any]:
        """Return the text and the picture; in a notebook that has anywidget, the page too."""
        if not self._widget and mime.can_show_widgets():
            self._widget = widget.PageWidget(self.board, self._holder.press)
        return mime.bundle(self._widget, str(self), self._repr_html_())


def step(
    image: str,
    *command: str | Sequence[str],
    gpus: str | Sequence[int | str] | None = None,
    name: str | None = None,
    **flags: FlagValue,
) -> Stepper:
    """Start a run that is held before and after each stage; return it at the first stop.

    Arguments are those of :func:`minirun.run`. Where no container can be made (see
    :func:`minirun.can_run`) it is a recording, with GPUs if `gpus` asks for some. The run is given
    up when this process ends. Raises RunError.
    """
    spoken = language.choose("")
    asked, wanted = asked_for(image, command, gpus)
    able, reason = can_run()
    if not able:
        wants = wanted not in (None, "none")
        (found,) = recording.read(recordings.path("gpus-0-1" if wants else "plain"))
        return Stepper(PlayedRun(found, spoken), None, reason)
    container = named(name)
    if container.status != REMOVED:
        raise RunError(f"container {container.name!r} exists already", container=container)
    given = {"gpus": wanted, **flags}
    run = LiveRun(container, [*flags_of(given), "--", *asked], spoken)
    found_run = Stepper(run, container)
    with run.board.changed:
        run.board.changed.wait_for(lambda: run.board.stop or run.board.over, _PATIENCE)
    if run.board.over and not run.board.events:
        raise RunError(run.board.said or "the run did not begin", run.status or 125, container)
    return found_run
