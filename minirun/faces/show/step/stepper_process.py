"""The stepper's process, while a run is stepped or snapshots are taken.

Imported by a run only if it is asked for.
"""

from __future__ import annotations

from minirun.core import gates
from minirun.core.container import Container
from minirun.core.keeping.settings import BOUNDARIES
from minirun.core.lazy import lazy
from minirun.faces.show.log.pattern import ANY
from minirun.faces.show.step import keys, tty
from minirun.faces.show.step.until import SteppedGates, StopPattern
from minirun.faces.show.text.viewers import LogViewers, ViewOptions

with lazy:
    from minirun.faces.show.step import session


class SteppedViewers(LogViewers):
    """The stepper holds the gates: each boundary, and each event that it is to stop after."""

    def __init__(self, options: ViewOptions) -> None:
        """Raises UsageError for a script's mistakes, before anything is made; OSError."""
        super().__init__(options)
        if options.script:
            keys.read_script(options.script)
        self.before = tty.attributes(0) if options.screen else None
        self.awaited = StopPattern(ANY if options.step == gates.EVERY_EVENT else "")

    def start(self, container: Container) -> None:
        """Start the stepper, and what writes --log as text. Raises OSError."""

        def step(over: int) -> None:
            session.run(container.settings, container.id, self.options, self.awaited, over)

        self.fork("minirun:step", step)
        self.gate = BOUNDARIES
        self.start_log(container)

    def finish(self) -> None:
        """Wait until the stepper has ended; put the screen back if it could not."""
        super().finish()
        if self.awaited.marked():
            self.awaited.mark(False)
            tty.restore(0, 2, self.before)

    def gates(self, directory: str, stops: tuple[str, ...]) -> gates.Gates:
        """Return the gates. Raises UsageError, OSError."""
        if not self.options.step:
            return gates.Gates(directory, stops)
        return SteppedGates(directory, stops, self.awaited)
