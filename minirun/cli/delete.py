"""`minirun delete`: runc's, to the letter, and for more than one container."""

import os

from minirun.cli.flags import HELP, Flag, parse, show_help
from minirun.core import endings, places, state
from minirun.core import state_file as records
from minirun.core.errors import ConfigError, MinirunError, StateError, UsageError
from minirun.core.settings import Settings
from minirun.core.visible import warn
from minirun.running import abandoned, existing

FLAGS = (Flag(("-f", "--force"), "", "kill it first; none is no error"), HELP)


def main(args: "list[str]", settings: Settings) -> int:
    """Delete containers; a running one only with --force, which asks nothing of its state."""
    flags = parse("delete", FLAGS, args, mixed=True)
    if flags.help:
        return show_help("delete", "ID…", "Delete containers.", FLAGS)
    if not flags.args:
        raise UsageError('"minirun delete" needs at least one id', "minirun delete ID", 1)
    for container_id in flags.args:
        delete(settings, container_id, force=flags.force)
    return 0


def delete(settings: Settings, container_id: str, *, force: bool) -> None:
    """Delete one container. Raises StateError, OSError."""
    state.check_id(container_id)
    try:
        container = existing.load(settings, container_id)
    except (StateError, ConfigError) as error:
        if not force:
            raise
        _delete_without_record(settings, container_id, error)
        return
    status = container.record["status"]
    if status in (state.RUNNING, state.PAUSED, state.CREATING) and not force:
        text = f"cannot delete container {container_id} that is not stopped: {status}"
        raise StateError(text, f"minirun delete --force {container_id}")
    endings.destroy(container)


def _delete_without_record(settings: Settings, container_id: str, error: MinirunError) -> None:
    """Finish what a killed `delete` has begun, or end what has no whole record any more."""
    if isinstance(error, records.DamagedRecord):
        from minirun.running import salvage

        line = salvage.salvage(settings, container_id, error)
        warn(line)
    elif os.path.lexists(places.container(settings.root, container_id)):
        raise error
    else:
        abandoned.remove(settings.root)
