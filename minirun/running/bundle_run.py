"""runc's `run`: a container of a bundle, from its making to its end."""

from __future__ import annotations

import os

from minirun.core import endings, lifecycle, rings
from minirun.core.container import Container
from minirun.core.handshake import Init
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.running import bundle, handover, notify, output, readiness, signals


def run(options: bundle.BundleOptions, settings: Settings) -> int:
    """Run a bundle's config.json as it is; return its exit status, or with `detach` 0.

    A terminal that config.json asks for is relayed to the caller's own, unless a console socket is
    named. Raises MinirunError, OSError.
    """
    relayed = not options.detach
    container = bundle.new_container(options, settings, relayed=relayed, notified=True)
    streams = None
    try:
        signals.catch()
        notify.make_directory(container.directory)
        if container.config.terminal and not options.console_socket:
            streams = output.Streams(container, True, detach=False)
            container.console = streams.console
        init = lifecycle.create(container)
        if streams:
            streams.close_containers_ends()
        handover.announce(options.pid_file, options.pidfd_socket, init.pid, init.pidfd)
        ready = readiness.listen(container.directory)
        signals.forward_once_running(init.channel, init.pidfd)
        endings.start(container, init.channel, lambda: signals.forward(init.pidfd))
    except BaseException:
        endings.destroy(container)
        raise
    if container.console.socket >= 0 and not streams:
        os.close(container.console.socket)
    if options.detach:
        if ready:
            readiness.relay_or_warn(ready, init.pidfd, init.pid)
        return 0
    join = readiness.relay_aside(ready, init.pidfd, os.getpid()) if ready else None
    status = _wait(init, streams)
    if join:
        join()
    _end(container, status, keep=options.keep)
    return status


def _wait(init: Init, streams: output.Streams | None) -> int:
    """Wait for the container's end; return its exit status."""
    return streams.relay(init.pid, init.pidfd) if streams else endings.wait(init.pidfd, init.pid)


def _end(container: Container, status: int, *, keep: bool) -> None:
    """Delete the container, which has ended; to be kept are its record and its cgroup."""
    if keep:
        if not container.config.new_namespace("pid"):  # else init's end was that of all
            rings.function("kill_cgroup")(container.cgroup)
        ended = state.timestamp()
        container.save(
            container.record._replace(status=state.STOPPED, exit_status=status, finished=ended)
        )
    else:
        endings.destroy(container)
