"""`minirun image gc`, `minirun system df`: what takes room on the disk, and what need not."""

from __future__ import annotations

import json

from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.common import table
from minirun.core.errors import from_os
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import warn
from minirun.faces.inspect.sizes import human
from minirun.running import store_use
from rootfs_tools import gc, usage

_HEADER = ("TYPE", "TOTAL", "ACTIVE", "SIZE", "RECLAIMABLE")


class ImageGc(Flags):
    """Remove unused layers."""

    command = "image gc"


class Df(Flags):
    """Say what takes room."""

    command = "system df"
    format: str = flag(default="table")


def main_gc(args: list[str], settings: Settings) -> int:
    """Remove unused layers; print each path. Raises ImageError."""
    ImageGc(args).none()
    removed, freed = collect(settings)
    show(f"removed {path}: no image and no container needs it" for path in removed)
    return show([f"Total reclaimed space: {human(freed)}"])


def collect(settings: Settings) -> tuple[list[str], int]:
    """Remove unused layers; return their paths, and the bytes that are free again.

    Raises ImageError.
    """
    try:
        before = _size(settings)
        removed = gc.collect(settings.store, lambda: store_use.find(settings).certain().layers)
        return removed, max(0, before - _size(settings))
    except OSError as error:
        raise from_os(error, "image gc") from None


def _size(settings: Settings) -> int:
    used = store_use.find(settings).certain()
    return sum(row.size for row in usage.usage(settings.store, used.layers, used.images))


def main_df(args: list[str], settings: Settings) -> int:
    """Print what takes room, by kind; return 0. Raises ImageError."""
    flags = Df(args)
    flags.none()
    flags.check("format", "table", "json")
    try:
        used = store_use.find(settings)
        rows = usage.usage(settings.store, used.layers, used.images)
        rows.append(usage.containers(used.directories))
    except OSError as error:
        raise from_os(error, "system df") from None
    for path in used.damaged:
        warn(f"{path} is not counted: its record is damaged")
    if flags.format == "json":
        return write(json.dumps([row._asdict() for row in rows], indent=2) + "\n")
    return write(table.text([_HEADER, *map(_line, rows)], 3))


def _line(row: usage.UsageRow) -> tuple[str, ...]:
    share = f" ({100 * row.reclaimable // row.size}%)" if row.size else ""
    free = f"{human(row.reclaimable)}{share}"
    return row.kind, str(row.total), str(row.active), human(row.size), free
