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
from minirun.image import workshop
from minirun.net import network, upkeep
from minirun.running import gc as orphans
from minirun.running import shelves, volumes


class Gc(Flags):
    """Finish what killed commands left behind."""

    command = "gc"
    dry_run: bool = flag("-n")


def main_gc(args: list[str], settings: Settings) -> int:
    """Collect; print one line for each thing that goes."""
    flags = Gc(args)
    flags.none()
    for name in (orphans.abandoned if flags.dry_run else orphans.remove_abandoned)(settings.root):
        _show_removed(name, "its maker died", dry=flags.dry_run)
    failed = _collect(settings, dry=flags.dry_run)
    if os.path.isdir(network.folder(settings.store)):
        for name in upkeep.sweep(settings.store, dry=flags.dry_run):
            _show_removed(name, "its container is gone", dry=flags.dry_run)
        if not upkeep.is_whole(settings.store):
            names = ", ".join([] if flags.dry_run else upkeep.reload(settings.store))
            done = f"drew anew the rules of networks {names}" if names else "would draw rules anew"
            show([f"{done}: another program had removed them"])
    if not flags.dry_run:
        for name in shelves.sweep_attempts(settings.root) if os.path.isdir(settings.root) else ():
            _show_removed(name, "its doctor died", dry=False)
        for name in volumes.sweep(settings.store):
            _show_removed(name, "its maker died", dry=False)
        _sweep_images(settings.store)
    return 1 if failed else 0


def _collect(settings: Settings, *, dry: bool) -> int:
    """Remove the containers that are orphans; return the number of those that failed."""
    failed = 0
    for container_id in state.names(settings.root):
        name = state.shown_name(f"{settings.root}/{container_id}")
        try:
            what, reason = orphans.collect(settings, container_id, dry=dry)
            if what:
                _show_removed(name, reason, dry=dry, what=what)
        except ForeignDirectory as error:
            warn(f"{settings.root}/{container_id} is left: {error.reason}")
        except (MinirunError, OSError) as caught:
            failure = from_os(caught) if isinstance(caught, OSError) else caught
            say(f"{name}: {failure.line()}")
            failed += 1
    return failed


def _sweep_images(store: str) -> None:
    """Remove images that were never finished. They are the workshop's, so without it they stay."""
    try:
        removed = workshop.call("sweep")(store)
    except ModuleNotFoundError as error:
        reason = workshop.missing(error)
        if reason is None:
            raise
        warn(f"images that were never finished are not looked for: {reason.line()}")
        return
    for path in removed:
        _show_removed(path, "an image that was never finished", dry=False)


def _show_removed(name: str, reason: str, *, dry: bool, what: str = "removed") -> None:
    would = "would stop" if what == "stopped" else "would remove"
    show([f"{would if dry else what} {name}: {reason}"])
