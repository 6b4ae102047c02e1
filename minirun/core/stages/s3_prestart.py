"""Stage 3: the runtime runs each prestart hook of config.json, the container's state on its stdin.

Hooks run in the runtime's namespaces, one after the other, in the order of config.json: first the
prestart hooks, then the createRuntime hooks. NVIDIA's hook is not executed but called, in a child
process of its own, at its turn: stages 4 and 5 happen there, in-line, where they can be watched.
Hooks that config.json lists after it run when it has ended, and stage 3 goes on for them. With
`--gpu-mode hook` NVIDIA's hook is executed like the others, and stages 4 and 5 are its own.
"""

from __future__ import annotations

import os

from minirun.core import events, hooks
from minirun.core.config import GPU_HOOK, Config
from minirun.core.container import Container
from minirun.core.errors import HookError, MinirunError, from_os
from minirun.core.hooks import HookProcess
from minirun.core.keeping import jsonlite
from minirun.core.keeping import state as oci_state
from minirun.core.keeping.record import Record
from minirun.core.kernel import process
from minirun.core.lazy import lazy
from minirun.core.stages import s4_arguments

with lazy:
    from minirun.core.stages import s5_inject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from minirun.core.handshake import Init


class PlannedHook(Record):
    """One hook of stage 3: its kind, its number among these, its row of config.json."""

    kind: str
    number: int
    hook: dict[str, Any]
    in_line: bool


def load(config: Config) -> None:
    """Import what the in-line hook runs, if there is one, while init builds its root filesystem."""
    if any(turn.in_line for turn in planned_hooks(config)):
        lazy.load("minirun.core.stages.s5_inject")


def runtime(container: Container, init: Init) -> None:
    """Run the prestart hooks, then the createRuntime hooks. Raises HookError, OSError."""
    state = container.oci_state(oci_state.CREATING)
    waiting = planned_hooks(container.config)
    why = "in the host's namespaces"
    while True:
        in_line = None
        try:
            with events.stage(3, "runtime", "run the prestart hooks", why):
                if not waiting:
                    events.emit("note", "no prestart hook", why="stages 4 and 5 have nothing to do")
                while waiting and not waiting[0].in_line:
                    turn = waiting.pop(0)
                    hooks.run(*turn[:3], state, container.config.bundle)
                if waiting:
                    in_line = _start(container, init, waiting.pop(0).hook.get("timeout"))
                    to = {"to": "hook"}
                    events.emit("message", "STATE", to, why="on its standard input, as JSON")
            if in_line:
                _finish(in_line, state)
        finally:
            if in_line:
                in_line.close()
        if not waiting:
            return


def planned_hooks(config: Config) -> list[PlannedHook]:
    """Return the hooks of stage 3, in the order in which they run."""
    return [PlannedHook(*row, config.in_line(row[2])) for row in config.hooks_of_stage_3()]


def _start(container: Container, init: Init, timeout: int | None) -> HookProcess:
    """Clone the process of the in-line hook. Raises OSError."""
    parent = os.getpid()
    if container.gates:
        timeout = None  # a viewer may hold it at a gate for as long as they like
    return hooks.clone(
        lambda stdin, stdout: _hook(container, init, stdin, stdout, parent),
        timeout, why="the GPU hook, in-line: the real runtime executes a program here",
    )  # fmt: skip


def _finish(in_line: HookProcess, state: dict[str, Any]) -> None:
    """Give the in-line hook its state, wait for its end. Raises HookError, OSError."""
    status = in_line.converse(state, GPU_HOOK)
    if status == 0:
        return
    if not in_line.output:
        raise HookError(f"{GPU_HOOK}: {hooks.ending(status)}")
    report = jsonlite.loads(in_line.output.decode())
    raise HookError(f"{GPU_HOOK}: {report['text']}", report["hint"])


def _hook(container: Container, init: Init, stdin: int, stdout: int, parent: int) -> NoReturn:
    """In the child: read the state, do stages 4 and 5, report what fails, exit."""
    try:
        init.channel.close()  # clone has copied the runtime's ends
        events.become("hook", os.getpid())
        process.prctl(process.PR_SET_PDEATHSIG, 9, why="the hook dies with the runtime")
        process.become_named("minirun:hook")
        with open(stdin, encoding="utf-8") as file:
            text = file.read()
        if not text or os.getppid() != parent:
            os._exit(1)  # the runtime has given up
        state: dict[str, Any] = jsonlite.loads(text)
        argv = s4_arguments.hook(state, container.config.choices)
        if argv:
            s5_inject.cli(container, argv, state["pid"])
        os._exit(0)
    except BaseException as error:
        _report(stdout, error)
    finally:
        os._exit(1)


def _report(stdout: int, error: BaseException) -> None:
    """Write what went wrong to the runtime, as JSON."""
    if isinstance(error, OSError):
        error = from_os(error)
    hint = error.hint if isinstance(error, MinirunError) else ""
    text = str(error) or type(error).__name__
    os.write(stdout, jsonlite.dumps({"text": text[:3000], "hint": hint[:3000]}).encode())
