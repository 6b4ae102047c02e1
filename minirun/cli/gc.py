"""`minirun gc`: finish what killed commands left behind.

Everything a container ever made is named in its state.json, which was there first. What is
collected: directories that never got their name, containers whose creation was cut off, and
containers whose supervisor died. What `create` made and what has simply stopped stays.
"""

import os
import sys

from minirun import endings
from minirun.cli import existing
from minirun.cli.flags import HELP, Flag, parse, usage
from minirun.errors import MinirunError, StateError
from minirun.image import catalogue
from minirun.oci import state
from minirun.rootfs.tree import remove_tree
from minirun.settings import NEW, Settings

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
    failed = 0
    if not flags.dry_run:
        for path in catalogue.sweep(settings.store):
            _say(path, "an image that was never finished", dry=False)
    _drop_unnamed(settings.root, dry=flags.dry_run)
    for container_id in state.names(settings.root):
        try:
            failed += not collect(settings, container_id, dry=flags.dry_run)
        except (MinirunError, OSError) as error:
            sys.stderr.write(f"minirun: {container_id}: {error}\n")
            failed += 1
    return 1 if failed else 0


def collect(settings: Settings, container_id: str, *, dry: bool) -> bool:
    """Remove one container where it is an orphan; return whether all is well."""
    directory = f"{settings.root}/{container_id}"
    try:
        record = state.load(settings.root, container_id)
    except StateError:
        if os.path.isdir(directory) and not os.path.exists(f"{directory}/state.json"):
            _say(container_id, "no record", dry)
            if not dry:
                remove_tree(directory)
        return True
    reason = why_orphan(record)
    if reason:
        _say(container_id, reason, dry)
        if not dry:
            _destroy(settings, container_id)
    return True


def _destroy(settings: Settings, container_id: str) -> None:
    """Finish a container; that somebody else has finished it meanwhile is no error."""
    try:
        endings.destroy(existing.load(settings, container_id))
    except StateError:
        directory = f"{settings.root}/{container_id}"
        if os.path.exists(f"{directory}/state.json"):
            raise
        remove_tree(directory)


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


def _drop_unnamed(root: str, *, dry: bool) -> None:
    """Remove directories that were to become containers and whose maker is gone."""
    nurseries = f"{root}/{NEW}"
    if not os.path.isdir(nurseries):
        return
    for nursery in os.listdir(nurseries):
        for name in os.listdir(f"{nurseries}/{nursery}"):
            if not os.path.exists(f"/proc/{name.partition('-')[0]}"):
                _say(f"{NEW}/{nursery}/{name}", "its maker died", dry)
                if not dry:
                    remove_tree(f"{nurseries}/{nursery}/{name}")


def _say(name: str, reason: str, dry: bool) -> None:
    sys.stdout.write(f"{'would remove' if dry else 'removed'} {name}: {reason}\n")
