"""What engines ask most often, so it loads next to nothing: `minirun state`, `list`, `features`.

All are runc's. `minirun ps` is friendlier than `list`, which has runc's columns and words, for
programs that parse them. dockerd and containerd ask for `features` and `--version` once.
"""

from __future__ import annotations

import sys

from minirun import __version__
from minirun.cli.flags import Flags, flag
from minirun.cli.output import show, write
from minirun.core.keeping import jsonlite, state
from minirun.core.keeping.settings import Settings
from minirun.core.lazy import lazy
from minirun.engines import roots
from minirun.running import listing
from minirun.running.visible_json import clean_json

with lazy:
    from minirun.common import table
    from minirun.oci import features

COLUMNS = ("id", "pid", "status", "bundle", "created", "owner")
_NARROWEST, _GAP = 12, 3
"""How wide runc makes columns, and how far apart."""


class List(Flags):
    """List containers, as runc does."""

    command = "list"
    format: str = flag("-f", default="table")
    quiet: bool = flag("-q")


def main_state(args: list[str], settings: Settings) -> int:
    """Print a container's state as JSON (runtime.md, "Query State")."""
    name = Flags(args, "state").one_id()
    record = state.load(settings.root, roots.own(settings, name))
    return write(clean_json(jsonlite.dumps(state.public(record), indent=2)) + "\n")


def main_list(args: list[str], settings: Settings) -> int:
    """Print all containers below the state root."""
    flags = List(args)
    flags.none()
    flags.check("format", "table", "json")
    found = listing.records(settings.root)
    rows = [state.public(one) | {"owner": listing.owner(one.directory)} for one in found]
    if flags.quiet:
        lines = [row["id"] for row in rows]
    elif flags.format == "json":
        return write(jsonlite.dumps(rows) + "\n")
    else:
        cells = [[str(row[name]) for name in COLUMNS] for row in rows]
        head = [name.upper() for name in COLUMNS]
        lines = table.aligned([head, *cells], _GAP, _NARROWEST)
    return show(lines)


def main_features(args: list[str], settings: Settings) -> int:
    """Print the features document of the runtime-spec (features.md)."""
    Flags(args, "features").none()
    return write(jsonlite.dumps(features.document(), indent=4) + "\n")


def version() -> int:
    """Print what dockerd and podman parse: name and version, commit, spec."""
    return show((
        f"minirun version {__version__}", f"commit: v{__version__}", f"spec: {state.OCI_VERSION}",
        f"python: {sys.version.split()[0]}",
    ))  # fmt: skip
