"""`run --step`: hold the run before and after each stage, or after an event, and look.

The process that the runtime starts for it: a controller, and the face that it is shown on.
"""

from __future__ import annotations

import os

from minirun.core import gates
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.faces.show.log import event_row
from minirun.faces.show.step import keys
from minirun.faces.show.step.controller import Controller
from minirun.faces.show.step.face import Face
from minirun.faces.show.step.lines import Lines
from minirun.faces.show.step.piped import Piped
from minirun.faces.show.step.tty import Tty
from minirun.faces.show.step.until import StopPattern

with lazy:
    from minirun.faces.show.step import screen  # rich: 0.1 s
    from minirun.faces.show.web import face  # 60 ms, for --web alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minirun.faces.show.text.viewers import ViewOptions


def run(
    settings: Settings, container_id: str, options: ViewOptions, awaited: StopPattern, pipe: int
) -> None:
    """Be the stepper of a container, in a process of its own; open every gate at the end."""
    every = options.step == gates.EVERY_EVENT
    controller = Controller(settings, container_id, awaited, pipe, every_event=every)
    try:
        level = "syscalls" if every else "stages"
        if not options.step:  # --snapshots alone: no key is asked for
            controller.running_on = True
            level = "summary" if options.style == "summary" else level
        if options.web.startswith("fd:"):
            source, target = map(int, options.web[3:].split(","))
            controller.follow(Piped(controller, source, target), level)
        elif options.web:
            _on_the_web(controller, options, level)
        else:
            controller.follow(_face(controller, options), level)
    except Exception as error:  # whatever it is: the run goes on, and the user hears of it
        text_of = f"{type(error).__name__}: {error}"
        os.write(2, f"minirun: --step ends here: {event_row.clean(text_of)}\n".encode())


def _on_the_web(controller: Controller, options: ViewOptions, level: str) -> None:
    page = face.WebFace(controller, int(options.web))
    try:
        controller.follow(page, level)
    finally:
        page.close()


def _face(controller: Controller, options: ViewOptions) -> Face:
    pipe, keyboard = controller.runtime_pipe, 0 if os.isatty(0) else -1
    played = keys.read_script(options.script) if options.script else []
    if not options.screen:
        chooser: keys.Chooser = keys.TerminalKeys(0, pipe)
        if options.script:
            chooser = keys.Script(
                played, keys.waiter(keyboard, pipe), passed=controller.has_passed,
                keyboard=keyboard == 0, rehearsed=options.rehearse,
            )  # fmt: skip
        show = options.show and not options.late
        return Lines(controller, chooser, show=show, style=options.style)
    terminal = Tty(keyboard, 2, pipe)
    face = screen.Screen(controller, terminal, None, controller.awaited.mark, large=options.large)
    if options.script:
        face.chooser = keys.Script(
            played, face.wait, passed=controller.has_passed, keyboard=keyboard == 0,
            rehearsed=options.rehearse,
        )  # fmt: skip
    return face
