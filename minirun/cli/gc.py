"""`minirun gc`: finish what killed commands left behind.

All that a container has made is named in its state.json, which is written first. What is collected:
directories without a container's name (minirun.core.directories), containers whose creation was cut
off, and containers whose supervisor died. What `create` made and what has simply stopped stays.
What has no record of minirun's is named and left.
"""

import os
import sys

from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.core import endings, places, state
from minirun.core.errors import MinirunError, StateError, from_os
from minirun.core.settings import Settings
from minirun.core.state_file import ForeignDirectory
from minirun.core.visible import clean, say, warn
from minirun.image import catalogue
from minirun.running import abandoned, existing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = (Flag(("-n", "--dry-run"), "", "say what would go, and keep it"), HELP)


def main(args: "list[str]", settings: Settings) -> int:
    """Collect; print one line for each thing that goes."""
    flags = parse("gc", FLAGS, args, mixed=True)
    if flags.help:
        text = "Finish what killed commands left behind."
        sys.stdout.write(usage("gc", "", text, FLAGS))
        return 0
    if not flags.dry_run:
        for path in catalogue.sweep(settings.store):
            _say(path, "an image that was never finished", dry=False)
    for name in (abandoned.names if flags.dry_run else abandoned.remove)(settings.root):
        _say(name, "its maker died", dry=flags.dry_run)
    failed = 0
    for container_id in state.names(settings.root):
        try:
            collect(settings, container_id, dry=flags.dry_run)
        except ForeignDirectory as error:
            warn(f"{settings.root}/{container_id} is left: {error.reason}")
        except MinirunError as error:
            say(f"{container_id}: {error.line()}")
            failed += 1
        except OSError as error:
            say(f"{container_id}: {from_os(error).line()}")
            failed += 1
    return 1 if failed else 0


def collect(settings: Settings, container_id: str, *, dry: bool) -> None:
    """Remove one container where it is an orphan. Raises MinirunError, OSError."""
    if not state.is_id(container_id):
        raise ForeignDirectory(
            places.container(settings.root, container_id), "its name is no container's"
        )
    try:
        record = state.load(settings.root, container_id)
        reason = why_orphan(record)
        if reason and not dry:
            endings.destroy(existing.load(settings, container_id))
    except StateError:
        if os.path.lexists(places.container(settings.root, container_id)):
            raise
        return  # another command has finished it meanwhile
    if reason:
        _say(container_id, reason, dry)


def why_orphan(record: "dict[str, Any]") -> str:
    """Return why a container is to be collected; empty where it is not."""
    if state.is_alive(record["supervisor"]):
        return ""
    if not record["complete"]:
        return "its creation was cut off"
    if not record["managed"]:
        return ""
    if "exit_status" not in record:
        return "its supervisor died"
    return "it was to be removed at its end" if record["auto_remove"] else ""


def _say(name: str, reason: str, dry: bool) -> None:
    sys.stdout.write(f"{'would remove' if dry else 'removed'} {clean(name)}: {reason}\n")
