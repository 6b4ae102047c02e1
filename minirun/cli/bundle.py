"""`minirun run --bundle DIR ID`: runc's `run`, with runc's flags, before or after the id.

Without -d the caller waits for the container and gets its exit status; a terminal that config.json
asks for is then relayed to the caller's own, unless a console socket is named. minirun is never a
subreaper: the container's init is its child, and everything in a pid namespace is init's.
"""

import os

from minirun.cli import oci
from minirun.cli.flags import Flag, Parsed, parse
from minirun.core import endings, lifecycle, state
from minirun.core.container import Container
from minirun.core.settings import Settings
from minirun.core.stages.s1_clone import Init
from minirun.running import output, signals


def run(args: "list[str]", known: "tuple[Flag, ...]", settings: Settings) -> int:
    """Run a bundle's config.json as it is. Raises MinirunError with status 1, OSError."""
    flags = parse("run", known, args, mixed=True)
    container = oci.new_container(flags, settings, relayed=not flags.detach)
    streams = None
    try:
        signals.catch()
        if container.config.terminal and not flags.console_socket:
            streams = output.Streams(container, True, detach=False)
            container.console = streams.console
        init = lifecycle.create(container)
        if streams:
            streams.close_containers_ends()
        oci.announce(flags, init.pid, init.pidfd)
        signals.forward_once_running(init.channel.is_closed, init.pidfd)
        endings.start(container, init.channel, lambda: signals.forward(init.pidfd))
    except BaseException:
        endings.destroy(container)
        raise
    if container.console.socket >= 0 and not streams:
        os.close(container.console.socket)
    return 0 if flags.detach else _wait(container, init, streams, flags)


def _wait(container: Container, init: Init, streams: "output.Streams | None", flags: Parsed) -> int:
    """Wait for the container's end, and delete it unless it is to be kept."""
    wait = streams.relay if streams else lambda pid, pidfd: endings.wait(pidfd, pid)
    status = wait(init.pid, init.pidfd)
    if flags.keep:
        endings.clear_cgroup(container)
        container.save(status=state.STOPPED, exit_status=status, finished=state.timestamp())
    else:
        endings.destroy(container)
    return status
