"""`minirun image gc`, `minirun system df`: what takes room on the disk, and what need not."""

from __future__ import annotations

from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.core.errors import from_os
from minirun.core.keeping.settings import Settings
from minirun.core.keeping.visible import warn
from minirun.faces.inspect.sizes import human
from minirun.faces.show.template import formats
from minirun.faces.show.template.values import Fields
from minirun.running import store_use
from rootfs_tools import gc, usage

_FIELDS = {
    "Active": "ACTIVE", "Reclaimable": "RECLAIMABLE", "Size": "SIZE", "TotalCount": "TOTAL",
    "Type": "TYPE",
}  # fmt: skip
_TABLE = "table {{.Type}}\t{{.TotalCount}}\t{{.Active}}\t{{.Size}}\t{{.Reclaimable}}"


class ImageGc(Flags):
    """Remove unused layers."""

    command = "image gc"


class Df(Flags):
    """Say what takes room."""

    command = "system df"
    format: str = flag(default="table")
    verbose: bool = flag("-v")


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
    form = _TABLE if flags.format == "table" else flags.format
    shown = [_fields(row) for row in rows(settings, flags.verbose)]
    return write(formats.lines(form, shown, _FIELDS))


def rows(settings: Settings, parts: bool = False) -> list[usage.UsageRow]:
    """Return what takes room, by docker's kinds; `parts`: what images are made of, apart.

    Raises ImageError.
    """
    try:
        used = store_use.find(settings)
        records, layers, archives, builds = usage.usage(settings.store, used.layers, used.images)
        containers = usage.containers(used.directories)
        volumes = usage.volumes(settings.store, set().union(*used.volumes.values()))
    except OSError as error:
        raise from_os(error, "system df") from None
    for path in used.damaged:
        warn(f"{path} is not counted: its record is damaged")
    images = [records, layers, archives] if parts else [usage.added(records, layers, archives)]
    return [*images, containers, volumes, builds]


def _fields(row: usage.UsageRow) -> Fields:
    share = f" ({100 * row.reclaimable // row.size}%)" if row.size else ""
    return Fields(
        Active=str(row.active), Reclaimable=f"{human(row.reclaimable)}{share}",
        Size=human(row.size), TotalCount=str(row.total), Type=row.kind,
    )  # fmt: skip
