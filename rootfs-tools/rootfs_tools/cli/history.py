"""`minirun history`: how an image was made, step by step, and what each layer holds."""

from __future__ import annotations

import json

from minirun.cli.flags import Flags
from minirun.cli.output import show, write
from minirun.core.keeping.settings import Settings
from minirun.show.text import table
from rootfs_tools.cli.images import exactly, human
from rootfs_tools.history import HistoryRow, steps

_HEADER = ("CREATED", "CREATED BY", "SIZE", "FILES", "COMMENT")
_WIDTH = 45


class HistoryOf(Flags):
    """Show the history of an image."""

    command = "history"
    no_trunc: bool
    json: bool


def main(args: list[str], settings: Settings) -> int:
    """Print an image's history, the topmost layer first as docker does; return 0."""
    flags = HistoryOf(args)
    exactly(flags, 1, "minirun history IMAGE")
    found = steps(settings.store, flags.args[0])[::-1]
    if flags.json:
        rows = [
            step._asdict() | {"changes": step.changes and step.changes._asdict()} for step in found
        ]
        return show(json.dumps(rows, indent=2).split("\n"))
    return write(table.text([_HEADER, *(_row(step, flags.no_trunc) for step in found)], 3))


def _row(step: HistoryRow, whole: bool) -> tuple[str, ...]:
    made = step.created_by
    made = made if whole or len(made) <= _WIDTH else f"{made[: _WIDTH - 1]}…"
    size, files = "0B", ""
    if step.changes:
        size = human(step.changes.size)
        files = f"+{step.changes.added} ~{step.changes.changed} -{step.changes.removed}"
    return step.created[:19] or "-", made, size, files, step.comment
