"""minirun.run: a new container, its stages shown in the notebook's cell while they happen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex

from minirun.core.errors import MinirunError, StateError
from minirun.core.keeping import places
from minirun.core.lazy import lazy
from minirun.faces.api.child import Child, Location, words_of
from minirun.faces.api.container import REMOVED, ContainerHandle
from minirun.faces.api.stream import OWN, Echo, Show, screen
from minirun.faces.show.log.event import Tail

with lazy:
    from minirun.common import two_words

FlagValue = str | float | bool | Collection[str] | Mapping[str, str | float | None] | None
"""What a flag of the command line may be as a keyword argument."""
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
    """minirun could not run the command; the text is the command line's, with what to do.

    `container.timeline` shows how far it came; `container` is None if nothing was begun.
    """

    def __init__(
        self, text: str, status: int = 125, container: ContainerHandle | None = None
    ) -> None:
        super().__init__(text, status=status)
        self.container = container

    def _render_traceback_(self) -> list[str]:
        """IPython's: the text alone, since the fault lies in the call and not in this package."""
        return [f"minirun.{type(self).__name__}: {self}"]


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
    *command: str | Sequence[str],
    gpus: str | Sequence[int | str] | None = None,
    detach: bool = False,
    name: str | None = None,
    stream: bool = True,
    snapshots: bool = False,
    **flags: FlagValue,
) -> ContainerHandle:
    """Run a command in a new container, as `minirun run` does, and return the container.

    It waits for the command's end, or with `detach` for its start. `stream` shows the stages and
    the output as they come. `snapshots` records the container's state at each boundary of a stage.
    The command may be words, one list, or one string: "nvidia-smi -L" (split, no shell runs it).
    `gpus`: [0, 1] are the GPUs 0 and 1, [] is no GPU at all; or what --gpus takes: "0,1", "all",
    "count=2", "none" (the driver without a GPU).
    Other flags are the command line's, with _ for -: memory="64m", read_only=True, env={"A": "1"}
    or env=["A=1"].

    Raises RunError if minirun could not do it, with what the command line would say, and removes
    what there is of the container. A command that fails is no error: see `exit_status`. An
    interrupt removes the container.
    """
    able, reason = can_run()
    if not able:
        raise RunError(f'{reason} (minirun.replay("gpus-0-1") shows a recorded run)')
    asked, wanted = asked_for(image, command, gpus)
    container = named(name)
    taken = container.status != REMOVED
    given = {"gpus": wanted, "detach": detach, "snapshots": snapshots, **flags}
    words = ["run", "--quiet", "--name", container.name, *flags_of(given), "--", *asked]
    child = Child(container.place.argv(*words))
    try:
        echo = ("stderr",) if detach else ("stdout", "stderr")  # `run -d` prints the id
        status = _follow(child, container, screen() if stream else None, echo if stream else ())
    except BaseException:
        _end(child, None if taken else container)
        raise
    if failed := container.never_began and not taken:
        container.remove()
    ours = (detach and status == 0) or container.supervisor == child.process.pid
    if failed or not ours:
        reason = child.errors.strip().rpartition("\n")[2].removeprefix(OWN)
        raise RunError(reason or f"minirun ended with status {status}", status, container)
    return container


def asked_for(
    image: str, command: tuple[str | Sequence[str], ...], gpus: str | Sequence[int | str] | None
) -> tuple[list[str], str | None]:
    """Return the words behind `minirun run --`, and the value of --gpus. Raises RunError."""
    if not isinstance(image, str):
        raise RunError(f'image={image!r} is no name of an image (minirun.run("ubuntu", "ls"))')
    try:
        return [image, *words_of(command)], gpus_of(gpus)
    except ValueError as error:
        raise RunError(str(error)) from None


def named(name: str | None) -> ContainerHandle:
    """Return the container of this name, or of a new one. Raises RunError."""
    try:
        return ContainerHandle(name or two_words.free_name(Location.usual().root))
    except StateError as error:
        raise RunError(error.line()) from None


def _follow(
    child: Child, container: ContainerHandle, show: Show | None, streams: tuple[str, ...]
) -> int:
    """Show the run, and what comes on the `streams`, until minirun ends; its exit status."""
    tail = Tail("")

    def show_new() -> None:
        tail.path = (
            f"{container.place.root}/{container.id}/{places.EVENTS}"  # known once it is there
        )
        if show:
            show(tail.events(), False)

    echo = Echo(streams)

    def on_output(name: str, text: str) -> None:
        show_new()  # what was done before it was said
        echo(name, text)

    def on_tick() -> None:
        show_new()
        echo.write_held()

    try:
        status = child.follow(on_output, on_tick)
        if status == 0 or container.supervisor == child.process.pid:
            echo.end()
        if show and tail.fd < 0:  # it failed before we looked, and its log is history
            with contextlib.suppress(StateError):
                show(container.timeline, False)
    finally:
        tail.close()
        if show:
            show([], True)
    return status


def gpus_of(asked: str | Sequence[int | str] | None) -> str | None:
    """Return the value of --gpus; None for no flag. Raises ValueError for a number alone."""
    if asked is None or isinstance(asked, str):
        return asked
    if isinstance(asked, int) and not isinstance(asked, bool):
        hint = f'gpus=[{asked}] is the GPU with index {asked}, gpus="count={asked}" any {asked}'
        raise ValueError(f"gpus={asked} could be an index or a count ({hint})")
    if not isinstance(asked, Sequence) or not all(map(_is_gpu, asked)):
        raise ValueError(f'gpus={asked!r} names no GPUs (gpus=[0, 1], gpus="all")')
    names = list(map(str, asked))
    return f"device={names[0]}" if len(names) == 1 else ",".join(names) or None


def _is_gpu(one: object) -> bool:
    """Return True for an index, of numpy too, and for a name; True and False are neither."""
    return isinstance(one, (str, SupportsIndex)) and not isinstance(one, bool)


def _end(child: Child, container: ContainerHandle | None) -> None:
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


def flags_of(given: Mapping[str, FlagValue]) -> list[str]:
    """Return keyword arguments as flags of the command line.

    Raises RunError for rm, and for a value that no flag has.
    """
    if given.get("rm"):
        raise RunError("rm=True would take the container away (with minirun.run(…) as c: …)")
    words = []
    for key, value in given.items():
        flag = "--" + key.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        else:
            words += [f"{flag}={each}" for each in _values(key, value)]
    return words


def _values(key: str, value: Any) -> list[str]:
    """Return each value that a flag gets: {"A": 1} is A=1, and {"A": None} the caller's own A.

    Raises RunError.
    """
    if isinstance(value, Mapping):
        pairs = value.items()
        return [f"{name}" if one is None else f"{name}={_text(key, one)}" for name, one in pairs]
    several = isinstance(value, Collection) and not isinstance(value, (str, bytes))
    return [_text(key, one) for one in value] if several else [_text(key, value)]


def _text(key: str, value: object) -> str:
    if not isinstance(value, (str, float, os.PathLike, SupportsIndex)):
        raise RunError(f'{key}={value!r} is no value of a flag ("A=1", ["A=1"], {{"A": "1"}})')
    return str(value)
