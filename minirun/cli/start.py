"""`minirun start`: runc's, to the letter (runtime.md, "Start")."""

import os

from minirun.cli.flags import HELP, one_id, parse, show_help
from minirun.core import endings, state
from minirun.core.errors import StateError
from minirun.core.handshake import Channel
from minirun.core.settings import Settings
from minirun.running.existing import load


def main(args: "list[str]", settings: Settings) -> int:
    """Let a created container run its command."""
    flags = parse("start", (HELP,), args, mixed=True)
    if flags.help:
        return show_help("start", "ID", "Let a created container run its command.", (HELP,))
    container = load(settings, one_id("start", flags))
    status = container.record["status"]
    if status == state.STOPPED:
        raise StateError("cannot start a container that has stopped")
    if status != state.CREATED:
        text = f"cannot start a container in the {status} state"
        raise StateError(text, "minirun ps -a shows the states")
    container.open_log()
    report = os.open(f"{container.directory}/init.fifo", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(report, True)
    endings.start(container, Channel(report, -1, "init"))
    return 0
