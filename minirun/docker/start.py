"""docker's `start` and `restart`: of containers that `run IMAGE` or `create IMAGE` has made.

A container that has stopped starts again with its files; one that `create` has made goes on at the
gate of stage 7. runc's `start`, of a bundle's container, is minirun.cli.runc.control's.
"""

from __future__ import annotations

import os

from minirun.cli import words
from minirun.cli.flags import ANY, Flags, flag
from minirun.cli.output import show
from minirun.cli.several import each
from minirun.common import docker_record
from minirun.core.container import Container
from minirun.core.errors import CommandError, StateError, UsageError
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.docker import restarts
from minirun.docker.stop import seconds_of, stop
from minirun.engines import roots
from minirun.running import background, control, ends, lookup, supervise
from minirun.running.output import Leaving, OutputLimits
from minirun.running.supervise import SupervisorOptions

with lazy:
    from minirun.docker import attach
    from minirun.faces.inspect import given
    from minirun.gpu import share
    from minirun.gpu.asked.ways import installed_hook
    from minirun.oci.terminal import keys as detach


class Start(Flags):
    """Start containers: those that `create` has made, and those that have stopped."""

    command = "start"
    attach: bool = flag("-a")
    interactive: bool = flag("-i")
    detach_keys: str


class Restart(Flags):
    """Stop containers, and start them again."""

    command = "restart"
    signal: str = flag("-s")
    timeout: str = flag("-t", "--time")


def main_start(args: list[str], settings: Settings) -> int:
    """Start containers, and print their names; with -a or -i attach to one of them.

    Raises MinirunError, OSError.
    """
    flags = Start(args)
    flags.takes(1, ANY)
    if flags.attach or flags.interactive:
        if len(flags.args) > 1:
            text = "you cannot start and attach multiple containers at once"
            raise UsageError(text, "minirun start -a ID", 1)
        return _start_attached(_find(flags.args[0], settings), flags)
    if len(flags.args) == 1:
        start(_find(flags.args[0], settings))
        return show(flags.args)
    return each(flags.args, lambda name: start(_find(name, settings)))


def _start_attached(container: Container, flags: Start) -> int:
    """Start a container with its streams on this terminal; return its exit status."""
    if container.record.status != state.CREATED:
        options = _supervision(container, detach=False)._replace(interactive=flags.interactive)
        if flags.interactive and container.config.terminal and os.isatty(0):
            keys = detach.parse(flags.detach_keys)
            options = options._replace(leaving=Leaving(keys, background.step_aside()))
        return supervise.run(lambda: restarts.started_by_hand(container), options)
    return int(
        attach.attach(
            container, flags.detach_keys, stdin=flags.interactive,
            first=lambda: _begin(container),
        )
    )  # fmt: skip


def _find(name: str, settings: Settings) -> Container:
    return lookup.load(*roots.locate(settings, name, only_made_up=True), whole=True)


def main_restart(args: list[str], settings: Settings) -> int:
    """Stop containers and start them again; print their names. Raises UsageError, OSError."""
    flags = Restart(args)
    flags.takes(1, ANY)
    if flags.signal:
        words.signal_number(flags.signal)
    seconds = seconds_of(flags.timeout) if flags.timeout else None

    def restart_one(name: str) -> None:
        container = _find(name, settings)
        if not docker_record.of(container.record).managed:
            text = f"{name} was made from a bundle: its command runs once"
            raise StateError(text, "minirun run --bundle DIR ID")
        stop(container, flags.signal, seconds)
        start(_find(name, settings))

    return each(flags.args, restart_one)


def start(container: Container) -> None:
    """Start a container; one that runs is fine, as with docker. Raises MinirunError, OSError."""
    record = container.record
    if record.status == state.CREATED:
        _begin(container)
    elif record.status == state.STOPPED:
        if not docker_record.of(record).managed:
            raise StateError("cannot start a container that has stopped")
        options = _supervision(container, detach=True)
        background.start(lambda: restarts.started_by_hand(container), options)
    elif record.status != state.RUNNING:
        text = f"cannot start a container in the {record.status} state"
        raise StateError(text, "minirun ps -a shows the states")


def _begin(container: Container) -> None:
    """Let the command of a created container run. Raises MinirunError, OSError."""
    try:
        control.start(container)
    except CommandError as error:  # its supervisor has seen an init that ended, and no reason
        ends.save_failed_start(container, error)
        raise


def _supervision(container: Container, *, detach: bool) -> SupervisorOptions:
    """Return how the container is looked after: as its record says."""
    record = container.record
    docker = docker_record.of(record)
    limits = OutputLimits(**docker.output) if docker.output else None
    return SupervisorOptions(
        detach=detach, interactive=docker.interactive, auto_remove=docker.auto_remove,
        log=limits, begin=_claim_gpus, again=True,
    )  # fmt: skip


def _claim_gpus(container: Container) -> None:
    """Write down which GPUs it has, where no stage 5 does. Raises GPUError, OSError."""
    edits = given.edits_of(container.record)
    if container.config.choices.gpu_hook:
        installed_hook.record(container)
    elif "cdi" in given.saved_edits(container.record):
        gpus = tuple(gpu._replace(vendor=edits.driver) for gpu in edits.gpus)
        share.record_holders(container, gpus, edits.simulated)
