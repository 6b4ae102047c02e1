"""`minirun gc`: what killed commands left behind goes: minirun.running.gc."""

from __future__ import annotations

import os

from minirun.cli.flags import Flags, flag
from minirun.cli.output import show
from minirun.core.errors import MinirunError, from_os
from minirun.core.keeping import state
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.state_file import ForeignDirectory
from minirun.core.keeping.visible import say, warn
from minirun.doctor.attempts import sweep
from minirun.image import workshop
from minirun.running import gc as orphans


class Gc(Flags):
    """Finish what killed commands left behind."""

    command = "gc"
    dry_run: bool = flag("-n")


def main_gc(args: list[str], settings: Settings) -> int:
    """Collect; print one line for each thing that goes."""
    flags = Gc(args)
    flags.none()
    if not flags.dry_run:
        for path in workshop.call("sweep")(settings.store):
            _show_removed(path, "an image that was never finished", dry=False)
        for name in sweep(settings.root) if os.path.isdir(settings.root) else ():
            _show_removed(name, "its doctor died", dry=False)
    for name in (orphans.abandoned if flags.dry_run else orphans.remove_abandoned)(settings.root):
        _show_removed(name, "its maker died", dry=flags.dry_run)
    failed = 0
    for container_id in state.names(settings.root):
        try:
            if reason := orphans.collect(settings, container_id, dry=flags.dry_run):
                _show_removed(container_id, reason, dry=flags.dry_run)
        except ForeignDirectory as error:
            warn(f"{settings.root}/{container_id} is left: {error.reason}")
        except (MinirunError, OSError) as caught:
            failure = from_os(caught) if isinstance(caught, OSError) else caught
            say(f"{container_id}: {failure.line()}")
            failed += 1
    return 1 if failed else 0


def _show_removed(name: str, reason: str, *, dry: bool) -> None:
    show([f"{'would remove' if dry else 'removed'} {name}: {reason}"])
