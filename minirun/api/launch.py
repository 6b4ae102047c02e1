"""minirun.run: a new container, its stages shown in the notebook's cell while they happen."""

import contextlib
import os
import signal
import subprocess
import sys
from typing import NamedTuple

from minirun.api.child import Child
from minirun.api.container import REMOVED, Container
from minirun.api.stream import Show, screen
from minirun.core import places
from minirun.core.errors import MinirunError, StateError, UsageError
from minirun.show.event import Tail

_CAP_SYS_ADMIN = 21
_PATIENCE = 10.0
"""Seconds that minirun gets to end a container in order."""


class Able(NamedTuple):
    """The answer of can_run: true if containers can be made here; if not, it has the reason."""

    able: bool
    reason: str

    def __bool__(self) -> bool:
        return self.able


class RunError(MinirunError):
    """minirun could not run the command; `container.timeline` shows how far it came."""

    def __init__(self, text: str, status: int, container: Container) -> None:
        super().__init__(text, status=status)
        self.container = container


def can_run() -> Able:
    """Return True if this process may make containers: Linux, and the rights of root."""
    if sys.platform != "linux":
        return Able(False, f"containers need Linux, and this is {sys.platform}")
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        held = next(line.split()[1] for line in file if line.startswith("CapEff:"))
    if not int(held, 16) >> _CAP_SYS_ADMIN & 1:
        return Able(False, f"containers need root (CAP_SYS_ADMIN), and this is user {os.getuid()}")
    return Able(True, "")


def run(
    image: str,
    *command: str,
    gpus: "str | None" = None,
    detach: bool = False,
    name: "str | None" = None,
    stream: bool = True,
    snapshots: bool = False,
    **flags: "str | float | bool | list[str] | None",
) -> Container:
    """Run a command in a new container, as `minirun run` does, and return the container.

    It waits for the command's end, or with `detach` for its start. `stream` shows the stages and
    the output as they come. `snapshots` records the container's state at each boundary of a stage.
    Other flags are the command line's, with _ for -: memory="64m", read_only=True, env=["A=1"].

    Raises UsageError if no container can be made here, RunError if minirun could not do it.
    A command that fails is no error: see `exit_status`. An interrupt removes the container.
    """
    able, reason = can_run()
    if not able:
        raise UsageError(reason, 'minirun.replay("gpus-0-1") shows a recorded run')
    if flags.get("rm"):
        raise UsageError("rm=True would take the container away", "with minirun.run(…) as c: …")
    container = Container(name or os.urandom(6).hex())
    taken = container.status != REMOVED
    given = {"gpus": gpus, "detach": detach, "snapshots": snapshots, **flags}
    words = ["run", "--quiet", "--name", container.id, *_flags(given), "--", image, *command]
    child = Child(container.place.argv(*words))
    try:
        echo = ("stderr",) if detach else ("stdout", "stderr")  # `run -d` prints the id
        status = _follow(child, container, screen() if stream else None, echo if stream else ())
    except BaseException:
        _end(child, None if taken else container)
        raise
    ours = (detach and status == 0) or container.supervisor == child.process.pid
    if not ours:
        reason = child.errors.strip().rpartition("\n")[2].removeprefix("minirun: ")
        raise RunError(reason or f"minirun ended with status {status}", status, container)
    return container


def _follow(child: Child, container: Container, show: Show | None, echo: tuple[str, ...]) -> int:
    """Show the run, and what comes on the streams `echo`, until minirun ends; its exit status."""
    tail = Tail(f"{container.place.root}/{container.id}/{places.EVENTS}")

    def show_new() -> None:
        if show:
            show(tail.events(), False)

    def on_output(name: str, text: str) -> None:
        show_new()  # what was done before it was said
        if name in echo:
            (sys.stdout if name == "stdout" else sys.stderr).write(text)

    try:
        status = child.follow(on_output, show_new)
        if show and tail.fd < 0:  # it failed before we looked, and its log is history
            with contextlib.suppress(StateError):
                show(container.timeline, False)
    finally:
        tail.close()
        if show:
            show([], True)
    return status


def _end(child: Child, container: "Container | None") -> None:
    """End a run that is not waited for any more, and remove its container."""
    child.close()
    child.process.send_signal(signal.SIGINT)  # before its command runs, minirun ends in order
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.process.wait(0.5)
    if container:
        container.place.call("delete", "--force", container.id)
    try:
        child.process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.process.kill()
        child.process.wait()


def _flags(given: "dict[str, str | float | bool | list[str] | None]") -> list[str]:
    """Return keyword arguments as flags of the command line."""
    words = []
    for key, value in given.items():
        flag = "--" + key.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        else:
            values = value if isinstance(value, list) else [value]
            words += [f"{flag}={each}" for each in values]
    return words
