"""`run --pace SECONDS`: the run is held at each boundary of a stage, for slow eyes.

It is held for real, at the gates of minirun.core.gates: what is half-built stays as it is, and
another terminal can look into it.
"""

from __future__ import annotations

import os
import select

from minirun.core import events, gates
from minirun.core.keeping import places
from minirun.faces.show.log.order import OPENED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from minirun.faces.show.log.event import Event


def pacer(
    directory: str, container_id: str, seconds: float, runtime_pipe: int
) -> Callable[[Event], None]:
    """Return what is to be called at each gate: it waits, and opens the gate.

    `directory`: the container's; `runtime_pipe`: it ends with the runtime, and so does the wait.
    """

    def at_gate(gate: Event) -> None:
        if not events.log_fds():
            events.open_log(f"{directory}/{places.EVENTS}", container_id)
            events.become("step", os.getpid())
        poll = select.poll()
        poll.register(runtime_pipe, select.POLLIN)
        poll.poll(seconds * 1000)
        events.emit("note", OPENED, {"gate": gate.name}, why="the process at the gate goes on")
        try:
            gates.open_gate(directory)
        except OSError:
            pass  # the process that was at the gate has ended

    return at_gate
