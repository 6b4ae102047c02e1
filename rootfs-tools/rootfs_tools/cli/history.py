"""`minirun history`: how an image was made, step by step, and what each layer holds."""

from __future__ import annotations

import json
import time

from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.common import table
from minirun.core.keeping.settings import Settings
from minirun.faces.inspect.sizes import human
from minirun.faces.show.template import formats
from minirun.faces.show.template.values import Fields
from minirun.running import moments
from rootfs_tools import catalogue
from rootfs_tools.cli import image_rows
from rootfs_tools.history import HistoryRow, steps

_HEADER = ("CREATED", "CREATED BY", "SIZE", "FILES", "COMMENT")
FIELDS = {
    "ID": "IMAGE", "CreatedSince": "CREATED", "CreatedAt": "CREATED AT", "CreatedBy": "CREATED BY",
    "Size": "SIZE", "Comment": "COMMENT",
}  # fmt: skip
"""Fields of --format, and what stands above each as a column."""
_WIDTH = 45


class HistoryOf(Flags):
    """Show the history of an image."""

    command = "history"
    format: str = flag(default="table")
    human: str = flag("-H", default="true", optional="true")
    no_trunc: bool
    quiet: bool = flag("-q")
    json: bool


def main(args: list[str], settings: Settings) -> int:
    """Print an image's history, the topmost layer first as docker does; return 0."""
    flags = HistoryOf(args)
    flags.takes(1)
    flags.check("human", "true", "false")
    found = steps(settings.store, flags.args[0])[::-1]
    if flags.json:
        rows = [
            step._asdict() | {"changes": step.changes and step.changes._asdict()} for step in found
        ]
        return show(json.dumps(rows, indent=2).split("\n"))
    plain, whole = flags.human == "false", flags.no_trunc
    if flags.quiet or flags.format != "table":
        own = image_rows.fields(catalogue.details(settings.store, flags.args[0]), whole)["ID"]
        shown = [_fields(step, whole, plain) for step in found]
        for number, row in enumerate(shown):
            row["ID"] = "<missing>" if number else own
        form = "{{.ID}}" if flags.quiet else flags.format
        return write(formats.lines(form, shown, FIELDS))
    return write(table.text([_HEADER, *(_row(step, whole, plain) for step in found)], 3))


def _made(step: HistoryRow, whole: bool) -> str:
    made = step.created_by
    return made if whole or len(made) <= _WIDTH else f"{made[: _WIDTH - 1]}…"


def _fields(step: HistoryRow, whole: bool, plain: bool) -> Fields:
    """Return what a template sees of a step."""
    try:
        ago = f"{moments.age(time.time() - moments.moment(step.created))} ago"
    except ValueError:
        ago = "N/A"
    size = step.changes.size if step.changes else 0
    return Fields({
        "ID": "", "CreatedAt": step.created, "CreatedSince": step.created if plain else ago,
        "CreatedBy": _made(step, whole), "Size": str(size) if plain else human(size),
        "Comment": step.comment,
    })  # fmt: skip


def _row(step: HistoryRow, whole: bool, plain: bool) -> tuple[str, ...]:
    size, files = "0B", ""
    if step.changes:
        size = str(step.changes.size) if plain else human(step.changes.size)
        files = f"+{step.changes.added} ~{step.changes.changed} -{step.changes.removed}"
    return step.created[:19] or "-", _made(step, whole), size, files, step.comment
