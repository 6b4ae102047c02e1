"""`minirun pause` and `resume`: the freezer of the container's cgroup.

cgroups(7): version 1 has a controller for it (freezer.state), version 2 a file in every cgroup
(cgroup.freeze). Whether a container is paused is asked of the kernel each time, so a crash between
the two leaves nothing to repair.
"""

from minirun.cli.flags import HELP, one_id, parse, show_help
from minirun.core import state
from minirun.core.errors import StateError
from minirun.core.settings import Settings
from minirun.running import existing


def main_pause(args: "list[str]", settings: Settings) -> int:
    """Stop all processes of a container where they are."""
    flags = parse("pause", (HELP,), args, mixed=True)
    if flags.help:
        return show_help("pause", "ID", "Suspend all processes of a container.", (HELP,))
    container = existing.load(settings, one_id("pause", flags))
    if container.record["status"] not in (state.CREATED, state.RUNNING):
        raise StateError("container not running", f"it is {container.record['status']}")
    container.cgroup.freeze()
    return 0


def main_resume(args: "list[str]", settings: Settings) -> int:
    """Let the processes of a paused container go on."""
    flags = parse("resume", (HELP,), args, mixed=True)
    if flags.help:
        return show_help("resume", "ID", "Let a paused container go on.", (HELP,))
    container = existing.load(settings, one_id("resume", flags))
    if container.record["status"] != state.PAUSED:
        raise StateError("container not paused", f"it is {container.record['status']}")
    container.cgroup.thaw()
    return 0
